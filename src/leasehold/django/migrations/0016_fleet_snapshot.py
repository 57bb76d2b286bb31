from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0015_usage")]
    operations = [ApplyMigration(16)]
