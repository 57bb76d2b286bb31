from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0013_console_sessions")]
    operations = [ApplyMigration(14)]
