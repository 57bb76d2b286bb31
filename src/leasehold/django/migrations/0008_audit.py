from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0007_overrides")]
    operations = [ApplyMigration(8)]
