"""MCP Apps: Django templates as views of tool results (extension ``io.modelcontextprotocol/ui``, version 2026-01-26).

A host reads the page of an app once, with ``resources/read``, and shows it in a sandboxed frame. Each result of the
app's tools carries the HTML of the template, rendered with that result, in its ``_meta``, which models do not read.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape, unescape
from html.parser import HTMLParser
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin, urlsplit

from django.conf import settings as django_settings
from django.core.exceptions import DisallowedHost, ImproperlyConfigured
from django.db import connections
from django.dispatch import receiver
from django.template.autoreload import get_template_directories
from django.template.loader import get_template
from django.template.loader_tags import ExtendsNode, IncludeNode
from django.templatetags.static import StaticNode
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
ALWAYS_DECLARED = frozenset({"connectDomains", "resourceDomains"})
"""Members of a policy that are there also without an origin: some hosts take a missing policy for a mistake."""
OPENAI_CSP = "openai/widgetCSP"
PERMISSIONS = ("camera", "microphone", "geolocation", "clipboardWrite")
SCHEME = "ui://"

Permission = Literal["camera", "microphone", "geolocation", "clipboardWrite"]

logger = logging.getLogger("django_mcp")

_CAPITAL = re.compile("[A-Z]")
_WHOLE = re.compile(r"\{%-?\s*extends\b|<html\b", re.IGNORECASE)
_ROOTED = re.compile(
    r"""(?:[=(,;]\s*(?:(?:["']|&[#\w]+;)\s*)?|@import\s+(?:["']|&[#\w]+;)\s*)/|\bping\s*=|<base\b""", re.IGNORECASE
)
"""Matches HTML that may contain an address from the root. Only such HTML is parsed, which takes much longer."""
_ORIGIN_IN_PLACE = re.compile(
    r"""[^\s<>]{0,12}https?://[^\s/?#"'<>()&\\]+|\bsrc\s*=\s*["']?(?=[\w.])(?![\w+.-]+:)""", re.IGNORECASE
)
"""Matches the origin of an address, and the name of the attribute or function that it is in; also of a relative one."""
MAX_ORIGINS = 1000
"""Origins in results that are compared with an app's policy. Results may have any number of them."""
_ATTRIBUTE = re.compile(r"""[\s"'/](?P<name>[^\s"'<>/=]+)\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s"'>][^\s>]*)""")
_CSS_ADDRESS = re.compile(
    r"""(?P<start>\burl\(\s*|@import\s+(?=["']))(?P<url>"[^"]*"|'[^']*'|[^"')\s]+)""", re.IGNORECASE
)
_IMAGE_SET = re.compile(r"""\b(image-set\()((?:[^()"']|"[^"]*"|'[^']*'|\([^()]*\))*)""", re.IGNORECASE)
# From the beginning of a word: from each of its letters, a long word would take quadratic time.
_IN_IMAGE_SET = re.compile(r"""(?P<function>\b\w+\([^()]*\))|(?P<url>"[^"]*"|'[^']*')""")
# Possessive, and at the beginning alone, where browsers read it: no whitespace or digit is tried twice.
_REFRESH = re.compile(
    r"""\A(?P<start>\s*+[\d.]++(?:\s*+[;,])?+\s*+(?:url\s*+=\s*+)?+)(?P<url>"[^"]*"?|'[^']*'?|\S.*)""", re.IGNORECASE
)
_CANDIDATE = re.compile(r"[\s,]*([^\s,]\S*)")
# A parenthesis that nothing closes ends with the attribute, as in HTML; it is not read again from each candidate.
_SIZE = re.compile(r"(?:[^,(]|\([^)]*\)?)*,?")


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
        if strange := [
            permission for permission in self._listed("permissions", permissions) if permission not in PERMISSIONS
        ]:
            msg = f"{self.label}: unknown permission {strange[0]!r}. Use {', '.join(PERMISSIONS)}."
            raise ImproperlyConfigured(msg)
        if permissions:
            self._ui["permissions"] = {permission: {} for permission in permissions}
        if domain is not None:
            self._ui["domain"] = domain
        if prefers_border is not None:
            self._ui["prefersBorder"] = prefers_border
        self._given_meta = self.definition.get("_meta", {})
        self.definition["_meta"] = self._meta(self._domains)
        self._is_own_page: bool | None = None
        self._known_origins: set[str] = set()
        self._compared: set[tuple[str, str]] = set()
        self._has_relative = False

    @property
    def label(self) -> str:
        return f"app {self.uri!r} (template {self.template_name!r})"

    @property
    def is_whole(self) -> bool:
        return _WHOLE.search(self._source()) is not None

    @property
    def shows_results(self) -> bool:
        """True if results are rendered on the server: the template is a part of a page, or extends ``app.html``.

        Other templates are whole pages, whose scripts show the result.
        """
        if self._is_own_page is None or django_settings.DEBUG:
            self._is_own_page = self.is_whole and _view_of(get_template(self.template_name).render(SHELL)) is None
        return not self._is_own_page

    @property
    def needs_html(self) -> bool:
        """True if a client that shows the page without the HTML of a result shows nothing but the result's text."""
        try:
            return self.shows_results
        except Exception:  # noqa: BLE001 - a system check reports the template; the tool works without it
            return True

    @property
    def uses_static(self) -> bool:
        """True if the template has ``{% static %}``, or one that it extends or includes by its name.

        Raises:
            TemplateDoesNotExist, TemplateSyntaxError: the template is missing or invalid.
        """
        return _has_static(get_template(self.template_name), set())

    def page(self, context: Context) -> ResourceContents:
        """Return the page without a result, and its security policy: what is declared, and what the page refers to."""
        name = self.template_name if self.is_whole else PAGE
        html, loaded = self._render(context, name, SHELL)
        domains = {key: list(value) for key, value in self._domains.items()}
        self._warn_relative(loaded)
        # Of static files and media always: this page lacks those of results, and what tags and widgets load.
        for key, url in (*loaded, *(("resourceDomains", url) for url in _site_files(context))):
            if (origin := _origin(url)) and origin not in domains[key]:
                domains[key].append(origin)
        return ResourceContents(html, mime_type=APP_MIME_TYPE, meta=self._meta(domains))

    def entry(self, context: Context) -> dict[str, Any]:
        """Return the entry in ``resources/list``, with the policy of the page: some hosts read it there."""
        try:
            meta = self.page(context).meta
        except Exception:  # noqa: BLE001 - a system check reports the template, and reading the page fails
            return self.definition
        return {**self.definition, "_meta": {**self.definition["_meta"], **(meta or {})}}

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
        html, loaded = self._render(context, template or self.template_name, given)
        self._warn_undeclared(context, loaded)
        found = _view_of(html)
        return html if found is None else found

    def _render(self, context: Any, name: str, given: Mapping[str, Any]) -> tuple[str, Sequence[tuple[str, str]]]:
        values = {"title": self.definition.get("title", self.name), "request": context.request, "user": context.user}
        # Without the site's context processors, which may need the session that a call does not have.
        html = get_template(name).render({**values, **given})
        if not (given is SHELL or self._has_new_origin(html) or _ROOTED.search(html)):
            return html, ()
        found = _Addresses(html, _base(context))
        return found.html, found.loaded

    def _has_new_origin(self, html: str) -> bool:
        # Each is looked at once: reading HTML takes three times as long as rendering it.
        new = set(_ORIGIN_IN_PLACE.findall(html)) - self._known_origins
        room = MAX_ORIGINS - len(self._known_origins)
        self._known_origins.update(islice(new, max(room, 0)))
        return bool(new) and room > 0

    def _source(self) -> str:
        return _source_of(get_template(self.template_name))

    def _meta(self, domains: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        csp = {key: list(value) for key, value in domains.items() if value or key in ALWAYS_DECLARED}
        # ChatGPT also reads the names that it introduced before MCP Apps.
        theirs = {_CAPITAL.sub(lambda found: f"_{found[0].lower()}", key): value for key, value in csp.items()}
        return {OPENAI_CSP: theirs, **self._given_meta, "ui": {**self._ui, "csp": csp}}

    def _origins(self, option: str, given: Sequence[str]) -> Sequence[str]:
        for origin in self._listed(option, given):
            parts = urlsplit(origin)
            if parts.scheme not in {"http", "https", "ws", "wss"} or not parts.netloc or parts.path not in {"", "/"}:
                msg = f"{self.label}: {option} takes origins, like 'https://maps.example.com', not {origin!r}."
                raise ImproperlyConfigured(msg)
        return [origin.rstrip("/") for origin in given]

    def _is_of_a_tool(self, context: Any) -> bool:
        tools = [tool for tool in context.server.tools.values() if tool.app is not None and tool.app.uri == self.uri]
        # A page that no tool has requires no tool's permission.
        return not tools or any(right(context, tool) for tool in tools)

    def _warn_relative(self, loaded: Sequence[tuple[str, str]]) -> None:
        found = next((url for _, url in loaded if url and url[0] not in "/#" and not urlsplit(url).scheme), None)
        if found is not None and not self._has_relative:
            self._has_relative = True
            logger.warning("%s loads %r, which is relative to nothing in a host: begin it with /", self.label, found)

    def _warn_undeclared(self, context: Any, loaded: Sequence[tuple[str, str]]) -> None:
        self._warn_relative(loaded)
        new = {(key, origin) for key, url in loaded if (origin := _origin(url))} - self._compared
        if not new or len(self._compared) >= MAX_ORIGINS:
            return
        self._compared |= new
        policy = self.entry(context)["_meta"]["ui"]["csp"]
        for key, origin in sorted(new):
            if origin not in policy.get(key, ()):
                option = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)
                logger.warning("%s loads from %s, which hosts block: add it to %s", self.label, origin, option)


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


class _Addresses(HTMLParser):
    """Makes the addresses in HTML absolute, and collects what a page loads.

    Attributes:
        html: the HTML, with absolute addresses.
        loaded: what it loads, as pairs of a CSP member and a URL.
    """

    FRAMES = frozenset({"iframe", "frame"})
    LINKS = frozenset({"stylesheet", "icon", "preload", "modulepreload", "manifest"})
    """Relations of links that a page loads."""
    PAINT = frozenset(
        {"clip-path", "cursor", "fill", "filter", "marker-end", "marker-mid", "marker-start", "mask", "stroke"}
    )
    """Attributes of SVG that take the ``url()`` of CSS."""
    STYLES = PAINT | {"style"}
    LOADED = STYLES | {"src", "poster", "background", "srcset", "imagesrcset", "srcdoc"}
    """Attributes with something that a page loads; ``href`` depends on the element."""
    PLACES = frozenset({"href", "xlink:href", "action", "formaction"})
    OF_ELEMENTS = frozenset({("object", "data"), ("meta", "content"), ("a", "ping"), ("area", "ping")})
    """Attributes that are addresses of these elements alone."""
    RAW = frozenset({"textarea", "title"})
    """Elements whose content is text, for versions of the parser that see tags in it."""

    def __init__(self, html: str, base: str) -> None:
        super().__init__()
        self.base, self.loaded = base, list[tuple[str, str]]()
        self._lines = [0, *(found.end() for found in re.finditer("\n", html))]
        self._changes: list[tuple[int, int, str]] = []
        self._raw, self._style, self._source = "", 0, html
        self._has_base = False
        self.feed(html)
        self.close()
        parts, at = [], 0
        for start, end, text in self._changes:
            parts += [html[at:start], text]
            at = end
        self.html = "".join([*parts, html[at:]])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._raw:
            return
        text, start = self.get_starttag_text() or "", self._offset()
        given = {name: value or "" for name, value in attrs}
        is_loading = tag in {"image", "use", "feimage"}
        relations = given.get("rel", "").lower().split()
        is_loading |= tag in {"base", "object"} or (tag == "link" and not self.LINKS.isdisjoint(relations))
        is_refresh = tag == "meta" and given.get("http-equiv", "").lower() == "refresh"
        for found in _ATTRIBUTE.finditer(text):
            name = found["name"].lower()
            key = "frameDomains" if tag in self.FRAMES else "baseUriDomains" if tag == "base" else "resourceDomains"
            is_own = (tag, name) in self.OF_ELEMENTS and (tag != "meta" or is_refresh)
            if name not in self.LOADED and name not in self.PLACES and not is_own:
                continue
            if name == "ping":
                key = "connectDomains"
            elif not is_loading and name not in self.LOADED:
                key = ""
            before = unescape(found["value"].strip("\"'"))
            after = self._absolute(name, before, key)
            if after != before:
                value = f'"{escape(after)}"'
                self._changes.append((start + found.start("value"), start + found.end("value"), value))
        if tag == "base" and not self._has_base and given.get("href"):
            self._has_base, self.base = True, urljoin(self.base, given["href"])
        self._raw = tag if tag in self.RAW else ""
        self._style = start + len(text) if tag == "style" else 0

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._raw = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == self._raw:
            self._raw = ""
        if tag == "style" and self._style:
            before = self._source[self._style : self._offset()]
            after = self._absolute("style", before, "resourceDomains")
            self._changes.append((self._style, self._offset(), after))

    def _offset(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _absolute(self, name: str, value: str, key: str) -> str:
        def absolute(url: str) -> str:
            made = urljoin(self.base, url.strip()) if url.strip().startswith("/") else url
            if key:
                self.loaded.append((key, made))
            return made

        def in_function(found: re.Match[str]) -> str:
            return found[0] if found["url"] is None else _quoted_as(found["url"], absolute)

        if name in self.STYLES:
            text = _CSS_ADDRESS.sub(lambda found: f"{found['start']}{_quoted_as(found['url'], absolute)}", value)
            return _IMAGE_SET.sub(lambda found: found[1] + _IN_IMAGE_SET.sub(in_function, found[2]), text)
        if name == "srcdoc":
            inner = _Addresses(value, self.base)
            self.loaded += inner.loaded
            return inner.html
        if name == "content":
            return _REFRESH.sub(lambda found: f"{found['start']}{_quoted_as(found['url'], absolute)}", value)
        if name == "ping":
            return " ".join(map(absolute, value.split()))
        if name in {"srcset", "imagesrcset"}:
            return ", ".join(f"{absolute(url)} {size}".strip() for url, size in _candidates(value))
        return absolute(value)


def _view_of(html: str) -> str | None:
    _before, _mark, rest = html.partition("<!--mcp-->")
    view, end, _after = rest.rpartition("<!--/mcp-->")
    return view if end else None


def _quoted_as(text: str, change: Callable[[str], str]) -> str:
    quote = text[0] if text[0] in "\"'" else ""
    return f"{quote}{change(text.strip(quote) if quote else text)}{quote}"


def _candidates(srcset: str) -> Iterator[tuple[str, str]]:
    # See HTML, Parsing a srcset attribute: URLs may contain commas.
    at = 0
    while found := _CANDIDATE.match(srcset, at):
        at = found.end()
        url = found[1].rstrip(",")
        if url == found[1]:
            size = _SIZE.match(srcset, at)
            at = size.end() if size else at
            yield url, size[0].strip().removesuffix(",").strip() if size else ""
        else:
            yield url, ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} and parts.netloc else ""


def _has_static(backend: Any, seen: set[str]) -> bool:
    template = backend.template
    if not hasattr(template, "nodelist"):  # a Jinja2 template
        return "static(" in _source_of(backend)
    if template.nodelist.get_nodes_by_type(StaticNode):
        return True
    nodes = template.nodelist.get_nodes_by_type((IncludeNode, ExtendsNode))
    parts = [node.template if isinstance(node, IncludeNode) else node.parent_name for node in nodes]
    names = {part.var for part in parts if isinstance(part.var, str) and not part.filters} - seen
    seen |= names
    return any(_has_static(get_template(name), seen) for name in names)


def _source_of(backend: Any) -> str:
    template = backend.template
    source: str | None = getattr(template, "source", None)
    if source is None:  # a Jinja2 template
        source = template.environment.loader.get_source(template.environment, template.name)[0]
    return source


def _site_files(context: Any) -> list[str]:
    # MEDIA_URL is "/" if it is not set.
    urls = [url for url in (django_settings.STATIC_URL, django_settings.MEDIA_URL) if url and url != "/"]
    return [urljoin(_base(context), url) for url in urls]


def _base(context: Any) -> str:
    if settings.BASE_URL:
        return f"{settings.BASE_URL.rstrip('/')}/"
    try:
        return str(context.request.build_absolute_uri("/"))
    except (DisallowedHost, KeyError):
        # This is so over standard input without BASE_URL.
        return ""


@receiver(file_changed, dispatch_uid="django_mcp.apps")
def _on_file_changed(file_path: "Path", **_: Any) -> None:
    if any(directory in file_path.parents for directory in get_template_directories()):
        for server in every_server():
            for resource in server.resources.values():
                if isinstance(resource, App):
                    server.notify_resource_updated(resource.uri)
