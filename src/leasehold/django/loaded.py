"""Sets up the project for processes that Django did not start: `leasehold worker leasehold.django.loaded`."""

import django

django.setup()

from leasehold.django.project import app  # noqa: E402

__all__ = ["app"]
