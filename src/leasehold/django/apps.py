"""What Django calls an app: its label, its migrations, and what happens when a project starts."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from leasehold.django.place import remember_names


class LeaseholdConfig(AppConfig):
    name = "leasehold.django"
    label = "leasehold"
    verbose_name = "Leasehold"

    def ready(self) -> None:
        """Every installed app may have a jobs.py: a project's definitions are known wherever it runs."""
        remember_names()
        autodiscover_modules("jobs")
