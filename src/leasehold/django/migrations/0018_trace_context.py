from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0017_saved_views")]
    operations = [ApplyMigration(18)]
