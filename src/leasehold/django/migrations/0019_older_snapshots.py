from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    dependencies = [("leasehold", "0018_trace_context")]
    operations = [ApplyMigration(19)]
