"""A login page that follows ``next`` only to pages it knows loses OAuth clients: the doctor says so."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.test import Client
from django.urls import include, path

from django_mcp import MCPServer
from django_mcp.doctor import probes
from django_mcp.doctor.http import Diagnosis, HTTPClient, HTTPResponse
from tests.contrib.drf.beside import urlconf

pytestmark = pytest.mark.django_db


class InProcess(HTTPClient):
    """Requests without a network."""

    def send(self, method: str, headers: Any = None, body: Any = None, url: str | None = None) -> HTTPResponse:
        answer = Client().get(url, headers=dict(headers))
        return HTTPResponse(answer.status_code, {k.lower(): v for k, v in answer.items()}, answer.content, 0.0)


def knows_some(request: HttpRequest) -> HttpResponse:
    assert request.user.is_authenticated
    return HttpResponseRedirect("/projects/")


PAGES: dict[str, tuple[Any, bool, str]] = {
    "follows next": (LoginView.as_view(redirect_authenticated_user=True), True, "leads to the consent page"),
    "knows some pages": (knows_some, False, ""),
    "shows the form": (lambda request: HttpResponse("<form>"), True, "unknown"),
}


@pytest.mark.parametrize("kind", PAGES)
def test_the_doctor_signs_in_and_sees_where_next_leads(
    make_server: Callable[..., MCPServer], settings: Any, kind: str
) -> None:
    view, is_good, told = PAGES[kind]
    settings.LOGIN_URL = "/enter/"
    user = User.objects.create_user("ann")
    server = make_server(authentication=["django_mcp.OAuth2Authentication"])
    diagnosis = Diagnosis(InProcess("http://testserver/mcp", 5), server, "/mcp", user=user)
    provider = include(([path("authorize/", lambda request: HttpResponse(), name="authorize")], "oauth2_provider"))
    with urlconf([path("enter/", view), path("o/", provider)]):
        said = probes.login(diagnosis)
    assert [each.id for each in diagnosis.findings] == ([] if is_good else ["login.next"])
    assert told in said
    assert not Session.objects.exists(), "the session is gone"
    assert django_settings.SESSION_ENGINE == "django.contrib.sessions.backends.db"


def test_without_a_user_nobody_is_signed_in(make_server: Callable[..., MCPServer]) -> None:
    server = make_server(authentication=["django_mcp.OAuth2Authentication"])
    assert "--as" in probes.login(Diagnosis(InProcess("http://testserver/mcp", 5), server, "/mcp"))
