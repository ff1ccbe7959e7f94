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

from django_mcp.conf import settings
from django_mcp.core.policies import policy_cache
from django_mcp.doctor import probes
from django_mcp.doctor.http import Diagnosis
from django_mcp.doctor.messages import CheckFailed, CheckResult, Severity
from django_mcp.doctor.probes import THIS_MACHINE
from django_mcp.models import Session
from django_mcp.pubsub.notify import shared_layer

OURS = ("django_mcp", "oauth2_provider")
LAYER_SECONDS = 5.0


def database(diagnosis: Diagnosis) -> str:
    """Check that the database is reachable, and suitable for several workers."""
    alias = router.db_for_write(Session) or "default"
    try:
        connections[alias].ensure_connection()
    except DatabaseError as error:
        raise CheckFailed("database.unreachable", alias=alias, why=first_line(error)) from None
    if connections[alias].vendor == "sqlite":
        diagnosis.add_finding("database.sqlite")
    return f"{connections[alias].display_name} answers"


def migrations(diagnosis: Diagnosis) -> str:
    """Check that migrations of django_mcp and the authorization server are applied."""
    alias = router.db_for_write(Session) or "default"
    executor = MigrationExecutor(connections[alias])
    planned = executor.migration_plan(executor.loader.graph.leaf_nodes())
    pending = [f"{migration.app_label}.{migration.name}" for migration, _ in planned if migration.app_label in OURS]
    if pending:
        diagnosis.add_finding("migrations.pending", alias=alias, names=", ".join(pending))
    return "all are applied"


def system_checks(diagnosis: Diagnosis) -> str:
    """Run ``manage.py check --deploy --database default``, limited to django_mcp."""
    for message in checks.run_checks(include_deployment_checks=True, databases=["default"]):
        if str(message.id).startswith("django_mcp.") and not message.is_silenced() and message.level >= checks.WARNING:
            kind = "check.error" if message.level >= checks.ERROR else "check.warning"
            diagnosis.add_finding(kind, id=message.id, message=message.msg, hint=message.hint or "See docs/checks.md.")
    return "no problems of django_mcp"


def debug(diagnosis: Diagnosis) -> str:
    """Check that ``DEBUG`` is off unless the endpoint is local."""
    if django_settings.DEBUG and diagnosis.client.parts.hostname not in THIS_MACHINE:
        diagnosis.add_finding("settings.debug")
    return f"DEBUG is {django_settings.DEBUG}"


def caching(diagnosis: Diagnosis) -> str:
    """Check that the default cache stores values."""
    key, value = f"django_mcp.doctor.{secrets.token_hex(8)}", secrets.token_hex(8)
    try:
        cache.set(key, value, 60)
        kept = cache.get(key) == value
        cache.delete(key)
    except Exception as error:  # noqa: BLE001 - each cache backend has its own errors
        raise CheckFailed("cache.unreachable", why=first_line(error)) from None
    if not kept and not isinstance(caches[DEFAULT_CACHE_ALIAS], DummyCache):
        raise CheckFailed("cache.unreachable", why="a value that was just written is missing")
    if settings.RATE_LIMIT and isinstance(caches[DEFAULT_CACHE_ALIAS], LocMemCache):
        diagnosis.add_finding("cache.local")
    return "stores values"


def layer(_: Diagnosis) -> str:
    """Send a message through the channel layer."""
    shared: Any = shared_layer()
    if shared is None:
        raise CheckFailed("layer.none", seconds=f"{settings.POLL_INTERVAL:g}")
    try:
        async_to_sync(send_through)(shared)
    except Exception as error:  # noqa: BLE001 - each layer has its own errors
        raise CheckFailed("layer.unreachable", why=first_line(error), seconds=f"{settings.POLL_INTERVAL:g}") from None
    return f"{type(shared).__name__} delivers messages"


async def send_through(shared: Any) -> None:
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
        run: runs the check, adds findings, and returns a sentence for success.
        needs: checks that must succeed first.
        needs_credential: True if it may need a credential.
    """

    name: str
    title: str
    run: Callable[[Diagnosis], str]
    needs: tuple[str, ...] = ()
    needs_credential: bool = False


MAX_NAMED = 5
"""Maximum policies that a finding names."""


def policies(diagnosis: Diagnosis) -> str:
    """Look for policies that match nobody: a control that was meant to restrict, and does not."""
    if unmatched := policy_cache.find_unmatched(diagnosis.server):
        more = f"; and {len(unmatched) - MAX_NAMED} more" if len(unmatched) > MAX_NAMED else ""
        raise CheckFailed("policies.unmatched", evidence="; ".join(unmatched[:MAX_NAMED]) + more)
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
    Check("modern", "Modern protocol", probes.modern, ("answer",), needs_credential=True),
    Check("legacy", "Legacy protocol", probes.legacy, ("answer",), needs_credential=True),
    Check("streams", "Streams", probes.streams, ("modern",), needs_credential=True),
    Check("clock", "Clock", probes.clock, ("answer",)),
    Check("size", "Large bodies", probes.sizes, ("answer",)),
    Check("connection", "Connections", probes.connection, ("answer",)),
    Check("deployment", "Same database", probes.deployment, ("database", "legacy"), needs_credential=True),
    Check(
        "notifications",
        "Notifications",
        probes.notifications,
        ("deployment", "legacy", "streams"),
        needs_credential=True,
    ),
    Check("idle", "Idle streams", probes.idle, ("streams",), needs_credential=True),
)


def run_checks(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    """Run all checks and yield each result. Open streams and sessions are closed at the end."""
    failed: set[str] = set()
    try:
        for check in CHECKS:
            result = CheckResult(check.name, check.title)
            if missing := [need for need in check.needs if need in failed]:
                failed.add(check.name)
                result.skipped = f"skipped because of “{title_of(missing[0])}”"
            elif check.needs_credential and not diagnosis.may_call:
                result.skipped = "skipped because it needs a valid credential"
            else:
                run_check(check, diagnosis, result)
            if result.severity is Severity.ERROR:
                failed.add(check.name)
            yield result
    finally:
        with suppress(CheckFailed, DatabaseError):
            diagnosis.close()


def run_check(check: Check, diagnosis: Diagnosis, result: CheckResult) -> None:
    diagnosis.findings = result.findings
    try:
        result.success = check.run(diagnosis)
    except CheckFailed as failure:
        diagnosis.add_finding(failure.finding_id, **failure.values)
    except DatabaseError as error:
        diagnosis.add_finding("database.unreachable", alias="default", why=first_line(error))


def title_of(name: str) -> str:
    return next(check.title for check in CHECKS if check.name == name)
