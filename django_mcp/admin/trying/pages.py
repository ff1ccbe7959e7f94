"""The pages: choose what to try, fill in what it takes, see what comes of it."""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.read_only import ReadOnlyAdmin
from django_mcp.admin.trying.calling import context_for
from django_mcp.admin.trying.questions import questions_of
from django_mcp.admin.trying.showing import Shown
from django_mcp.admin.trying.subjects import METHODS, Subject, asks, endpoints, subject, subjects
from django_mcp.admin.trying.trial import Trial
from django_mcp.core.server import MCPServer
from django_mcp.models import Task
from django_mcp.protocol.errors import ProtocolError
from django_mcp.tasks import store
from django_mcp.tasks.api import TaskFailed, look_up, take_answers
from django_mcp.tasks.extension import status_message

PERMISSION = "django_mcp.try_tool"
MOST_LISTED = 500
"""Of one kind on the page where one is chosen; a search finds the others."""
KINDS = (
    ("tool", gettext_lazy("Tools")),
    ("prompt", gettext_lazy("Prompts")),
    ("resource", gettext_lazy("Resources")),
    ("template", gettext_lazy("Resource templates")),
)


class TryToolAdmin(ReadOnlyAdmin):
    """Nothing here has rows: it is a place for pages."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether it is listed."""
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Who may try tools."""
        return request.user.has_perm(PERMISSION)

    def get_urls(self) -> list[URLPattern]:
        """The pages, and none of a model with rows."""
        return [
            path("", self._page(self.choose_view), name="django_mcp_trytool_changelist"),
            path("call/", self._page(self.call_view), name="django_mcp_trytool_call"),
            path("task/", self._page(self.task_view), name="django_mcp_trytool_task"),
        ]

    def _page(self, view: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
        """Like the endpoint's own view it is in no transaction: what is noted of a call that fails has to stay."""

        def permitted(request: HttpRequest) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            return view(request)

        made: Callable[..., HttpResponse] = self.admin_site.admin_view(permitted)
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(made)
        return made

    # Pages

    def choose_view(self, request: HttpRequest) -> HttpResponse:
        """What there is at an endpoint."""
        found = endpoints(request.user)
        server = self._server(request, found) if "endpoint" in request.GET else next(iter(found), None)
        words = request.GET.get("q", "").strip()
        sections = [] if server is None else [self._section(request, server, kind, name, words) for kind, name in KINDS]
        context = {
            "title": _("Try a tool"),
            "endpoints": found,
            "server": server,
            "q": words,
            "sections": [each for each in sections if each["entries"]],
            "read_url": self._url("call", endpoint=server.name, kind="uri") if server and _reads(server) else "",
        }
        return self._response(request, "choose", context)

    def _section(self, request: HttpRequest, server: MCPServer, kind: str, name: Any, words: str) -> dict[str, Any]:
        entries = [each for each in subjects(request, server, kind) if _has(each, words)]
        shown = [self._entry(request, server, each) for each in entries[:MOST_LISTED]]
        return {"name": name, "entries": shown, "more": len(entries) - len(shown), "total": len(entries)}

    def _entry(self, request: HttpRequest, server: MCPServer, each: Subject) -> dict[str, Any]:
        told = each.definition
        first, _rest, _rest = str(told.get("description") or "").partition("\n")
        return {
            "key": each.key,
            "title": told.get("title") or (told.get("name") if told.get("name") != each.key else ""),
            "description": first,
            "marks": marks(request, server, each),
            "url": self._url("call", endpoint=server.name, kind=each.kind, key=each.key),
        }

    def call_view(self, request: HttpRequest) -> HttpResponse:
        """A form, and by POST what came of it."""
        server = self._server(request, endpoints(request.user))
        kind, key = request.GET.get("kind", ""), request.GET.get("key", "")
        if kind not in METHODS:
            raise Http404
        chosen = subject(request, server, kind, key)
        # What was taken away meanwhile is called all the same, and answered like any name that does not exist.
        if chosen.primitive is None and kind != "uri" and request.method != "POST":
            raise Http404
        trial = Trial(request, server, chosen, self._reads(server))
        if request.method == "POST":
            trial.run()
            if trial.outcome is not None and trial.outcome.task:
                return HttpResponseRedirect(self._url("task", endpoint=server.name, task=trial.outcome.task))
        context = {
            "title": key or _("Read a resource"),
            "trial": trial,
            "marks": marks(request, server, chosen),
            "server": server,
            "subject": chosen,
        }
        return self._response(request, "call", context)

    def task_view(self, request: HttpRequest) -> HttpResponse:
        """A task that a call became; by POST answers to what it asks."""
        server = self._server(request, endpoints(request.user))
        looking = context_for(request, server, "tasks/get", {})
        task = look_up(looking, request.GET.get("task", ""))
        if task is None:
            raise Http404
        questions = questions_of({each.key: each.request for each in store.questions(task)}) if not task.is_over else []
        if request.method == "POST":
            take_answers(looking, task.task_id, {each.key: each.answer(request.POST) for each in questions})
            return HttpResponseRedirect(request.get_full_path())
        context = {
            "title": task.tool,
            "server": server,
            "task": task,
            "said": status_message(task),
            "questions": questions,
            "shown": self._outcome_of(task, server),
            "task_page": self._task_page(request, task),
            "call_url": self._url("call", endpoint=server.name, kind="tool", key=task.tool),
        }
        return self._response(request, "task", context)

    def _outcome_of(self, task: Task, server: MCPServer) -> Shown | None:
        if task.status == Task.Status.COMPLETED:
            return Shown(task.result, None, self._reads(server))
        if task.status == Task.Status.FAILED:
            error: ProtocolError = TaskFailed(task.error)
            return Shown(None, error, self._reads(server))
        return None

    def _task_page(self, request: HttpRequest, task: Task) -> str:
        if not request.user.has_perm("django_mcp.view_task"):
            return ""
        return reverse("admin:django_mcp_task_change", args=[task.pk], current_app=self.admin_site.name)

    # Addresses

    def _server(self, request: HttpRequest, found: Iterable[MCPServer]) -> MCPServer:
        name = request.GET.get("endpoint", "")
        for each in found:
            if each.name == name:
                return each
        raise Http404

    def _url(self, view: str, **query: str) -> str:
        place = reverse(f"admin:django_mcp_trytool_{view}", current_app=self.admin_site.name)
        return f"{place}?{urlencode(query)}"

    def _reads(self, server: MCPServer) -> Callable[[str], str]:
        return lambda uri: self._url("call", endpoint=server.name, kind="uri", key=uri)

    def _response(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        request.current_app = self.admin_site.name
        whole = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/django_mcp/try/{template}.html", whole)


def _reads(server: MCPServer) -> bool:
    return "resources" in server.capabilities


def marks(request: HttpRequest, server: MCPServer, each: Subject) -> list[str]:
    """What whoever tries it should know beforehand."""
    found = []
    hints = each.definition.get("annotations") or {} if each.kind == "tool" else {}
    if each.kind == "tool" and each.primitive is not None:
        found.append(_("reads only") if hints.get("readOnlyHint") else _("writes"))
    if asks(request, server, each.primitive):
        found.append(_("needs approval"))
    if getattr(each.primitive, "task", None):
        found.append(_("runs as a task"))
    return found


def _has(each: Subject, words: str) -> bool:
    told = each.definition
    text = " ".join([each.key, str(told.get("title") or ""), str(told.get("description") or "")]).casefold()
    return all(word in text for word in words.casefold().split())
