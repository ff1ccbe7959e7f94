"""``mcp_doctor --admin``: what ``admin_tools`` shows, compared with the pages of the admin. Nothing is written."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from itertools import groupby
from textwrap import shorten
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import DisallowedHost, FieldError
from django.core.management.base import CommandError
from django.db import Error as DatabaseError
from django.test import override_settings
from django.urls import NoReverseMatch

from django_mcp.conf import given, settings
from django_mcp.core.redaction import is_hidden
from django_mcp.core.request import StandInRequest
from django_mcp.core.server import MCPServer
from django_mcp.doctor.messages import CheckFailed, CheckResult, make_finding
from django_mcp.integrations.admin_site.tools import AdminTools, admins_of
from django_mcp.integrations.requests import stand_in_request
from django_mcp.management.base import count_of, find_principal
from django_mcp.test.admin import Browser, Difference, Differences, Endpoint, State, walk

COOKIES = "django.contrib.sessions.backends.signed_cookies"
"""The session of the run is in the cookie, so that no database and no cache gets one."""
MAX_VALUE = 100
"""Characters of a value in a difference."""
MAX_NAMED = 5
"""Values of one page that a difference names."""


def compare_admins(server: MCPServer, username: str | None) -> Iterator[CheckResult]:
    """Yield a result for each admin that an endpoint offers, compared as this user; None for a superuser.

    Raises:
        CommandError: there is no such user.
    """
    found = admins_of(server)
    if not found:
        yield CheckResult("admin", "Admin", [make_finding("admin.none", server=server.name)])
        return
    user = _superuser() if username is None else find_principal(username, "--as").user
    for offered in found:
        # Two, as what was compared is also of interest where something differs.
        seen, differing = CheckResult("admin", "Admin"), CheckResult("differences", "Differences")
        try:
            seen.success = f"{offered.site.name}: {_compare(offered, user, seen, differing)}"
        except CheckFailed as failure:
            seen.findings.append(make_finding(failure.finding_id, **failure.values))
            differing.skipped = "skipped because of “Admin”"
        except DatabaseError as error:
            seen.findings.append(make_finding("database.unreachable", alias="default", why=error))
            differing.skipped = "skipped because of “Admin”"
        differing.success = "none"
        yield from (seen, differing)


def _superuser() -> Any:
    users = get_user_model()._default_manager  # noqa: SLF001 - Django's documented API
    try:
        found = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
    except FieldError:
        found = None
    if found is None:
        raise CommandError("There is no active superuser: say with --as USERNAME whose admin to compare.")
    return found


def _compare(offered: AdminTools, user: Any, result: CheckResult, differing: CheckResult) -> str:
    if not apps.is_installed("django.contrib.sessions"):
        raise CheckFailed("admin.sessions")
    site, host, found = offered.site, _host(), Differences()
    unlimited = {**given(), "RATE_LIMIT": None}
    with override_settings(SESSION_ENGINE=COOKIES, DJANGO_MCP=unlimited), _without_refusals_in_log():
        browser = Browser(site, user, host=host)
        _look_in(offered, browser, user, result)
        endpoint = Endpoint(site, user, host=host, **offered.declaration)
        for model in sorted(offered.names, key=lambda model: model._meta.label_lower):  # noqa: SLF001 - documented
            try:
                seen = walk(site, user, endpoint, browser=browser, only=[model])
            except Exception as error:  # noqa: BLE001 - pages of packages that are no list or form
                label, why = model._meta.label, f"{type(error).__name__}: {error}"  # noqa: SLF001 - documented
                differing.findings.append(make_finding("admin.unread", model=label, why=shorten(why, MAX_VALUE)))
                continue
            found += seen
            found.compared.update(seen.compared)
            found.values += seen.values
    for place, differences in groupby(found, key=lambda each: (each.model, each.url, each.call)):
        _, url, call = place
        told = _in_words([*differences])
        differing.findings.append(make_finding("admin.differs", url=url, call=call, evidence=told))
    if failed := found.compared.pop(str(State.FAILED), 0):
        differing.findings.append(make_finding("admin.failed", pages=count_of(failed, "page", "pages")))
    return _counted(found, user)


@contextmanager
def _without_refusals_in_log() -> Iterator[None]:
    """Leave out of the log what Django reports of pages that refuse the user, which is compared; errors stay."""
    logger = logging.getLogger("django.request")

    def is_error(record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", None)
        return status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR

    logger.addFilter(is_error)
    try:
        yield
    finally:
        logger.removeFilter(is_error)


def _look_in(offered: AdminTools, browser: Browser, user: Any, result: CheckResult) -> None:
    try:
        front = browser.index()
    except NoReverseMatch:
        raise CheckFailed("admin.no-urls", site=offered.site.name) from None
    if not _admits(offered, user):
        result.findings.append(make_finding("admin.not-admitted", site=offered.site.name, user=user))
    elif front.state != State.SHOWN:
        raise CheckFailed("admin.closed", url=browser.visited, evidence=f"{front.why} to {user}")


def _admits(offered: AdminTools, user: Any) -> bool:
    try:
        return bool(offered.site.has_permission(stand_in_request(user)))
    except Exception:  # noqa: BLE001 - such as what the site's middleware sets, which the browser has
        return True


def _host() -> str:
    """Return the host of ``BASE_URL`` if the site allows it, else the first that it does."""
    own = urlsplit(settings.BASE_URL or "").hostname
    first = str(StandInRequest("/", {}).META["SERVER_NAME"])
    try:
        StandInRequest("/", {"SERVER_NAME": own or first}).get_host()
    except DisallowedHost:
        return first
    return own or first


def _in_words(differences: list[Difference]) -> str:
    named = [
        f"{each.what}: {_value(each.what, each.browser)} in a browser, {_value(each.what, each.endpoint)} from the tool"
        for each in differences[:MAX_NAMED]
    ]
    rest = len(differences) - MAX_NAMED
    return "; ".join([*named, *([f"and {rest} more values"] if rest > 0 else [])])


def _value(what: str, value: Any) -> str:
    if value is None:
        return "nothing"
    # The name of a control may say that its value is a secret.
    return "***" if is_hidden(what, "text", settings.REDACTED_ARGUMENTS) else shorten(repr(value), MAX_VALUE)


KINDS: Mapping[str, tuple[str, str]] = {
    "changelist": ("list", "lists"),
    "filter": ("filter", "filters"),
    "date": ("date", "dates"),
    "order": ("order", "orders"),
    "page": ("further page", "further pages"),
    "search": ("search", "searches"),
    "actions": ("list of actions", "lists of actions"),
    "add": ("add page", "add pages"),
    "change": ("change page", "change pages"),
    "delete": ("delete page", "delete pages"),
    "history": ("history", "histories"),
}
"""The words for one and for several comparisons of each kind."""


def _counted(found: Differences, user: Any) -> str:
    refused = found.compared.pop(str(State.REFUSED), 0)
    parts = [count_of(found.compared[kind], *words) for kind, words in KINDS.items() if found.compared[kind]]
    total = count_of(found.compared.total(), "page", "pages")
    shown = f"{total} with {count_of(found.values, 'value', 'values')} compared as {user}"
    more = [*([f"({', '.join(parts)})"] if parts else []), *([f"and {refused} refused in both"] if refused else [])]
    return " ".join([shown, *more])
