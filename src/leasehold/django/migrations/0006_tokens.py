from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0005_worker_names")]
    operations = [ApplyMigration(6)]
