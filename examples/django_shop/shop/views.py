from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from leasehold.django import app
from shop.jobs import send_receipt
from shop.models import Order


@csrf_exempt
def place_order(request: HttpRequest, shop: str) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(shop=shop, item=request.POST["item"])
        job = app.tenant(shop).enqueue(send_receipt, order=order.pk)
    return JsonResponse({"order": order.pk, "job": job.id}, status=201)
