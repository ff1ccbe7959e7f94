"""Take the pictures of ``docs/images/admin``: ``make screenshots``, on the demo with two days of made-up traffic.

Each page is taken in Chromium at 1280 and 390 pixels, light and dark, with Django's own admin and with django-unfold.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "docs" / "images" / "admin"
HOST, PORT = "127.0.0.1", 18_533
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")
COLOURS = 96
"""Of a picture: enough for pages, and a third of the bytes."""
SETTINGS = {"plain": "demo_project.settings", "unfold": "tests.admin.unfold_settings"}
PAGES = {
    "overview": "overview/",
    "approvals": "approval/",
    "approval": "approval/{approval}/change/",
    "request-log": "requestlog/",
    "request-log-entry": "requestlog/{failed}/change/",
    "tools": "tools/",
    "tool": "tools/default.book_5Fhotel/change/",
    "oauth-clients": "oauthclient/",
    "oauth-client": "oauthclient/https_3A_2F_2Fclaude.ai_2Foauth_2Fclaude-code-client-metadata/change/",
    "api-keys": "apikey/",
    "tasks": "task/",
    "playground": "playground/",
    "playground-result": "playground/call/?endpoint=default&kind=tool&key=search_activities",
    "playground-app": "playground/call/?endpoint=default&kind=tool&key=hold_rooms_form",
}
OFFICE_PAGES = {"office-approval": "approval/{office}/change/"}
"""Of the demo's back office, as anna sees them, who asked."""
PEOPLE = {"admin": "admin", "anna": "travel-anna"}
PRESSED = {"playground-result": "button[value=fields]", "playground-app": "button[value=fields]"}
"""What is clicked before the picture."""
HIGH = "[...document.querySelectorAll('iframe')].every((each) => each.style.height)"
"""True once the apps on a page have the height of their content."""
DRAWN = "async () => { for (const _ of '12') await new Promise(requestAnimationFrame) }"


def environment(database: Path, settings: str = SETTINGS["plain"], port: int = PORT) -> dict[str, str]:
    """Return the environment of the demo's processes."""
    return {
        **os.environ,
        "DEMO_DATABASE": str(database),
        "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": settings,
        "BASE_URL": f"http://{HOST}:{port}",
    }


def prepared(database: Path, port: int = PORT) -> dict[str, int]:
    """Make the demo's database with traffic, and return the keys of the rows that pages show."""
    for command in ("migrate", "load_travel"):
        _run(["manage.py", command, "-v0"], database, port)
    return add_traffic(database, port)


def add_traffic(database: Path, port: int = PORT) -> dict[str, int]:
    """Add traffic to the demo's database, and return the keys of the rows that pages show."""
    return _keys([__file__, "--traffic"], database, port)


def asked(database: Path, port: int = PORT) -> dict[str, int]:
    """Let anna's client ask for a change in the back office, and return the key of the approval."""
    return _keys([__file__, "--ask"], database, port)


def _keys(command: list[str], database: Path, port: int) -> dict[str, int]:
    keys: dict[str, int] = json.loads(_run(command, database, port))
    return keys


def _run(command: list[str], database: Path, port: int) -> bytes:
    return subprocess.run(  # noqa: S603 - ours
        [sys.executable, *command],
        cwd=ROOT,
        env=environment(database, port=port),
        check=True,
        stdout=subprocess.PIPE,
    ).stdout


@contextmanager
def demo(database: Path, settings: str = SETTINGS["plain"], port: int = PORT) -> Iterator[str]:
    """Serve the demo; yields the address of its admin."""
    command = [sys.executable, "manage.py", "demo", "--port", str(port)]
    process = subprocess.Popen(  # noqa: S603 - ours
        command,
        cwd=ROOT,
        env=environment(database, settings, port),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait_for(f"http://{HOST}:{port}/admin/login/", process)
        yield f"http://{HOST}:{port}/admin/"
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()  # noqa: S310 - an address of ours
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise SystemExit("The demo did not start.")


CLIENTS = (("Claude", "1.8.2"), ("ChatGPT", "2026.11"), ("Visual Studio Code", "1.121.0"), ("mcp-inspector", "1.4.0"))
TOOLS = (
    ("search_flights", 40, 0.02, 45),
    ("search_hotels", 25, 0.01, 30),
    ("get_weather", 18, 0.12, 320),
    ("book_hotel", 9, 0.08, 80),
    ("list_bookings", 8, 0.0, 25),
    ("cancel_booking", 3, 0.05, 60),
    ("send_email", 3, 0.3, 410),
)
"""Name, share of the calls, share of errors, usual duration in milliseconds."""
ERRORS = {
    "get_weather": "The weather service did not answer within 5 seconds. Retry later.",
    "send_email": "The mail server refused the message: mailbox full.",
    "book_hotel": "Hotel 14 has no room for 3 guests on 2026-12-24. Choose other dates.",
    "search_flights": "No airport with code 'LIX' found. Use search_airports to find one.",
}


def traffic(calls: int = 900) -> dict[str, int]:
    """Fill the log, the approvals and the tasks of the demo's database; return the keys of the rows that are shown."""
    import django  # noqa: PLC0415 - settings come from the environment

    django.setup()
    from django.contrib.auth import get_user_model  # noqa: PLC0415
    from django.utils import timezone  # noqa: PLC0415

    from django_mcp.auth.api_keys import create_key  # noqa: PLC0415
    from django_mcp.auth.protected_resource import resource_of  # noqa: PLC0415
    from django_mcp.auth.toolkit import get_access_token_model, get_application_model  # noqa: PLC0415
    from django_mcp.core.server import server  # noqa: PLC0415
    from django_mcp.models import (  # noqa: PLC0415
        Approval,
        ApprovalEvent,
        AutoApprovalRule,
        ClientPolicy,
        RequestLog,
        Task,
    )

    chance, now = random.Random(7), timezone.now()  # noqa: S311 - traffic, the same each time
    users = [get_user_model().objects.get(username=name) for name in ("anna", "ben", "admin")]
    rows = []
    for _ in range(calls):
        name, _share, wrong, usual = chance.choices(TOOLS, [each[1] for each in TOOLS])[0]
        client, version = chance.choices(CLIENTS, [5, 3, 2, 1])[0]
        user = chance.choice(users)
        outcome = "error" if chance.random() < wrong else chance.choices(["ok", "denied"], [60, 1])[0]
        is_crash = outcome == "error" and name not in ERRORS
        error = {"error": ERRORS.get(name, "Internal server error."), "denied": "Permission denied."}.get(outcome, "")
        rows.append(
            RequestLog(
                started_at=now - timedelta(seconds=chance.triangular(60, 172_000, 20_000)),
                server="default",
                method="tools/call",
                name=name,
                outcome="crashed" if is_crash else outcome,
                error=error,
                exception_type="KeyError" if is_crash else "",
                exception_place="travel/flights.py:88" if is_crash else "",
                principal_kind="oauth",
                principal_id=f"{user.pk}:1",
                user=user,
                caller=user.get_username(),
                client_name=client,
                client_version=version,
                protocol=chance.choices(["2026-07-28", "2025-11-25"], [3, 1])[0],
                address="192.0.2.14",
                arguments={"city": "Lisbon", "nights": chance.randint(1, 9)},
                result_kind="structured",
                result_size=chance.randint(300, 4000),
                duration=usual * chance.lognormvariate(0, 0.6),
                queries=chance.randint(1, 6),
                trace_id=f"{chance.getrandbits(128):032x}",
            )
        )
    RequestLog.objects.bulk_create(sorted(rows, key=lambda row: row.started_at))
    anna = users[0]
    hour = timedelta(hours=1)
    application = get_application_model().objects.create(
        client_id="https://claude.ai/oauth/claude-code-client-metadata",
        name="Claude",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://claude.ai/api/mcp/auth_callback",
        registration_source="cimd",
    )
    get_access_token_model().objects.create(
        user=anna,
        application=application,
        token="of-no-use",  # noqa: S106 - nothing accepts it
        expires=now + hour,
        scope="travel:read travel:write",
        resource=[resource_of(server)],
    )
    task = Task.objects.create(
        task_id="8yGm2QbTqE0vWc1d",
        server="default",
        tool="year_report",
        principal_kind="oauth",
        principal_id=f"{anna.pk}:{application.pk}",
        user=anna,
        client={"name": "Claude", "version": "1.8.2"},
        request={"method": "tools/call", "params": {"name": "year_report", "arguments": {"year": 2026}}},
        backend="none",
        created=now - timedelta(minutes=3),
        updated=now,
        expires=now + hour,
    )
    pending = [
        _approval(
            Approval,
            anna,
            "cancel_booking",
            {"booking": "B-1042", "reason": "The customer is ill"},
            {
                "verb": "update",
                "object": "booking B-1042",
                "uri": "travel://bookings/B-1042",
                "changes": [{"field": "status", "label": "status", "before": "confirmed", "after": "cancelled"}],
                "also": [{"what": "refund", "count": 1}],
            },
            ago=timedelta(minutes=minutes),
        )
        for minutes in (4, 21)
    ]
    pending.append(
        _approval(
            Approval,
            users[1],
            "send_email",
            {"to": "guest@example.com", "subject": "Your trip to Lisbon", "body": "Dear guest,\nyour trip is booked."},
            {"text": "E-mail to guest@example.com: Your trip to Lisbon"},
            ago=timedelta(minutes=1),
        )
    )
    for row in pending:
        ApprovalEvent.objects.create(approval=row, kind="proposed", at=row.created)
    mail = pending[-1]
    rule = AutoApprovalRule.objects.create(
        server="default",
        tool=mail.tool,
        principal_kind="oauth",
        principal_id=mail.principal_id,
        user=mail.user,
        arguments={name: mail.arguments[name] for name in ("to", "subject")},
        pattern={"to": "1", "subject": "2"},
        version=mail.version,
        remaining=5,
        created=now,
        created_by=users[-1],
        expires=now + hour,
    )
    changed = [{"field": "note", "label": "note", "before": "", "after": "vegetarian"}]
    denied = _approval(
        Approval,
        anna,
        "book_hotel",
        {"hotel": 14, "note": "vegetarian"},
        {"verb": "create", "object": "booking", "changes": changed},
        ago=timedelta(minutes=40),
    )
    decision = {"state": "denied", "decided": now - timedelta(minutes=31), "decided_by": users[-1], "unique_key": None}
    Approval.objects.filter(pk=denied.pk).update(**decision, reason="Ask the customer first.")
    for name, user, is_limited in (("Nightly import of prices", users[-1], False), ("Report of the month", anna, True)):
        create_key(user, name, endpoints=["default"], read_only=is_limited)
    ClientPolicy.objects.create(
        client_id="Zk3v9yQ8pL2mN5xR7tB1cD4fG6hJ0sWaEuIoYrTq", blocked=True, scopes=["travel:read"]
    )
    failed = RequestLog.objects.filter(outcome="error").order_by("-started_at")[0]
    return {
        "approval": pending[0].pk,
        "denied": denied.pk,
        "failed": failed.pk,
        "rule": rule.pk,
        "task": task.pk,
    }


def ask() -> dict[str, int]:
    """Call a tool of the back office as anna's client, and return the key of its approval."""
    import django  # noqa: PLC0415 - settings come from the environment

    django.setup()
    from django.conf import settings  # noqa: PLC0415
    from django.contrib.auth import get_user_model  # noqa: PLC0415
    from django.test import override_settings  # noqa: PLC0415

    from demo_project.travel.endpoints import office  # noqa: PLC0415
    from demo_project.travel.models import Hotel  # noqa: PLC0415
    from django_mcp.models import Approval  # noqa: PLC0415
    from django_mcp.test import MCPClient  # noqa: PLC0415

    anna = get_user_model().objects.get(username="anna")
    hotel = Hotel.objects.get(city__slug="rome", name__contains="Testaccio")
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001}):
        client = MCPClient(anna, server=office, scopes=["travel:office"])
        client.call("change_hotel", pk=hotel.pk, price="244.00", breakfast=not hotel.breakfast)
    approval = Approval.objects.latest("pk")
    Approval.objects.filter(pk=approval.pk).update(client={"name": "Claude", "version": "1.8.2"})
    return {"office": approval.pk}


def _approval(model: Any, user: Any, tool: str, arguments: Any, preview: Any, ago: timedelta) -> Any:
    from django.utils import timezone  # noqa: PLC0415

    from django_mcp.approvals.fingerprint import version  # noqa: PLC0415
    from django_mcp.core.principal import Principal  # noqa: PLC0415
    from django_mcp.core.server import server  # noqa: PLC0415

    now = timezone.now() - ago
    rule = server.policies.of(server.tools[tool], Principal("oauth", f"{user.pk}:1", user), ())
    number = model.objects.count()
    return model.objects.create(
        public_id=f"q7r{number:05}",
        server="default",
        tool=tool,
        principal_kind="oauth",
        principal_id=f"{user.pk}:1",
        user=user,
        client={"name": "Claude", "version": "1.8.2"},
        arguments=arguments,
        parts={name: f"{number}{name}" for name in ("", *arguments)},
        digest=f"{number:064}",
        version=version(server.tools[tool], rule),
        preview=preview,
        created=now,
        expires=now + timedelta(hours=1),
    )


def take(
    browser: Any,
    address: str,
    keys: dict[str, int],
    admin: str,
    wanted: list[str],
    pages: Mapping[str, str],
    user: str = "admin",
) -> None:
    """Take every page in every size and theme, as a user sees it."""
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=theme, locale="en-GB", timezone_id="UTC"
            )
            page = context.new_page()
            page.goto(f"{address}login/?next=/admin/")
            page.fill("input[name=username]", user)
            page.fill("input[name=password]", PEOPLE[user])
            page.press("input[name=password]", "Enter")
            page.wait_for_url("**/admin/", wait_until="commit")
            for name, path in pages.items():
                if wanted and name not in wanted:
                    continue
                page.goto(address + "django_mcp/" + path.format(**keys))
                if name in PRESSED:
                    page.click(PRESSED[name])
                    page.wait_for_load_state()
                    page.wait_for_function(HIGH)
                    for frame in page.frames:
                        frame.evaluate(DRAWN)
                target = FOLDER / f"{name}-{'' if admin == 'plain' else f'{admin}-'}{theme}-{size}.png"
                image = Image.open(BytesIO(page.screenshot()))
                image.convert("RGB").quantize(COLOURS).save(target, optimize=True)
                wide = page.evaluate("document.documentElement.scrollWidth")
                print(target.name, "TOO WIDE" if wide > width else "")  # noqa: T201
            context.close()


def main() -> None:
    """Make the database, serve it, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], choices=[*PAGES, *OFFICE_PAGES], help="pages; all by default")
    parser.add_argument("--admin", nargs="*", default=[*SETTINGS], choices=[*SETTINGS])
    parser.add_argument("--traffic", action="store_true", help="fill the demo's database, and print keys as JSON")
    parser.add_argument("--ask", action="store_true", help="ask for a change in its back office, likewise")
    options = parser.parse_args()
    if options.traffic or options.ask:
        print(json.dumps(traffic() if options.traffic else ask()))  # noqa: T201
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    from tests.auth_check.browser import find_chromium  # noqa: PLC0415

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "demo.sqlite3"
        keys = prepared(database)
        with sync_playwright() as playwright:
            launch = {"executable_path": find_chromium(), "args": ["--no-sandbox", "--disable-gpu"]}
            browser = playwright.chromium.launch(**launch)
            for admin in options.admin:
                with demo(database, SETTINGS[admin]) as address:
                    take(browser, address, keys, admin, options.only, PAGES)
            keys |= asked(database)  # afterwards: other pages show all approvals
            for admin in options.admin:
                with demo(database, SETTINGS[admin]) as address:
                    take(browser, address, keys, admin, options.only, OFFICE_PAGES, "anna")
            browser.close()


if __name__ == "__main__":
    main()
