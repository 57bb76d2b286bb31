from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0016_fleet_snapshot")]
    operations = [ApplyMigration(17)]
