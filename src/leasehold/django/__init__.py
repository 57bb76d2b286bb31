"""Leasehold in a Django project: jobs are committed, or rolled back, with the models they are about.

    INSTALLED_APPS = [..., "leasehold.django"]          # settings.py

    from leasehold.django import app, job               # shop/jobs.py: found by itself, as models.py is

    @job(max_attempts=5)
    def send_receipt(job: Job, order: int) -> None: ...

    with transaction.atomic():                          # shop/views.py
        order.save()
        app.tenant(shop).enqueue(send_receipt, order=order.pk)

`manage.py migrate` creates and upgrades our tables, `manage.py leasehold worker` runs jobs.
"""

from leasehold.django.project import app

job = app.job

__all__ = ["app", "job"]
