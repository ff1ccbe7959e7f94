"""Questions of a call on the page: forms for their answers, and what is remembered until they come.

What is remembered is sealed as it is for a client: good for the same user, endpoint and arguments, for a while, once.
"""

from collections.abc import Mapping
from typing import Any

from django.core import signing
from django.http import QueryDict
from django.utils.translation import gettext as _

from django_mcp.admin.trying.forms import SchemaForm
from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.elicitation import Dialogue
from django_mcp.protocol.errors import InvalidParams
from django_mcp.pubsub import once
from django_mcp.revisions.modern.handler import seal, unseal

SALT = "django_mcp.trying.questions"
ACTIONS = ("accept", "decline", "cancel")


class TooLate(Exception):
    """Answers that continue nothing: they were given already, or too late, or to another call."""


class Question:
    """One question.

    Args:
        key: names it among those of its call.
        request: the elicitation, as a client gets it.
        number: among those on the page.
    """

    def __init__(self, key: str, request: Mapping[str, Any], number: int) -> None:
        params = request.get("params") or {}
        self.key = key
        self.message = str(params.get("message") or "")
        self.url = str(params.get("url") or "") if params.get("mode") == "url" else ""
        self.action_name = f"q{number}"
        self.form = SchemaForm({} if self.url else params.get("requestedSchema"), f"q{number}")
        self.form.fill_defaults()

    @property
    def is_safe_url(self) -> bool:
        """Whether it leads to a page, and not into this one."""
        return self.url.startswith(("https://", "http://"))

    @property
    def actions(self) -> list[tuple[str, str]]:
        """What can be done with it."""
        accept = _("I agree to open it") if self.url else _("Answer")
        return [("accept", accept), ("decline", _("Decline")), ("cancel", _("Close without an answer"))]

    def answer(self, data: QueryDict) -> dict[str, Any]:
        """As a client sends it."""
        action = data.get(self.action_name, "cancel")
        if action != "accept" or self.url:
            return {"action": action if action in ACTIONS else "cancel"}
        return {"action": "accept", "content": self.form.read(data) or {}}


def questions_of(requests: Mapping[str, Any]) -> list[Question]:
    """Those of a call."""
    return [Question(key, request, number) for number, (key, request) in enumerate(requests.items())]


def sealed(context: Context, requests: Mapping[str, Any]) -> dict[str, str]:
    """Hidden fields, with which the answers continue the call."""
    state = seal(context, context.params)
    return {"state": state, "questions": signing.dumps(dict(requests), salt=SALT, compress=True)}


def resumed(context: Context, data: QueryDict) -> Dialogue:
    """The call's dialogue, with the answers.

    Raises:
        TooLate: there is none that they continue.
    """
    try:
        dialogue = unseal(data.get("state"), context)
        requests = signing.loads(data.get("questions", ""), salt=SALT, max_age=settings.INPUT_SECONDS)
    except (InvalidParams, signing.BadSignature):
        raise TooLate from None
    if not once.take(dialogue.id, f"round:{dialogue.round}"):
        raise TooLate
    dialogue.answer({each.key: each.answer(data) for each in questions_of(requests)})
    return dialogue
