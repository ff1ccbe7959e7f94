"""Visits to pages of an admin site: its views run as in a browser, and what they give their templates is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django.contrib.messages import get_messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.controls import PageForm, Pair, forms_of
from django_mcp.integrations.admin_site.texts import plain
from django_mcp.integrations.handler import run_view
from django_mcp.integrations.redirects import redirect_url, require_no_login
from django_mcp.integrations.requests import (
    FORM,
    MULTIPART,
    Call,
    Files,
    reverse_url,
    script_prefix,
    site_request,
)
from django_mcp.integrations.responses import decode_body, error_from_response
from django_mcp.primitives.base import ToolError


@dataclass
class Visit:
    """A page of the admin, as its view answered.

    Attributes:
        context: what the view gave to its template; empty if it used none.
        location: where it redirects to, within the site as a path with query; None if it does not.
    """

    request: HttpRequest
    response: HttpResponseBase
    context: Mapping[str, Any] = field(default_factory=dict)
    location: str | None = None

    @property
    def messages(self) -> list[str]:
        """Texts for the person who made the request (``django.contrib.messages``)."""
        return [plain(message.message) for message in get_messages(self.request)]

    @property
    def html(self) -> str:
        """The rendered page."""
        response: Any = self.response
        if response.streaming:
            return ""
        if callable(getattr(response, "render", None)) and not response.is_rendered:
            if "is_nav_sidebar_enabled" in (data := getattr(response, "context_data", None) or {}):
                data["is_nav_sidebar_enabled"] = False  # the list of all models, which takes longer than a form
            with script_prefix(self.request):
                response.render()
        return decode_body(response, response.content)

    @property
    def text(self) -> str:
        """What the rendered page says."""
        from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

        return read_page(self.html, self.request.build_absolute_uri()).text

    @property
    def has_form(self) -> bool:
        """True if the page asks for something: it has a form to send, besides the one that signs out."""
        return bool(self._forms())

    def _forms(self) -> list[PageForm]:
        found = [form for form in forms_of(self.html) if form.method == "post"]
        return [form for form in found if not form.action.endswith("/logout/")]

    def form(self, form_id: str = "") -> PageForm:
        """Return the form of the page that saves: the one with this id, else the one with the most controls.

        Raises:
            ToolError: the page has none.
        """
        found = self._forms()
        if not found:
            raise ToolError("The page of the admin has no form.")
        return next((form for form in found if form_id and form.id == form_id), None) or max(
            found, key=lambda form: len(form.pairs)
        )


def page_url(ctx: Context, site: Any, name: str, *args: Any) -> str:
    """Return the path of a page of the site, such as ``"shop_order_change"``, with the script prefix.

    Raises:
        NoReverseMatch: it has none.
    """
    with script_prefix(ctx.request):
        return reverse_url(f"{site.name}:{name}", args)


def visit(
    ctx: Context,
    path: str,
    query: Mapping[str, Any] | Sequence[Pair] = (),
    data: Sequence[Pair] | None = None,
    files: Files | None = None,
    *,
    view: Any = None,
) -> Visit:
    """Return a page of the admin as the calling user gets it.

    Args:
        ctx: the call.
        path: made by ``page_url``.
        query: parameters of the page.
        data: a form's pairs, for a POST; None for a GET.
        files: of the form, by field.
        view: is called in place of the one that the path leads to.

    Raises:
        ToolError: the site has no such page, or refuses it to the user.
        ServerError: it answers with a server error.
    """
    pairs = list(query.items()) if isinstance(query, Mapping) else list(query)
    call = Call("GET", path, _grouped(pairs))
    if data is not None:
        call = Call("POST", path, _grouped(pairs), _grouped(data), MULTIPART if files else FORM, files=files or {})
    with script_prefix(ctx.request):
        request = site_request(ctx, call)
    found = request.resolver_match
    if found is None:
        raise ToolError("The site has no such page in its admin.")
    response: Any = run_view(view or found.func, request, found.args, found.kwargs, renders=False)
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        body = b"" if response.streaming else response.content
        raise error_from_response(response, body, request)
    page = Visit(request, response, getattr(response, "context_data", None) or {})
    if (url := redirect_url(response, request)) is not None:
        require_no_login(url, request)
        parts = urlsplit(url)
        page.location = parts.path + (f"?{parts.query}" if parts.query else "")
    return page


def _grouped(pairs: Sequence[tuple[str, Any]]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).extend(value if isinstance(value, list | tuple) else [value])
    return grouped


def query_of(text: str) -> dict[str, str]:
    """Return the parameters of a query string, such as ``"?status=paid"``."""
    return dict(parse_qsl(text.lstrip("?"), keep_blank_values=True))
