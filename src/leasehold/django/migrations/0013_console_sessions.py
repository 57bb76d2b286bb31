from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0012_cheaper_figures")]
    operations = [ApplyMigration(13)]
