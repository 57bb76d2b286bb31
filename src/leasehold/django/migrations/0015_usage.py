from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0014_error_groups")]
    operations = [ApplyMigration(15)]
