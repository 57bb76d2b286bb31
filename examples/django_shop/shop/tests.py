"""The shop's own tests, as a Django project writes them: `python manage.py test`."""

from django.db import connection, transaction
from django.test import TestCase

from leasehold.django import app
from shop.jobs import send_receipt
from shop.models import Order


class OrderTest(TestCase):
    def jobs(self) -> list[dict[str, int]]:
        with connection.cursor() as cursor:
            cursor.execute("select payload->>'order' from leasehold.jobs where definition = 'send_receipt'")
            return [int(row[0]) for row in cursor.fetchall()]

    def test_an_order_and_its_job_are_committed_together(self) -> None:
        answer = self.client.post("/shops/acme/orders", {"item": "lamp"})
        self.assertEqual(answer.status_code, 201)
        self.assertEqual(self.jobs(), [answer.json()["order"]])

    def test_what_is_rolled_back_leaves_neither(self) -> None:
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            order = Order.objects.create(shop="acme", item="lamp")
            app.tenant("acme").enqueue(send_receipt, order=order.pk)
            _ = 1 / 0
        self.assertEqual(self.jobs(), [])
        self.assertFalse(Order.objects.exists())
