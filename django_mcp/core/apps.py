"""MCP Apps: Django templates as views of tool results (extension ``io.modelcontextprotocol/ui``, version 2026-01-26).

A host reads the page of an app once, with ``resources/read``, and shows it in a sandboxed frame. Each result of the
app's tools carries the HTML of the template, rendered with that result, in its ``_meta``, which models do not read.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin, urlsplit

from django.conf import settings as django_settings
from django.core.exceptions import DisallowedHost, ImproperlyConfigured
from django.db import connections
from django.dispatch import receiver
from django.template.autoreload import get_template_directories
from django.template.loader import get_template
from django.utils import translation
from django.utils.autoreload import file_changed

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction, tools_alias
from django_mcp.core.permissions import right
from django_mcp.core.server import Extension, every_server
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents
from django_mcp.protocol.meta import APP_HTML, APP_MIME_TYPE, APPS

if TYPE_CHECKING:
    from pathlib import Path

EXTENSION = Extension(APPS, {}, {}, lambda _server, _uri: ())
PAGE = "django_mcp/app.html"
"""The page of templates that are only a part of one, and what others extend."""
SHELL = {"is_shell": True, "csrf_token": ""}
"""Context of the page without a result. No form can be posted to the site from a sandboxed frame, so
``{% csrf_token %}`` renders nothing."""
PERMISSIONS = ("camera", "microphone", "geolocation", "clipboardWrite")
SCHEME = "ui://"

Permission = Literal["camera", "microphone", "geolocation", "clipboardWrite"]

logger = logging.getLogger("django_mcp")

_VIEW = re.compile(r"<!--mcp-->(.*)<!--/mcp-->", re.DOTALL)
_WHOLE = re.compile(r"\{%-?\s*extends\b|<html\b", re.IGNORECASE)
_ROOTED = re.compile(r"""(\s(?:src|href|poster|srcset|action)=)(["'])(/[^"']*)\2""", re.IGNORECASE)


class App(Resource):
    """The page of an app. ``ui`` documents the options."""

    for_apps = True

    def __init__(
        self,
        uri: str,
        template: str,
        *,
        connect_domains: Sequence[str] = (),
        resource_domains: Sequence[str] = (),
        frame_domains: Sequence[str] = (),
        base_uri_domains: Sequence[str] = (),
        permissions: Sequence[Permission] = (),
        domain: str | None = None,
        prefers_border: bool | None = None,
        context_type: type = Context,
        **options: Any,
    ) -> None:
        self.template_name = template

        def app(ctx: Context) -> ResourceContents:
            return self.page(ctx)

        options.setdefault("name", uri.removeprefix(SCHEME))
        options.setdefault("visible", self._is_of_a_tool)
        super().__init__(app, uri, context_type=context_type, mime_type=APP_MIME_TYPE, **options)
        self.is_interactive = False
        self.extension = EXTENSION
        if not uri.startswith(SCHEME) or self.is_template:
            msg = f"{self.label}: the URI of an app begins with {SCHEME} and has no variables, not {uri!r}."
            raise ImproperlyConfigured(msg)
        self._domains = {
            "connectDomains": self._origins("connect_domains", connect_domains),
            "resourceDomains": self._origins("resource_domains", resource_domains),
            "frameDomains": self._origins("frame_domains", frame_domains),
            "baseUriDomains": self._origins("base_uri_domains", base_uri_domains),
        }
        self._ui: dict[str, Any] = {}
        if strange := [each for each in self._listed("permissions", permissions) if each not in PERMISSIONS]:
            msg = f"{self.label}: unknown permission {strange[0]!r}. Use {', '.join(PERMISSIONS)}."
            raise ImproperlyConfigured(msg)
        if permissions:
            self._ui["permissions"] = {each: {} for each in permissions}
        if domain is not None:
            self._ui["domain"] = domain
        if prefers_border is not None:
            self._ui["prefersBorder"] = prefers_border
        self.definition["_meta"] = {**self.definition.get("_meta", {}), "ui": self._meta(self._domains)}
        self._is_own_page: bool | None = None

    @property
    def label(self) -> str:
        """The app in errors."""
        return f"app {self.uri!r} (template {self.template_name!r})"

    @property
    def is_whole(self) -> bool:
        """True if the template is a whole page, or extends one."""
        return _WHOLE.search(self._source()) is not None

    @property
    def shows_results(self) -> bool:
        """True if results are rendered on the server: the template is a part of a page, or extends ``app.html``.

        Other templates are whole pages, whose scripts show the result.
        """
        if self._is_own_page is None or django_settings.DEBUG:
            self._is_own_page = self.is_whole and not _VIEW.search(get_template(self.template_name).render(SHELL))
        return not self._is_own_page

    @property
    def uses_static(self) -> bool:
        """True if the template has ``{% static %}``.

        Raises:
            TemplateDoesNotExist, TemplateSyntaxError: the template is missing or invalid.
        """
        return "static" in self._source()

    def page(self, context: Context) -> ResourceContents:
        """Return the page without a result, and its security policy: what is declared, and what the page refers to."""
        name = self.template_name if self.is_whole else PAGE
        html = self._render(context, name, SHELL)
        domains = {key: list(value) for key, value in self._domains.items()}
        found = list(_references(html))
        if self.uses_static:
            found.append(("resourceDomains", urljoin(_base(context), django_settings.STATIC_URL or "")))
        for key, url in found:
            if (origin := _origin(url)) and origin not in domains[key]:
                domains[key].append(origin)
        return ResourceContents(html, mime_type=APP_MIME_TYPE, meta={"ui": self._meta(domains)})

    def add_view(
        self,
        context: Any,
        fields: dict[str, Any],
        result: Any,
        text: str,
        view_context: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    ) -> None:
        """Add the HTML of a result to its ``_meta``. If the template fails, the client shows the text of the result.

        *view_context* returns further variables of the template.
        """
        if APP_HTML in fields.get("_meta", {}):
            return
        try:
            if not self.shows_results:
                return

            def render() -> str:
                more = view_context(context, result) if view_context else {}
                return self.view(context, result, text=text, **more)

            # In a savepoint: on PostgreSQL a failed query of the template would end the tool's transaction too.
            is_within = connections[tools_alias()].in_atomic_block
            html = in_transaction(render) if is_within else render()
            if len(html.encode()) > (settings.MAX_BINARY_BYTES or sys.maxsize):
                msg = f"the HTML has {len(html)} characters, more than MAX_BINARY_BYTES"
                raise ValueError(msg)
        except Exception:  # the tool did its work, so its result must not be lost
            logger.exception("%s could not be rendered; the client gets the text of the result", self.label)
            return
        fields["_meta"] = {**fields.get("_meta", {}), APP_HTML: html}

    def view(self, context: Any, result: Any, *, template: str = "", **more: Any) -> str:
        """Return the HTML for a result, of another *template* if given. *more* is added to the template's context."""
        arguments = context.params.get("arguments") or {}
        given = {**SHELL, "result": result, "arguments": arguments, "is_shell": False, **more}
        html = self._render(context, template or self.template_name, given)
        found = _VIEW.search(html)
        html = found[1] if found else html
        if django_settings.DEBUG:
            self._tell_of_undeclared(context, html)
        return html

    def _render(self, context: Any, name: str, given: Mapping[str, Any]) -> str:
        values = {"title": self.definition.get("title", self.name), "request": context.request, "user": context.user}
        with translation.override(context.language):
            # Without the site's context processors, which may need the session that a call does not have.
            html = get_template(name).render({**values, **given})
        base = _base(context)
        return _ROOTED.sub(lambda found: f"{found[1]}{found[2]}{urljoin(base, found[3])}{found[2]}", html)

    def _source(self) -> str:
        backend: Any = get_template(self.template_name)
        template = backend.template
        source: str | None = getattr(template, "source", None)
        if source is None:  # a Jinja2 template
            source = template.environment.loader.get_source(template.environment, template.name)[0]
        return source

    def _meta(self, domains: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        csp = {key: list(value) for key, value in domains.items() if value}
        return {**self._ui, "csp": csp} if csp else dict(self._ui)

    def _origins(self, option: str, given: Sequence[str]) -> Sequence[str]:
        for each in self._listed(option, given):
            parts = urlsplit(each)
            if parts.scheme not in {"http", "https", "ws", "wss"} or not parts.netloc or parts.path not in {"", "/"}:
                msg = f"{self.label}: {option} takes origins, like 'https://maps.example.com', not {each!r}."
                raise ImproperlyConfigured(msg)
        return [each.rstrip("/") for each in given]

    def _is_of_a_tool(self, context: Any) -> bool:
        """Return True if the caller may know of a tool with this app, or no tool has it."""
        tools = [each for each in context.server.tools.values() if each.app is not None and each.app.uri == self.uri]
        return not tools or any(right(context, each) for each in tools)

    def _tell_of_undeclared(self, context: Any, html: str) -> None:
        static = urljoin(_base(context), django_settings.STATIC_URL or "")
        for key, url in _references(html):
            origin = _origin(url)
            known = {*self._domains[key], _origin(static) if self.uses_static else ""}
            if origin and origin not in known:
                option = "frame_domains" if key == "frameDomains" else "resource_domains"
                logger.warning("%s loads %s, which hosts block: add %r to %s", self.label, url, origin, option)


def app_of(given: Any, label: str) -> App | None:
    """Return the app of an ``app`` option: an ``App``, the name of a template, or None.

    Tools with the same template have the same app.

    Raises:
        ImproperlyConfigured: it is something else.
    """
    if given is None or isinstance(given, App):
        return given
    if not isinstance(given, str):
        msg = f"{label}: app must be the name of a template, or what ui(…) returns, not {given!r}."
        raise ImproperlyConfigured(msg)
    if given not in _apps:
        _apps[given] = App(f"{SCHEME}{given}", given)
    return _apps[given]


_apps: dict[str, App] = {}
"""Apps by the names of their templates, for tools that name only that."""


class _References(HTMLParser):
    """Collects what a page loads, as pairs of a CSP member and a URL."""

    LOADING = frozenset({"stylesheet", "icon", "preload", "modulepreload", "manifest"})

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        key = "frameDomains" if tag == "iframe" else "resourceDomains"
        if tag == "link" and not self.LOADING.isdisjoint(given.get("rel", "").lower().split()):
            self.found.append((key, given.get("href", "")))
        self.found += [(key, given[name]) for name in ("src", "poster") if given.get(name)]
        self.found += [(key, each.split()[0]) for each in given.get("srcset", "").split(",") if each.strip()]


def _references(html: str) -> Iterator[tuple[str, str]]:
    parser = _References()
    parser.feed(html)
    yield from parser.found


def _origin(url: str) -> str:
    """Return the origin of an absolute http(s) URL, or ""."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} and parts.netloc else ""


def _base(context: Any) -> str:
    """Return the site's address, or "" if unknown, as over standard input without ``BASE_URL``."""
    if settings.BASE_URL:
        return f"{settings.BASE_URL.rstrip('/')}/"
    try:
        return str(context.request.build_absolute_uri("/"))
    except (DisallowedHost, KeyError):
        return ""


@receiver(file_changed, dispatch_uid="django_mcp.apps")
def _on_file_changed(file_path: "Path", **_: Any) -> None:
    """Tell clients of changed templates with ``runserver``."""
    if any(each in file_path.parents for each in get_template_directories()):
        for server in every_server():
            for each in server.resources.values():
                if isinstance(each, App):
                    server.notify_resource_updated(each.uri)
