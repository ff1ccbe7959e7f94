"""The playground: call tools, prompts and resources from an admin page as the logged-in user.

Between questions and answers, the state of a call is sealed as for any client: valid once, for a limited time, and
only for the same user, endpoint and arguments.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from pydantic_core import from_json, to_json

from django_mcp.admin.base import ReadOnlyAdmin, address_in
from django_mcp.admin.display import MAX_CHARACTERS, cut
from django_mcp.admin.playground_call import (
    Outcome,
    ResultView,
    Snippet,
    call,
    describe_messages,
    principal_of,
    render_json,
    request_of_page,
    security_policy,
    snippets,
)
from django_mcp.admin.tool_rows import kind_words
from django_mcp.auth.protected_resource import path_of, url_of
from django_mcp.client.in_process import permission_context, refresh_server
from django_mcp.client.schema_form import NotJSON, SchemaForm, as_text, read_json
from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.failures import traceback_of
from django_mcp.core.permissions import Right, admits, right, rule_for
from django_mcp.core.policies import Decision
from django_mcp.core.redaction import HIDDEN, redacted, secrets_in, without
from django_mcp.core.server import MCPServer, servers
from django_mcp.model_resources.pagination import decrypt, encrypt
from django_mcp.models import RequestLog, Task
from django_mcp.primitives.base import Primitive, translate
from django_mcp.primitives.markers import is_secret
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InvalidParams
from django_mcp.tasks import store
from django_mcp.tasks.api import TaskFailed, look_up, store_answers
from django_mcp.tasks.extension import status_message

SALT = "django_mcp.playground.questions"
ACTIONS = ("accept", "decline", "cancel")
TOO_LATE = gettext_lazy("These questions have expired or were already answered. Call the tool again.")


class Question:
    """An elicitation shown as a form; *number* is its position on the page."""

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
        # Other schemes, such as javascript:, must not be linked.
        return self.url.startswith(("https://", "http://"))

    @property
    def actions(self) -> list[tuple[str, str]]:
        accept = _("Agree to open the URL") if self.url else _("Accept")
        return [("accept", accept), ("decline", _("Decline")), ("cancel", _("Cancel"))]

    def answer(self, data: QueryDict) -> dict[str, Any]:
        action = data.get(self.action_name, "cancel")
        if action != "accept" or self.url:
            return {"action": action if action in ACTIONS else "cancel"}
        return {"action": "accept", "content": self.form.read(data) or {}}


def questions_of(requests: Mapping[str, Any]) -> list[Question]:
    return [Question(key, request, number) for number, (key, request) in enumerate(requests.items())]


METHODS: Mapping[str, str] = {
    "tool": "tools/call",
    "prompt": "prompts/get",
    "resource": "resources/read",
    "template": "resources/read",
    "uri": "resources/read",
}
"""Kind of target -> method. ``uri`` is any resource by a URI that the user enters."""
ANY_URI: Mapping[str, Any] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "format": "uri", "title": "URI"}},
    "required": ["uri"],
}
_EXPRESSION = re.compile(r"\{([?+]?)([^{}]*)\}")
_RESERVED = "/:@!$&'()*+,;=~"


class Target(NamedTuple):
    """A tool, prompt, resource or template to call.

    Attributes:
        kind: a key of ``METHODS``.
        key: its name or URI.
        primitive: the primitive; None if it does not exist for the caller, or for a URI to be entered.
        context: of the caller; None for a target that is not called.
    """

    kind: str
    key: str
    primitive: Primitive | None = None
    context: Context | None = None

    @property
    def definition(self) -> dict[str, Any]:
        if self.primitive is None:
            return {}
        definition: dict[str, Any] = translate(self.primitive.definition, get_language() or "en")
        return definition

    @property
    def schema(self) -> Mapping[str, Any]:
        match self.kind, self.primitive:
            case "uri", _:
                return ANY_URI
            case "tool", Tool() as tool:
                own = None if self.context is None else tool.schema_for(self.context)
                schema: Mapping[str, Any] = translate(own or tool.form_schema, get_language() or "en")
                return schema
            case "prompt", _:
                return _strings(self.definition.get("arguments") or ())
            case "template", Resource() as resource:
                described = resource.arguments.schema["properties"]
                names = resource.template.variables
                optional = resource.template.optional
                return _strings(
                    [{**_words(described[name]), "name": name, "required": name not in optional} for name in names]
                )
        return {}

    def params(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        match self.kind:
            case "tool" | "prompt":
                return {"name": self.key, "arguments": dict(arguments)}
            case "uri":
                return {"uri": str(arguments.get("uri", ""))}
            case "template":
                return {"uri": expand_template(self.key, arguments)}
        return {"uri": self.key}


def endpoints(user: Any) -> list[MCPServer]:
    return [server for server in servers() if admits(server, user)]


def find_targets(request: HttpRequest, server: MCPServer, kind: str) -> list[Target]:
    """Return the targets of a kind that the user may use, in the order of lists."""
    context = _context_of(request, server)
    found = (primitive for primitive in registry(server, kind).values() if right(context, primitive) is Right.USE)
    return [Target(kind, primitive.key, primitive) for primitive in found]


def find_target(request: HttpRequest, server: MCPServer, kind: str, key: str) -> Target:
    """Return one target, without ``primitive`` if the user may not use it."""
    primitive, context = registry(server, kind).get(key), _context_of(request, server)
    if primitive is None or right(context, primitive) is not Right.USE:
        return Target(kind, key)
    return Target(kind, key, primitive, context)


def requires_approval(request: HttpRequest, server: MCPServer, primitive: Primitive | None) -> bool:
    if not isinstance(primitive, Tool) or primitive.key not in server.policies.asking:
        return False
    return rule_for(_context_of(request, server), primitive).decision is Decision.ASK


def registry(server: MCPServer, kind: str) -> Mapping[str, Primitive]:
    match kind:
        case "tool":
            return server.tools
        case "prompt":
            return server.prompts
        case "resource":
            return server.resources
        case "template":
            return server.templates
    return {}


def _context_of(request: HttpRequest, server: MCPServer) -> Context:
    refresh_server(server)
    return permission_context(server, principal_of(request.user), request_of_page(request))


def _strings(arguments: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {argument["name"]: {**_words(argument), "type": "string"} for argument in arguments},
        "required": [argument["name"] for argument in arguments if argument.get("required")],
    }


def _words(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("title", "description") if key in schema}


def expand_template(template: str, values: Mapping[str, Any]) -> str:
    """Expand a URI template with the RFC 6570 operators that ``protocol.uri_template`` supports."""

    def put(match: re.Match[str]) -> str:
        operator, names = match[1], match[2]
        if operator == "?":
            given = {name: str(values[name]) for name in names.split(",") if name in values}
            return f"?{urlencode(given, quote_via=quote)}" if given else ""
        return quote(str(values.get(names, "")), safe=_RESERVED if operator else "")

    return _EXPRESSION.sub(put, template)


def may_see_crashes(request: HttpRequest) -> bool:
    # The request log names exceptions and places in the code as well.
    return request.user.has_perm("django_mcp.view_requestlog")


class PlaygroundCall:
    """A call of one target; *reads* returns the URL of the page that reads a resource.

    Attributes:
        arguments: the submitted arguments, or None.
        outcome: the outcome, or None before a call.
        problem: error that prevented the call.
        hidden: hidden form fields that continue the call with answers.
    """

    def __init__(self, request: HttpRequest, server: MCPServer, target: Target, reads: Callable[[str], str]) -> None:
        self.request, self.server, self.target, self._reads = request, server, target, reads
        self.form = SchemaForm(target.schema, one_line=target.kind in {"template", "uri"})
        if target.kind == "uri" and target.key:
            self.form.fill({"uri": target.key})
        self.json = ""
        self.by_json = False
        self.arguments: dict[str, Any] | None = None
        self.outcome: Outcome | None = None
        self.problem = ""
        self.questions: list[Question] = []
        self.hidden: dict[str, str] = {}
        self._secrets: list[str] = []

    def run(self) -> None:
        arguments = self._read()
        if arguments is None:
            return
        self.arguments = arguments
        if self.request.POST.get("by") != "fields":  # otherwise they are filled already
            self.form.fill(arguments)
        self.form.forget(lambda name, _text: name in arguments and not self._is_shown({name: arguments[name]}))
        self.json = as_text(arguments) if self._is_shown(arguments) else ""
        params = self.target.params(arguments)
        is_answer = self.request.POST.get("by") == "answers"
        try:
            params |= self._answers() if is_answer else {}
        except signing.BadSignature:
            self.problem = str(TOO_LATE)
            return
        outcome = call(self.request, self.server, METHODS[self.target.kind], params, self.target.primitive)
        if is_answer and outcome.ended.error.get("code") == InvalidParams.code:  # an invalid requestState
            self.problem = str(TOO_LATE)
            return
        self.outcome = outcome
        if requests := outcome.questions:
            self.questions = questions_of(requests)
            state = outcome.ended.result["requestState"]
            questions = signing.dumps(dict(requests), salt=SALT, compress=True)
            self.hidden = {"state": self._seal(state), "questions": self._seal(questions)}

    def _answers(self) -> dict[str, Any]:
        """Return the params that continue the call.

        Raises:
            BadSignature: the questions were changed or have expired.
        """
        data = self.request.POST
        signed = self._open(data.get("questions", ""))
        questions = questions_of(signing.loads(signed, salt=SALT, max_age=settings.ELICITATION_TTL))
        answers = {question.key: question.answer(data) for question in questions}
        self._secrets += [text for question in questions for text in question.form.secrets()]
        return {"inputResponses": answers, "requestState": self._open(data.get("state", ""))}

    def _read(self) -> dict[str, Any] | None:
        data = self.request.POST
        if data.get("by") in {"again", "answers"}:
            try:
                arguments: dict[str, Any] = self._open(data.get("arguments", ""))
            except signing.BadSignature:
                self.problem = str(TOO_LATE)
                return None
            return arguments
        if data.get("by") == "json":
            self.json, self.by_json = data.get("json", ""), True
            found = self._parsed(self.json or "{}")
            if found is None and self._may_have_secrets(self.json):
                self.json = ""
            return found
        found = self.form.read(data)
        if found is None:
            self.problem = _("Not called: correct the fields with errors.")
            self.form.forget(lambda name, text: self._may_have_secrets(text, name))
        return found

    # Secrets: what the page has of them can be read in its source, in the browser's history and over a shoulder.

    def _seal(self, value: Any) -> str:
        # Only this user can send it back, and only for the same target.
        return encrypt(to_json([self._purpose, value]))

    def _open(self, sealed: str) -> Any:
        """Return a sealed value.

        Raises:
            BadSignature: it was changed, or is of another user or target.
        """
        for payload in map(from_json, decrypt(sealed)):
            if isinstance(payload, list) and payload[0] == self._purpose:
                return payload[1]
        raise signing.BadSignature

    @property
    def _purpose(self) -> list[str]:
        return [SALT, str(self.request.user.pk), self.server.name, self.target.kind, self.target.key]

    @property
    def _described(self) -> Tool | Prompt | None:
        primitive = self.target.primitive
        return primitive if isinstance(primitive, Tool | Prompt) else None

    def _is_shown(self, arguments: Mapping[str, Any]) -> bool:
        return bool(redacted(self._described, arguments, longest=None, whole=None) == arguments)

    def _may_have_secrets(self, text: str, name: str = "") -> bool:
        names = (*settings.REDACTED_ARGUMENTS, *_secret_names(self.target.schema, self.target.schema))
        is_named = any(secret.casefold() in f"{name} {text}".casefold() for secret in names)
        return is_named or not self._is_shown({name: text})

    def _parsed(self, text: str) -> dict[str, Any] | None:
        try:
            value = read_json(text)
        except NotJSON as error:
            self.problem = _("Not called. %s") % error
            return None
        if isinstance(value, dict):
            return value
        self.problem = _("Not called: arguments must be a JSON object, such as {}.")
        return None

    # For the template

    @property
    def crash(self) -> str:
        """Return the traceback of the site's code, for staff who may see crashes in the request log; else ""."""
        raised = None if self.outcome is None else self.outcome.ended.raised
        if raised is None or not may_see_crashes(self.request):
            return ""
        return cut(traceback_of(raised)[-MAX_CHARACTERS:])  # its end says most

    @property
    def result(self) -> ResultView | None:
        if self.outcome is None or self.questions:
            return None
        result, error = self.outcome.ended.result, self.outcome.ended.error
        if error or result.get("isError") is True:
            secrets = secrets_in(self._described, self.arguments)
            hidden = None if secrets is None else [*secrets, *self._secrets]
            result, error = _without(result, hidden), _without(error, hidden)
        return ResultView(result, error, self._reads)

    @property
    def messages(self) -> list[tuple[str, str]]:
        return [] if self.outcome is None else describe_messages(self.outcome.ended.notifications)

    @property
    def arguments_json(self) -> Any:
        return render_json(self.sent_arguments)

    @property
    def sent_arguments(self) -> Any:
        return redacted(self._described, self.arguments, longest=None, whole=None)

    @property
    def snippets(self) -> list[Snippet]:
        params = self.target.params(self.sent_arguments or {})
        url = url_of(self.server) or self.request.build_absolute_uri(path_of(self.server))
        return snippets(self.server, url, self.target.kind, params)

    @property
    def sealed_arguments(self) -> str:
        return self._seal(self.arguments)

    @property
    def schema(self) -> Any:
        return render_json(self.target.schema)


def _secret_names(schema: Any, root: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        for name, described in properties.items() if isinstance(properties, Mapping) else ():
            if isinstance(described, Mapping) and is_secret((described,), root):
                yield name
    for part in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
        yield from _secret_names(part, root)


def _without(value: Any, secrets: Sequence[str] | None) -> Any:
    """Return a result or error without secrets in its texts; None: it may have any."""
    match value:
        case dict():
            return {key: _without(part, secrets) for key, part in value.items()}
        case list():
            return [_without(part, secrets) for part in value]
        case str():
            return HIDDEN if secrets is None else without(value, secrets)
    return value


PERMISSION = "django_mcp.try_tool"
MAX_LISTED = 500
"""Maximum entries of a kind on the overview; search finds the others."""
KINDS = (
    ("tool", gettext_lazy("Tools")),
    ("prompt", gettext_lazy("Prompts")),
    ("resource", gettext_lazy("Resources")),
    ("template", gettext_lazy("Resource templates")),
)


class PlaygroundAdmin(ReadOnlyAdmin):
    """The pages of the playground."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return request.user.has_perm(PERMISSION)

    def get_urls(self) -> list[URLPattern]:
        return [
            path("", self._page(self.choose_view), name="django_mcp_playground_changelist"),
            path("call/", self._page(self.call_view), name="django_mcp_playground_call"),
            path("app/", self._page(self.app_view), name="django_mcp_playground_app"),
            path("task/", self._page(self.task_view), name="django_mcp_playground_task"),
        ]

    def _page(self, view: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
        def permitted(request: HttpRequest) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            return view(request)

        made: Callable[..., HttpResponse] = self.admin_site.admin_view(permitted)
        # Without ATOMIC_REQUESTS, as the endpoint's own view: failed calls must stay in the log.
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(made)
        return made

    # Pages

    def choose_view(self, request: HttpRequest) -> HttpResponse:
        found = endpoints(request.user)
        server = self._server(request, found) if "endpoint" in request.GET else next(iter(found), None)
        words = request.GET.get("q", "").strip()
        sections = [] if server is None else [self._section(request, server, kind, name, words) for kind, name in KINDS]
        context = {
            "title": _("Playground"),
            "endpoints": found,
            "server": server,
            "q": words,
            "sections": [section for section in sections if section["entries"]],
            "read_url": self._url("call", endpoint=server.name, kind="uri") if server and _reads(server) else "",
        }
        return self._response(request, "index", context)

    def _section(self, request: HttpRequest, server: MCPServer, kind: str, name: Any, words: str) -> dict[str, Any]:
        entries = [entry for entry in find_targets(request, server, kind) if _has(entry, words)]
        shown = [self._entry(request, server, entry) for entry in entries[:MAX_LISTED]]
        return {"name": name, "entries": shown, "more": len(entries) - len(shown), "total": len(entries)}

    def _entry(self, request: HttpRequest, server: MCPServer, target: Target) -> dict[str, Any]:
        definition = target.definition
        title, name = definition.get("title"), definition.get("name")
        first, _rest, _rest = str(definition.get("description") or "").partition("\n")
        return {
            "key": target.key,
            "title": title or (name if name != target.key else ""),
            "description": first,
            "badges": badges(request, server, target),
            "url": self._url("call", endpoint=server.name, kind=target.kind, key=target.key),
        }

    def call_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form of a target. On POST, call it and show the outcome."""
        server = self._server(request, endpoints(request.user))
        kind, key = request.GET.get("kind", ""), request.GET.get("key", "")
        if kind not in METHODS:
            raise Http404
        target = find_target(request, server, kind, key)
        # A target that was removed meanwhile is called anyway, for the same error as any unknown name.
        if target.primitive is None and kind != "uri" and request.method != "POST":
            raise Http404
        playground_call = PlaygroundCall(request, server, target, self._reads(server))
        if request.method == "POST":
            playground_call.run()
            if playground_call.outcome is not None and playground_call.outcome.task:
                return HttpResponseRedirect(self._url("task", endpoint=server.name, task=playground_call.outcome.task))
        context = {
            "title": key or _("Read a resource"),
            "playground_call": playground_call,
            "app": self._app(server, target, playground_call.result, playground_call.sent_arguments),
            "badges": badges(request, server, target),
            "server": server,
            "target": target,
        }
        return self._response(request, "call", context)

    def app_view(self, request: HttpRequest) -> HttpResponse:
        """Return the page of a tool's app, for a frame of the playground.

        It has its own security policy: a page inside the HTML of the frame would have that of the admin.
        """
        server = self._server(request, endpoints(request.user))
        tool = find_target(request, server, "tool", request.GET.get("key", "")).primitive
        is_framed = request.headers.get("Sec-Fetch-Dest", "iframe") == "iframe"
        if not isinstance(tool, Tool) or tool.app is None or not is_framed:
            raise Http404
        ended = call(request, server, "resources/read", {"uri": tool.app.uri}, tool.app).ended
        if ended.error:
            response = HttpResponse(ended.error["message"], content_type="text/plain; charset=utf-8")
            ui = {}
        else:
            page = ended.result["contents"][0]
            response = HttpResponse(page["text"])
            ui = page.get("_meta", {}).get("ui", {})
        response["Content-Security-Policy"] = security_policy(ui.get("csp", {}))
        response["X-Frame-Options"] = "SAMEORIGIN"
        return response

    def _app(
        self, server: MCPServer, target: Target, result: ResultView | None, arguments: Any = None
    ) -> dict[str, Any] | None:
        tool = target.primitive
        if not isinstance(tool, Tool) or tool.app is None or result is None or result.error or result.approval:
            return None
        sent = {"tool": target.definition, "arguments": arguments, "result": result.fields}
        url = self._url("app", endpoint=server.name, key=target.key)
        return {"uri": tool.app.uri, "url": url, "sent": sent}

    def task_view(self, request: HttpRequest) -> HttpResponse:
        """Show a task. On POST, send answers to its questions."""
        server = self._server(request, endpoints(request.user))
        context = permission_context(server, principal_of(request.user), request_of_page(request), "tasks/get")
        task = look_up(context, request.GET.get("task", ""))
        if task is None:
            raise Http404
        questions = (
            questions_of({question.key: question.request for question in store.questions(task)})
            if not task.is_over
            else []
        )
        if request.method == "POST":
            store_answers(
                context, task.task_id, {question.key: question.answer(request.POST) for question in questions}
            )
            return HttpResponseRedirect(request.get_full_path())
        outcome = self._outcome_of(task, server)
        page_context = {
            "title": task.tool,
            "server": server,
            "task": task,
            "status_message": status_message(task),
            "crash": self._crash_of(request, task),
            "questions": questions,
            "result": outcome,
            "app": self._app(server, find_target(request, server, "tool", task.tool), outcome),
            "task_page": self._task_page(request, task),
            "call_url": self._url("call", endpoint=server.name, kind="tool", key=task.tool),
        }
        return self._response(request, "task", page_context)

    def _outcome_of(self, task: Task, server: MCPServer) -> ResultView | None:
        if task.status == Task.Status.COMPLETED:
            return ResultView(task.result or {}, {}, self._reads(server))
        if task.status == Task.Status.FAILED:
            return ResultView({}, TaskFailed(task.error).to_wire(), self._reads(server))
        return None

    def _crash_of(self, request: HttpRequest, task: Task) -> str:
        if not task.is_over or not may_see_crashes(request):
            return ""
        # As logged by the process that ran the task.
        row = RequestLog.objects.filter(task_id=task.task_id, outcome=RequestLog.Outcome.CRASHED).first()
        return "" if row is None else f"{row.exception_type}\n{row.exception_place}".strip()

    def _task_page(self, request: HttpRequest, task: Task) -> str:
        if not request.user.has_perm("django_mcp.view_task"):
            return ""
        return address_in(self.admin_site, "task_change", task.pk)

    # URLs

    def _server(self, request: HttpRequest, found: Iterable[MCPServer]) -> MCPServer:
        name = request.GET.get("endpoint", "")
        for entry in found:
            if entry.name == name:
                return entry
        raise Http404

    def _url(self, view: str, **query: str) -> str:
        place = reverse(f"admin:django_mcp_playground_{view}", current_app=self.admin_site.name)
        return f"{place}?{urlencode(query)}"

    def _reads(self, server: MCPServer) -> Callable[[str], str]:
        return lambda uri: self._url("call", endpoint=server.name, kind="uri", key=uri)

    def _response(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        request.current_app = self.admin_site.name
        whole = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/django_mcp/playground/{template}.html", whole)


def _reads(server: MCPServer) -> bool:
    return "resources" in server.capabilities


def badges(request: HttpRequest, server: MCPServer, target: Target) -> list[str]:
    found = []
    hints = target.definition.get("annotations") or {} if target.kind == "tool" else {}
    if target.kind == "tool" and target.primitive is not None:
        found.append(kind_words(hints))
    if requires_approval(request, server, target.primitive):
        found.append(_("requires approval"))
    if getattr(target.primitive, "task", None):
        found.append(_("runs as a task"))
    return found


def _has(target: Target, words: str) -> bool:
    texts = [target.key, *(str(target.definition.get(key) or "") for key in ("title", "description"))]
    text = " ".join(texts).casefold()
    return all(word in text for word in words.casefold().split())
