from django.db import migrations

from leasehold.django.operations import ApplyMigration


class Migration(migrations.Migration):
    initial = True
    operations = [ApplyMigration(1)]
