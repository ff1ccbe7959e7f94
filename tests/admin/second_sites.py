"""A second admin site with all our pages, and for each model a site with its pages alone."""

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.urls import path

from demo_project.urls import urlpatterns as demo

OURS = {model: type(each) for model, each in admin.site._registry.items() if model._meta.app_label == "django_mcp"}


def made(name: str, *models: type) -> AdminSite:
    site = AdminSite(name)
    for model in models:
        site.register(model, OURS[model])
    return site


OPS = made("ops", *OURS)
ALONE = {model._meta.model_name: made(f"only-{model._meta.model_name}", model) for model in OURS}

urlpatterns = [
    path("ops/", OPS.urls),
    *(path(f"{site.name}/", site.urls) for site in ALONE.values()),
    *demo,
]
