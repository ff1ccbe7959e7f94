"""Who calls, what their rows point to, and the server they call: all in this process, so that its queries are seen."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from benchmarks.credentials import KEY
from benchmarks.growth.tables import PARENTS
from benchmarks.process import HOST, free_port

TOKEN = "growth-access-token"
WITHIN = 20.0


def prepare() -> tuple[int, dict[str, list[int]]]:
    """Make the caller with a key and a token, somebody who approves, and rows that others point to.

    Returns:
        the primary key of the API key, and those of the others by the names of their models.
    """
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - Django is set up
    from django.utils import timezone  # noqa: PLC0415
    from oauth2_provider import models as toolkit  # noqa: PLC0415

    from django_mcp import models  # noqa: PLC0415
    from django_mcp.auth.api_keys import hash_of  # noqa: PLC0415

    users: Any = get_user_model()._default_manager  # noqa: SLF001 - Django's documented API
    later, numbers = timezone.now() + timedelta(days=30), range(PARENTS)
    caller = users.create_user("caller")
    users.create_superuser("approver")
    users.bulk_create(get_user_model()(username=f"parent-{number}") for number in numbers)
    key = models.APIKey.objects.create(
        key_hash=hash_of(KEY), prefix=KEY[:14], name="growth", user=caller, endpoints=["default"], scopes=["mcp"],
        expires=later,
    )  # fmt: skip
    who = {"server": "default", "principal_kind": "nobody", "principal_id": "0", "expires": later}
    now = timezone.now()
    sessions = [models.Session.objects.create(key=f"parent-{number}", **who) for number in numbers]
    calls = [
        models.Call.objects.create(key=f"parent-{n}", session=sessions[n], request={}, request_id=1, expires=later)
        for n in numbers
    ]
    tasks = [
        models.Task.objects.create(task_id=f"parent-{number}", request={}, created=now, updated=now, **who)
        for number in numbers
    ]
    approvals = [
        models.Approval.objects.create(
            public_id=f"parent-{number}", digest=f"parent-{number}", arguments={}, created=now, state="consumed", **who
        )
        for number in numbers
    ]
    applications = [
        toolkit.Application.objects.create(name=f"parent-{n}", client_type="public", hash_client_secret=False)
        for n in numbers
    ]
    toolkit.AccessToken.objects.create(
        token=TOKEN, token_checksum=hashlib.sha256(TOKEN.encode()).hexdigest(), user=caller, expires=later,
        application=applications[0], scope="mcp", resource=["https://growth.example.com/mcp"],
    )  # fmt: skip
    made: dict[str, list[Any]] = {
        "Session": sessions,
        "Call": calls,
        "Task": tasks,
        "Approval": approvals,
        "Application": applications,
    }
    parents = {name: [each.pk for each in rows] for name, rows in made.items()}
    return key.pk, {**parents, "User": list(users.filter(username__startswith="parent").values_list("pk", flat=True))}


@contextmanager
def served() -> Iterator[int]:
    """The port of a uvicorn in a thread of this process that serves the site."""
    import uvicorn  # noqa: PLC0415 - tests of plans need none
    from django.core.asgi import get_asgi_application  # noqa: PLC0415 - Django is set up

    from django_mcp.asgi import mcp_application  # noqa: PLC0415

    port = free_port(set())
    application = mcp_application(get_asgi_application())
    server = uvicorn.Server(uvicorn.Config(application, host=HOST, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        end = time.monotonic() + WITHIN
        while not server.started:
            if time.monotonic() > end or not thread.is_alive():
                raise SystemExit("the server did not start")
            time.sleep(0.01)
        yield port
    finally:
        from django_mcp.pubsub.follower import end_streams  # noqa: PLC0415

        end_streams()
        server.should_exit = True
        thread.join(WITHIN)
