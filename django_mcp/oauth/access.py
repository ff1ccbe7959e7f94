"""Where people see which programs act for them, and take it back."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.csrf import csrf_protect

from django_mcp.auth.keys import revoke_key
from django_mcp.core.database import keys_of
from django_mcp.core.server import servers
from django_mcp.models import APIKey
from django_mcp.oauth import consent
from django_mcp.oauth.accesses import Access, accesses, name_of, take_back, titles_of
from django_mcp.oauth.names import clean_name
from django_mcp.oauth.pages import page, protect, title_of
from django_mcp.oauth.toolkit import get_application_model


@method_decorator(csrf_protect, name="dispatch")
class AccessView(LoginRequiredMixin, View):
    """``/o/access/``: the applications and API keys of the user."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """With the headers of every page of ours."""
        return protect(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list."""
        context = {
            "applications": [shown_access(each) for each in accesses(request.user)],
            "keys": [shown_key(key) for key in live_keys(request.user)],
            "messages": messages.get_messages(request),
        }
        return page(request, "oauth/access.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Take access back from one application or key; what is not the user's is not there."""
        done = ""
        for application in keys_of(get_application_model(), [request.POST.get("application")]):
            take_back(request.user, application)
            done = _("The application no longer has access.")
        for key in live_keys(request.user).filter(pk__in=keys_of(APIKey, [request.POST.get("key")])):
            revoke_key(key)
            done = _("The API key no longer works.")
        if done:
            messages.success(request, done, fail_silently=True)
        return HttpResponseRedirect(request.path)


def shown_access(access: Access) -> dict[str, Any]:
    """What an application has, as the template wants it."""
    application = access.application
    uris = [uri for uri in application.redirect_uris.split() if uri]
    return {
        "id": application.pk,
        "name": name_of(application),
        "origin": consent.origin(application),
        "hosts": list(dict.fromkeys(consent.destination(uri).text for uri in uris)),
        "endpoints": titles_of(access.resources),
        "scopes": consent.in_words(access.scopes),
        "since": access.since,
        "renewed": access.renewed,
    }


def live_keys(user: Any) -> QuerySet[APIKey]:
    """The user's API keys that still work."""
    return APIKey.objects.filter(user=user, revoked=None, expires__gt=timezone.now()).order_by("name", "pk")


def shown_key(key: APIKey) -> dict[str, Any]:
    """An API key, as the template wants it."""
    names = {each.name: title_of(each) for each in servers()}
    return {
        "id": key.pk,
        "name": clean_name(key.name),
        "prefix": key.prefix,
        "endpoints": [names[name] for name in key.endpoints if name in names],
        "scopes": consent.in_words(key.scopes),
        "created": key.created,
        "last_used": key.last_used,
        "expires": key.expires,
    }
