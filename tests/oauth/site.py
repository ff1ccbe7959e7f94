"""A site with an authorization server and two endpoints, and people and programs that log in there."""

import base64
import hashlib
import itertools
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.views import LoginView
from django.db import transaction
from django.http import HttpResponse
from django.test import Client as DjangoClient
from django.urls import clear_url_caches, path

from django_mcp import MCPServer, tool
from django_mcp.auth.protected_resource import resource_of
from tests import referee
from tests.clients import MODERN, Answer, Client

BASE_URL = "https://travel.example.com"
HOST = "travel.example.com"
CALLBACK = "http://127.0.0.1/callback"
VERIFIER = "a-code-verifier-of-forty-three-characters-or-more"
DJANGO_MCP: dict[str, Any] = {
    "BASE_URL": BASE_URL,
    "AUTHENTICATION": ["django_mcp.OAuth2Authentication"],
    "SCOPES": {
        "travel:read": "Look up your trips",
        "travel:write": {"text": "Change your trips", "implies": ["travel:read"]},
    },
    "DEFAULT_SCOPES": ["travel:read"],
}

# What a view of one test caches must not reach the next.
OAUTH_CHANGES: dict[str, Any] = {"ALWAYS_RELOAD_OAUTHLIB_CORE": True}

_numbers = itertools.count(1)


def challenge_of(verifier: str) -> str:
    """The S256 code challenge (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def add_tools(server: MCPServer) -> None:
    """One tool that everybody has, one that needs a scope, one that needs a permission."""
    tool(server=server, name="look_up", read_only=True)(lambda: "looked up")
    tool(server=server, name="change", scopes=["travel:write"])(lambda: "changed")
    tool(server=server, name="administer", permission="auth.change_user")(lambda: "administered")


def urlconf() -> str:
    """The name of a new URLconf: the site's own pages, and ``django_mcp.urls`` with every endpoint there is now."""
    from django_mcp.auth.toolkit import AuthorizationView
    from django_mcp.oauth.authorize import AuthorizeView
    from django_mcp.urls import build_urlpatterns

    module = types.ModuleType(f"tests.oauth.urls_{next(_numbers)}")
    module.urlpatterns = [
        path("admin/", admin.site.urls),
        path("stock/authorize/", AuthorizationView.as_view()),
        path("both/authorize/", AuthorizeView.as_view(other_view=AuthorizationView.as_view())),
        path("accounts/login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
        *build_urlpatterns(),
    ]
    sys.modules[module.__name__] = module
    clear_url_caches()
    return module.__name__


class Browser(DjangoClient):
    """Django's test client, which speaks to the site's own host over https."""

    def __init__(self, **defaults: Any) -> None:
        super().__init__(**{"HTTP_HOST": HOST, "SERVER_NAME": HOST, **defaults})

    def generic(self, *args: Any, **options: Any) -> Any:
        return super().generic(*args, **{**options, "secure": True})

    def post_form(self, path: str, values: Any, **options: Any) -> Any:
        """POST form-encoded *values*, a dict or pairs, as OAuth endpoints want them."""
        return self.post(path, urlencode(values, doseq=True), "application/x-www-form-urlencoded", **options)


class Fields(HTMLParser):
    """The hidden fields of a page's forms."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "input" and given.get("type") == "hidden" and given.get("name"):
            self.found[str(given["name"])] = given.get("value") or ""


class Caller(Client):
    """An MCP client that sends a bearer token with every request."""

    token: str | None = None

    def send(self, verb: str, headers: Mapping[str, str | None], *rest: Any, **options: Any) -> Any:
        own = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        return super().send(verb, {**own, **headers}, *rest, **options)

    def request(self, method: str, params: Any = None, *, headers: Mapping[str, str | None] | None = None) -> Answer:
        """A refusal is none of the protocol's messages, so no referee looks at it."""
        body, own = self.compose(method, params or {})
        answer = self.post(json.dumps(body).encode(), {**own, **(headers or {})})
        if answer.status == 200:
            referee.check(answer.json, method, self.version)
        return answer


@dataclass
class Site:
    """The site of a test.

    Attributes:
        alpha: an endpoint at /alpha/mcp.
        beta: an endpoint at /beta/mcp.
        user: a person with an account.
        application: a public client that was registered by hand.
        settings: pytest-django's; undone after the test.
        authorize_path: where people are sent; ``/stock/authorize/`` is django-oauth-toolkit's own page, and
            ``/both/authorize/`` ours before it.
    """

    alpha: MCPServer
    beta: MCPServer
    user: Any
    application: Any
    settings: Any
    make_server: Callable[..., MCPServer]
    browsers: dict[Any, Browser] = field(default_factory=dict)
    authorize_path: str = "/o/authorize/"

    # The site

    def configure(self, **changes: Any) -> None:
        """Change ``DJANGO_MCP``, and with it ``OAUTH2_PROVIDER`` and the URLs."""
        from django_mcp.oauth import oauth_defaults

        self.settings.DJANGO_MCP = {**self.settings.DJANGO_MCP, **changes}
        self.settings.OAUTH2_PROVIDER = oauth_defaults(self.settings.DJANGO_MCP, **OAUTH_CHANGES)
        self.reload_urls()

    def configure_toolkit(self, **changes: Any) -> None:
        """Change ``OAUTH2_PROVIDER`` alone."""
        self.settings.OAUTH2_PROVIDER = {**self.settings.OAUTH2_PROVIDER, **changes}

    def reload_urls(self) -> None:
        """Serve every endpoint there is now."""
        self.settings.ROOT_URLCONF = urlconf()

    def resource(self, server: MCPServer | None = None) -> str:
        return resource_of(server or self.alpha)

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Undo what happens within: rows, settings, logins."""
        before = {name: getattr(self.settings, name) for name in ("DJANGO_MCP", "OAUTH2_PROVIDER", "ROOT_URLCONF")}
        kept = self.user.pk, self.application.pk
        try:
            with transaction.atomic():
                yield
                transaction.set_rollback(True)
        finally:
            for name, value in before.items():
                if getattr(self.settings, name) is not value:
                    setattr(self.settings, name, value)
            clear_url_caches()
            self.browsers.clear()
            self.user, self.application = (
                type(row).objects.get(pk=key) for row, key in zip((self.user, self.application), kept, strict=True)
            )

    # Clients and people

    def make_client(self, client_id: str = "conf-public", **changes: Any) -> Any:
        """Another application."""
        from django_mcp.auth.toolkit import get_application_model

        values = {
            "name": client_id,
            "client_type": "public",
            "authorization_grant_type": "authorization-code",
            "redirect_uris": CALLBACK,
            **changes,
        }
        return get_application_model().objects.create(client_id=client_id, **values)

    def make_user(self, name: str, **changes: Any) -> Any:
        return get_user_model().objects.create_user(name, password="secret", **changes)

    def browser(self, user: Any = None) -> Browser:
        """A browser in which *user*, by default the site's, is logged in; one for each user."""
        user = user or self.user
        if user.pk not in self.browsers:
            self.browsers[user.pk] = Browser()
            self.browsers[user.pk].force_login(user)
        return self.browsers[user.pk]

    # The authorization code flow

    def authorize_query(self, application: Any = None, **changes: Any) -> dict[str, Any]:
        """The parameters of an authorization request for alpha; None leaves one out, a list repeats it."""
        values = {
            "response_type": "code",
            "client_id": (application or self.application).client_id,
            "redirect_uri": CALLBACK,
            "state": "the-state",
            "scope": "travel:read",
            "resource": self.resource(),
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            **changes,
        }
        return {name: value for name, value in values.items() if value is not None}

    def ask(self, application: Any = None, user: Any = None, **changes: Any) -> HttpResponse:
        """What a logged-in person sees who is sent to ``/o/authorize/``."""
        query = urlencode(self.authorize_query(application, **changes), doseq=True)
        return self.browser(user).get(f"{self.authorize_path}?{query}")

    def agree(self, page: HttpResponse, user: Any = None, **tampered: str) -> HttpResponse:
        """Send the form on the consent page."""
        fields = {**Fields(page.content.decode()).found, "allow": "Authorize", **tampered}
        return self.browser(user).post_form(page.wsgi_request.get_full_path(), fields)

    def answer(self, application: Any = None, user: Any = None, **changes: Any) -> dict[str, str]:
        """What comes back to the client's redirect URI when the person agrees: ``code``, or ``error``."""
        page = self.ask(application, user, **changes)
        response = page if page.status_code == 302 else self.agree(page, user)
        assert response.status_code == 302, response.content.decode()
        return dict(parse_qsl(urlsplit(response["Location"]).query))

    def code_for(self, application: Any = None, user: Any = None, **changes: Any) -> str:
        """An authorization code."""
        answer = self.answer(application, user, **changes)
        assert "code" in answer, answer
        return answer["code"]

    def exchange(self, code: str, application: Any = None, **changes: Any) -> HttpResponse:
        """Exchange a code at the token endpoint; None leaves a parameter out, a list repeats it."""
        values = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": (application or self.application).client_id,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            **changes,
        }
        return self.token(**values)

    def refresh(self, refresh_token: str, application: Any = None, **changes: Any) -> HttpResponse:
        """Use a refresh token."""
        client_id = (application or self.application).client_id
        values = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": client_id, **changes}
        return self.token(**values)

    def token(self, **values: Any) -> HttpResponse:
        """A request to the token endpoint, by a program: without cookies."""
        given = {name: value for name, value in values.items() if value is not None}
        return Browser().post_form("/o/token/", given)

    def revoke(self, token: str, application: Any = None, **changes: Any) -> HttpResponse:
        """Have a token revoked by its client (RFC 7009)."""
        values = {"token": token, "client_id": (application or self.application).client_id, **changes}
        return Browser().post_form("/o/revoke_token/", values)

    def tokens_for(
        self, server: MCPServer | None = None, *, application: Any = None, user: Any = None, **changes: Any
    ) -> dict[str, Any]:
        """A whole login for an endpoint, by default alpha: what the token endpoint answers."""
        resource = self.resource(server)
        code = self.code_for(application, user, **{"resource": resource, **changes})
        response = self.exchange(code, application, resource=resource)
        assert response.status_code == 200, response.content.decode()
        return json.loads(response.content)

    # The endpoints

    def caller(self, token: str | None, server: MCPServer | None = None, edge: str = "view") -> Caller:
        """An MCP client with a token, by default of alpha."""
        caller = Caller(server or self.alpha, MODERN, edge, host=HOST)
        caller.token = token
        return caller

    def status(self, token: str, server: MCPServer | None = None) -> int:
        """The HTTP status with which an endpoint answers a token: 200 where it is good."""
        return int(self.caller(token, server).request("tools/list").status)


def make_site(settings: Any, make_server: Callable[..., MCPServer]) -> Site:
    """The site, with its user and client in the database."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, HOST]
    settings.LOGIN_URL = "/accounts/login/"
    settings.DJANGO_MCP = DJANGO_MCP
    alpha, beta = (make_server(name, authentication=None) for name in ("alpha", "beta"))
    for server in (alpha, beta):
        add_tools(server)
    site = Site(alpha, beta, None, None, settings, make_server)
    site.configure()
    site.user = site.make_user("ada")
    site.application = site.make_client()
    return site


def forget_urlconfs() -> None:
    """Drop the modules that ``urlconf`` made."""
    for name in list(sys.modules):
        if name.startswith("tests.oauth.urls_"):
            del sys.modules[name]
    clear_url_caches()
