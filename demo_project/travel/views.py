"""The one page that this site has for people."""

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """What the site is, where its endpoint is, and how much there is behind it."""
    models = apps.get_app_config("travel").get_models()
    counts = [(model._meta.verbose_name_plural, f"{model._default_manager.count():,}") for model in models]  # noqa: SLF001
    return render(
        request,
        "travel/index.html",
        {"endpoint": request.build_absolute_uri(reverse("django_mcp:default")), "counts": counts},
    )
