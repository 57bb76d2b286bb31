from django.urls import path
from shop import views

urlpatterns = [path("shops/<slug:shop>/orders", views.place_order)]
