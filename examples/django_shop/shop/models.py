from django.db import models


class Order(models.Model):
    shop = models.SlugField()
    item = models.TextField()
    receipt_sent = models.BooleanField(default=False)
