"""Background jobs of the shop. A file of this name is found by itself."""

from leasehold import Job
from leasehold.django import job
from shop.models import Order


@job(max_attempts=5)
def send_receipt(job: Job, order: int) -> None:
    sent = Order.objects.filter(pk=order, shop=job.tenant, receipt_sent=False).update(receipt_sent=True)
    job.log(f"receipt for order {order} " + ("sent" if sent else "was sent before"))
