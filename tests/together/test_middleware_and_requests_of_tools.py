"""What a site's middleware sets up for pages is there for the requests that tools make: views, APIs, redirects."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.checks import run_checks
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin
from ninja import NinjaAPI
from rest_framework.decorators import api_view
from rest_framework.response import Response

from django_mcp import MCPServer, tool, view_tool
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from tests.clients import Client
from tests.contrib.drf.beside import api_beside


def page(request: HttpRequest) -> HttpResponse:
    """Who it is."""
    return HttpResponse(f"profile of {request.profile}", content_type="text/plain")


async def async_page(request: HttpRequest) -> HttpResponse:
    """Who it is."""
    return HttpResponse(f"profile of {request.profile}", content_type="text/plain")


def template_page(request: HttpRequest) -> HttpResponse:
    """Who it is."""
    return TemplateResponse(request, engines["django"].from_string("profile of {{ request.profile }} {{ extra }}"), {})


def save(request: HttpRequest) -> HttpResponse:
    """Save, and show the page."""
    return HttpResponse(status=302, headers={"Location": f"/page/?of={request.profile}"})


def fail(request: HttpRequest) -> HttpResponse:
    raise {"404": Http404, "bug": LookupError}[request.GET["how"]]


@api_view(["GET"])
def api(request: Any) -> Response:
    """Who it is."""
    return Response({"profile": f"profile of {request.profile}"})


ninja = NinjaAPI(urls_namespace="middleware")


@ninja.get("/who")
def who(request: HttpRequest) -> dict[str, str]:
    """Who it is."""
    return {"profile": f"profile of {request.profile}"}


VIEWS = (page, async_page, template_page, save, fail, api)
PAGES = [path(f"{view.__name__}/", view, name=view.__name__) for view in VIEWS]
CALLS = ("page", "async_page", "template_page", "save", "api", "who")


class Profiles:
    """What many sites have: the person's profile on each request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.profile = f"{request.user}".lower()
        return self.get_response(request)


@contextmanager
def profile(request: HttpRequest) -> Iterator[None]:
    """The same, around calls."""
    Profiles(lambda _: HttpResponse())(request)
    yield


@pytest.fixture
def offered(server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with api_beside([*PAGES, path("ninja/", ninja.urls)], monkeypatch):
        for view in (page, async_page, template_page):
            view_tool(view, server=server)
        view_tool(save, method="POST", server=server)
        view_tool(fail, arguments={"how": str}, server=server)
        drf_tools(api, names={"get": "api"}, server=server)
        ninja_tools(ninja, server=server)
        yield


@pytest.fixture
def around(settings: Any) -> Callable[..., None]:
    def set_them(**given: Any) -> None:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, **given}

    return set_them


@pytest.mark.parametrize("edge", ["asgi", "view"])
@pytest.mark.parametrize("given", [{"CALL_CONTEXT_MANAGERS": [profile]}, {"VIEW_MIDDLEWARE": [f"{__name__}.Profiles"]}])
def test_attributes_of_the_request_are_there(
    offered: None, client: Client, around: Callable[..., None], given: dict[str, Any]
) -> None:
    around(**given)
    said = {name: client.call(name).text for name in CALLS}
    assert {name: text for name, text in said.items() if "profile of anonymoususer" not in text} == {}


def test_they_are_not_those_of_the_request_to_the_endpoint(
    server: MCPServer, offered: None, client: Client, around: Callable[..., None], settings: Any
) -> None:
    """Middleware around the endpoint's view sees the user of a session, and not the caller."""

    @contextmanager
    def reads(request: HttpRequest) -> Iterator[None]:
        request.POST, request.headers  # noqa: B018 - which Django keeps on the request
        request.method, request.other = "PUT", "set"
        yield

    around(CALL_CONTEXT_MANAGERS=[reads])
    settings.MIDDLEWARE = [f"{__name__}.Session"]
    client.edge = "view"
    view_tool(seen, path="seen/", method="POST", arguments={"word": str}, server=server)
    assert client.call("seen", word="hello").result["structuredContent"] == {
        "method": "POST",
        "word": "hello",
        "profile": "none",
        "other": "set",
        "user": "AnonymousUser",
    }


class Session(Profiles):
    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.profile = "of the session"
        return self.get_response(request)


def seen(request: HttpRequest) -> JsonResponse:
    """What is there."""
    given = {name: str(getattr(request, name, "none")) for name in ("method", "profile", "other", "user")}
    return JsonResponse({**given, "word": request.POST.get("word")})


steps: list[str] = []


class Hooks(MiddlewareMixin):
    def process_request(self, request: HttpRequest) -> None:
        steps.append("request")
        request.profile = "hooks"

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        steps.append(f"view {view.__name__}")
        return HttpResponse("closed", "text/plain", 403) if view is who else None

    def process_template_response(self, request: HttpRequest, response: Any) -> Any:
        response.context_data["extra"] = "and more"
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> None:
        steps.append(f"exception {type(error).__name__}")

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        steps.append(f"response {response.status_code}")
        return response


def test_all_that_middleware_of_django_may_do_works(offered: None, client: Client, around: Callable[..., None]) -> None:
    around(VIEW_MIDDLEWARE=[f"{__name__}.Hooks"])
    steps.clear()
    assert client.call("template_page").text == "profile of hooks and more"
    assert steps == ["request", "view template_page", "response 200"]
    steps.clear()
    assert client.call("fail", how="404").text == "Not found."
    assert steps == ["request", "view fail", "exception Http404", "response 404"]
    steps.clear()
    assert "Internal server error" in client.call("fail", how="bug").text
    assert steps == ["request", "view fail", "exception LookupError", "response 500"], "it cleans up after errors"


def test_middleware_may_refuse(server: MCPServer, client: Client, around: Callable[..., None]) -> None:
    def refuses(get_response: Any) -> Any:
        def middleware(request: HttpRequest) -> HttpResponse:
            if request.path == "/page/":
                raise Http404
            return get_response(request)

        return middleware

    async def asynchronous(request: HttpRequest) -> HttpResponse:
        return await asynchronous.get_response(request)

    def only_async(get_response: Any) -> Any:
        asynchronous.get_response = get_response
        return asynchronous

    only_async.sync_capable, only_async.async_capable = False, True
    around(VIEW_MIDDLEWARE=[only_async, refuses])
    view_tool(page, path="page/", name="page", server=server)
    view_tool(lambda request: HttpResponse("shown", "text/plain"), path="other/", name="other", server=server)
    assert client.call("page").text == "Not found."
    assert client.call("other").text == "shown"


def test_the_time_zone_of_a_request_ends_with_it(
    server: MCPServer, client: Client, around: Callable[..., None]
) -> None:
    """As each request of a site has middleware that sets it, and the next call may make none."""

    def zone(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(timezone.get_current_timezone_name(), "text/plain")

    def tokyo(get_response: Any) -> Any:
        def middleware(request: HttpRequest) -> HttpResponse:
            timezone.activate("Asia/Tokyo")
            return get_response(request)

        return middleware

    around(VIEW_MIDDLEWARE=[tokyo])
    view_tool(zone, path="zone/", name="zone", server=server)
    tool(server=server, name="mine")(timezone.get_current_timezone_name)
    before = timezone.get_current_timezone_name()
    assert [client.call(name).text for name in ("zone", "mine")] == ["Asia/Tokyo", before]


def test_middleware_may_try_again(server: MCPServer, client: Client, around: Callable[..., None]) -> None:
    answers = iter([LookupError, "shown"])

    def flaky(_request: HttpRequest) -> HttpResponse:
        if (answer := next(answers)) is LookupError:
            raise LookupError
        return HttpResponse(answer, "text/plain")

    def again(get_response: Any) -> Any:
        def middleware(request: HttpRequest) -> HttpResponse:
            response = get_response(request)
            return response if response.status_code < 500 else get_response(request)

        return middleware

    around(VIEW_MIDDLEWARE=[again])
    view_tool(flaky, path="flaky/", name="flaky", server=server)
    assert client.call("flaky").text == "shown"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("no.such.Middleware", "cannot be imported"),
        ("django.contrib.auth.middleware.AuthenticationMiddleware", "replaces the caller"),
        ("django.contrib.sessions.middleware.SessionMiddleware", "replaces the caller"),
    ],
)
def test_the_checks_name_middleware_that_cannot_be_used(around: Callable[..., None], entry: str, words: str) -> None:
    around(VIEW_MIDDLEWARE=[f"{__name__}.Profiles", entry])
    (found,) = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E063"]
    assert entry in str(found.msg)
    assert words in str(found.msg)
