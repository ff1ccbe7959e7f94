"""The list of checks, its runner, and the checks of the site's settings."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.core import checks
from django.core.cache import DEFAULT_CACHE_ALIAS, cache, caches
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache
from django.db import Error as DatabaseError
from django.db import connections, router
from django.db.migrations.executor import MigrationExecutor

from django_mcp.approvals.unmatched_policies import find_unmatched
from django_mcp.conf import settings
from django_mcp.doctor import probes
from django_mcp.doctor.http import Visit
from django_mcp.doctor.messages import Checked, Severity, Stop
from django_mcp.doctor.probes import THIS_MACHINE
from django_mcp.models import Session
from django_mcp.pubsub.notify import shared_layer

OURS = ("django_mcp", "oauth2_provider")
LAYER_SECONDS = 5.0


def database(visit: Visit) -> str:
    """Check that the database is reachable, and suitable for several workers."""
    alias = router.db_for_write(Session) or "default"
    try:
        connections[alias].ensure_connection()
    except DatabaseError as error:
        raise Stop("database.unreachable", alias=alias, why=first_line(error)) from None
    if connections[alias].vendor == "sqlite":
        visit.found("database.sqlite")
    return f"{connections[alias].display_name} answers"


def migrations(visit: Visit) -> str:
    """Check that migrations of django_mcp and the authorization server are applied."""
    alias = router.db_for_write(Session) or "default"
    executor = MigrationExecutor(connections[alias])
    planned = executor.migration_plan(executor.loader.graph.leaf_nodes())
    pending = [f"{migration.app_label}.{migration.name}" for migration, _ in planned if migration.app_label in OURS]
    if pending:
        visit.found("migrations.pending", alias=alias, names=", ".join(pending))
    return "all are applied"


def system_checks(visit: Visit) -> str:
    """Run ``manage.py check --deploy --database default``, limited to django_mcp."""
    for message in checks.run_checks(include_deployment_checks=True, databases=["default"]):
        if str(message.id).startswith("django_mcp.") and not message.is_silenced() and message.level >= checks.WARNING:
            kind = "check.error" if message.level >= checks.ERROR else "check.warning"
            visit.found(kind, id=message.id, message=message.msg, hint=message.hint or "See docs/checks.md.")
    return "no problems of django_mcp"


def debug(visit: Visit) -> str:
    """Check that ``DEBUG`` is off unless the endpoint is local."""
    if django_settings.DEBUG and visit.web.parts.hostname not in THIS_MACHINE:
        visit.found("settings.debug")
    return f"DEBUG is {django_settings.DEBUG}"


def caching(visit: Visit) -> str:
    """Check that the default cache stores values."""
    key, value = f"django_mcp.doctor.{secrets.token_hex(8)}", secrets.token_hex(8)
    try:
        cache.set(key, value, 60)
        kept = cache.get(key) == value
        cache.delete(key)
    except Exception as error:  # noqa: BLE001 - each cache backend has its own errors
        raise Stop("cache.unreachable", why=first_line(error)) from None
    if not kept and not isinstance(caches[DEFAULT_CACHE_ALIAS], DummyCache):
        raise Stop("cache.unreachable", why="a value that was just written is missing")
    if settings.RATE_LIMIT and isinstance(caches[DEFAULT_CACHE_ALIAS], LocMemCache):
        visit.found("cache.local")
    return "stores values"


def layer(_: Visit) -> str:
    """Send a message through the channel layer."""
    shared: Any = shared_layer()
    if shared is None:
        raise Stop("layer.none", seconds=f"{settings.POLL_INTERVAL:g}")
    try:
        async_to_sync(through)(shared)
    except Exception as error:  # noqa: BLE001 - each layer has its own errors
        raise Stop("layer.unreachable", why=first_line(error), seconds=f"{settings.POLL_INTERVAL:g}") from None
    return f"{type(shared).__name__} delivers messages"


async def through(shared: Any) -> None:
    """Send a message to this process."""
    async with asyncio.timeout(LAYER_SECONDS):
        channel = await shared.new_channel("django_mcp.doctor")
        await shared.send(channel, {"type": "look"})
        await shared.receive(channel)


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


class Check(NamedTuple):
    """A check.

    Attributes:
        look: runs the check, adds findings, and returns a sentence for success.
        needs: checks that must succeed first.
        calls: True if it may need a credential.
    """

    name: str
    title: str
    look: Callable[[Visit], str]
    needs: tuple[str, ...] = ()
    calls: bool = False


MAX_NAMED = 5
"""Maximum policies that a finding names."""


def policies(visit: Visit) -> str:
    """Look for policies that match nobody: a control that was meant to restrict, and does not."""
    if unmatched := find_unmatched(visit.server):
        more = f"; and {len(unmatched) - MAX_NAMED} more" if len(unmatched) > MAX_NAMED else ""
        raise Stop("policies.unmatched", evidence="; ".join(unmatched[:MAX_NAMED]) + more)
    return "every policy names tools, clients and groups that exist"


CHECKS = (
    Check("database", "Database", database),
    Check("migrations", "Migrations", migrations, ("database",)),
    Check("checks", "System checks", system_checks, ("database",)),
    Check("debug", "DEBUG", debug),
    Check("cache", "Cache", caching),
    Check("layer", "Channel layer", layer),
    Check("reach", "Reachable", probes.reach),
    Check("answer", "Answers", probes.answer, ("reach",)),
    Check("challenge", "OAuth discovery", probes.challenge, ("answer",)),
    Check("documents", "Client documents", probes.documents),
    Check("login", "Login page", probes.login, ("answer", "database")),
    Check("policies", "Policies", policies, ("database", "migrations")),
    Check("credential", "Credential", probes.credential, ("answer",)),
    Check("pages", "Browser clients", probes.pages, ("answer",)),
    Check("modern", "Modern protocol", probes.modern, ("answer",), calls=True),
    Check("legacy", "Legacy protocol", probes.legacy, ("answer",), calls=True),
    Check("streams", "Streams", probes.streams, ("modern",), calls=True),
    Check("clock", "Clock", probes.clock, ("answer",)),
    Check("size", "Large bodies", probes.sizes, ("answer",)),
    Check("connection", "Connections", probes.connection, ("answer",)),
    Check("deployment", "Same database", probes.deployment, ("database", "legacy"), calls=True),
    Check("bell", "Notifications", probes.bell, ("deployment", "legacy", "streams"), calls=True),
    Check("idle", "Idle streams", probes.idle, ("streams",), calls=True),
)


def run(visit: Visit) -> Iterator[Checked]:
    """Run all checks and yield each result. Open streams and sessions are closed at the end."""
    failed: set[str] = set()
    try:
        for check in CHECKS:
            checked = Checked(check.name, check.title)
            if missing := [need for need in check.needs if need in failed]:
                failed.add(check.name)
                checked.skipped = f"skipped because of “{title_of(missing[0])}”"
            elif check.calls and not visit.is_open:
                checked.skipped = "skipped because it needs a valid credential"
            else:
                make(check, visit, checked)
            if checked.severity is Severity.ERROR:
                failed.add(check.name)
            yield checked
    finally:
        with suppress(Stop, DatabaseError):
            visit.close()


def make(check: Check, visit: Visit, checked: Checked) -> None:
    """Run one check."""
    visit.findings = checked.findings
    try:
        checked.seen = check.look(visit)
    except Stop as stop:
        visit.found(stop.finding_id, **stop.values)
    except DatabaseError as error:
        visit.found("database.unreachable", alias="default", why=first_line(error))


def title_of(name: str) -> str:
    return next(check.title for check in CHECKS if check.name == name)
