"""The Django app: its label, its migrations, and the start of a project."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from leasehold.django.project_settings import remember_names


class LeaseholdConfig(AppConfig):
    name = "leasehold.django"
    label = "leasehold"
    verbose_name = "Leasehold"

    def ready(self) -> None:
        """Imports jobs.py of every installed app, so that the project's definitions are known in every process."""
        remember_names()
        autodiscover_modules("jobs")
