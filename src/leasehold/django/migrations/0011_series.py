from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0010_row_security")]
    operations = [ApplyMigration(11)]
