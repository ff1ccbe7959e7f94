"""One trial: a form, what was typed into it, and what came of the call."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from django_mcp.admin.trying.calling import Outcome, PageChannel, call, context_for
from django_mcp.admin.trying.fields import NotJSON, read_json
from django_mcp.admin.trying.forms import SchemaForm, as_text
from django_mcp.admin.trying.questions import Question, TooLate, questions_of, resumed, sealed
from django_mcp.admin.trying.showing import Shown, json_of, said_of
from django_mcp.admin.trying.subjects import METHODS, Subject
from django_mcp.core.context import Context
from django_mcp.core.redaction import redacted
from django_mcp.core.server import MCPServer
from django_mcp.primitives.tool import Tool


class Trial:
    """Of one subject.

    Args:
        request: of the page.
        server: the endpoint.
        subject: what is tried.
        reads: gives the address of the page that reads a resource.

    Attributes:
        arguments: as they were sent; None where nothing was sent yet.
        outcome: None where nothing was called yet.
        problem: why nothing was called.
        hidden: fields with which answers continue the call.
    """

    def __init__(self, request: HttpRequest, server: MCPServer, subject: Subject, reads: Callable[[str], str]) -> None:
        self.request, self.server, self.subject, self._reads = request, server, subject, reads
        self.form = SchemaForm(subject.schema, one_line=subject.kind in {"template", "uri"})
        if subject.kind == "uri" and subject.key:
            self.form.fill({"uri": subject.key})
        self.json = ""
        self.by_json = False
        self.arguments: dict[str, Any] | None = None
        self.outcome: Outcome | None = None
        self.problem = ""
        self.questions: list[Question] = []
        self.hidden: dict[str, str] = {}

    def run(self) -> None:
        """Call it with what was typed."""
        arguments = self._read()
        if arguments is None:
            return
        self.arguments = arguments
        if self.request.POST.get("by") != "fields":  # else they hold what was typed already
            self.form.fill(arguments)
        if not self.form.has_secrets:
            self.json = as_text(arguments)
        context = self._context(arguments)
        try:
            dialogue = resumed(context, self.request.POST) if self.request.POST.get("by") == "answers" else None
        except TooLate:
            self.problem = _("These answers come too late: the questions were answered already. Call it again.")
            return
        self.outcome = call(context, dialogue)
        if self.outcome.questions:
            self.questions = questions_of(self.outcome.questions)
            self.hidden = sealed(context, self.outcome.questions)

    def _context(self, arguments: dict[str, Any]) -> Context:
        channel = PageChannel(has_tasks=getattr(self.subject.primitive, "task", None) is not None)
        method = METHODS[self.subject.kind]
        return context_for(self.request, self.server, method, self.subject.params(arguments), channel)

    def _read(self) -> dict[str, Any] | None:
        """The arguments, from wherever they were typed."""
        data = self.request.POST
        if data.get("by") in {"again", "answers"}:
            return self._parsed(data.get("arguments", ""))
        if data.get("by") == "json":
            self.json, self.by_json = data.get("json", ""), True
            return self._parsed(self.json or "{}")
        found = self.form.read(data)
        if found is None:
            self.problem = _("Nothing was called: please correct what is marked.")
        return found

    def _parsed(self, text: str) -> dict[str, Any] | None:
        try:
            value = read_json(text)
        except NotJSON as error:
            self.problem = _("Nothing was called. %s") % error
            return None
        if isinstance(value, dict):
            return value
        self.problem = _("Nothing was called: arguments are a JSON object, like {}.")
        return None

    # For the template

    @property
    def shown(self) -> Shown | None:
        """What came of it, where that is not questions."""
        if self.outcome is None or self.questions:
            return None
        return Shown(self.outcome.fields, self.outcome.error, self._reads)

    @property
    def said(self) -> list[tuple[str, str]]:
        """What the tool told meanwhile."""
        return [] if self.outcome is None else said_of(self.outcome)

    @property
    def sent(self) -> Any:
        """The arguments as they may be read."""
        tool = self.subject.primitive
        return json_of(redacted(tool if isinstance(tool, Tool) else None, self.arguments, longest=None, whole=None))

    @property
    def kept(self) -> str:
        """The arguments, to call it again."""
        return as_text(self.arguments)

    @property
    def schema(self) -> Any:
        """Of the arguments."""
        return json_of(self.subject.schema)
