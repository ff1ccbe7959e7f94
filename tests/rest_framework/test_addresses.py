"""Which URL of a view is asked, where there are several."""

from functools import partial
from itertools import product
from typing import Any

import pytest
from django.urls import path
from django.views.decorators.cache import never_cache
from rest_framework.permissions import AllowAny, IsAdminUser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from django_mcp import MCPServer
from django_mcp.contrib.rest_framework import api_tools
from tests.exposure.conftest import Reader, registering
from tests.rest_framework.beside import api_beside


class Report(APIView):
    permission_classes = [AllowAny]

    def get(self, request: Request) -> Response:
        return Response({"path": request.path})


class Reports(ViewSet):
    permission_classes = [AllowAny]

    def list(self, request: Request) -> Response:
        return Response({"path": request.path})


def test_a_view_that_was_made_with_other_permissions_keeps_them(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Or what was published as guarded is called where it is not."""
    kinds: dict[str, Any] = {"get": Report.as_view, "list": partial(Reports.as_view, {"get": "list"})}
    for (action, view), order in product(kinds.items(), (1, -1)):
        guarded, everybodys = view(permission_classes=[IsAdminUser]), view()
        urls = [path("guarded/", guarded), path("everybodys/", everybodys)]
        with (
            subtests.test(action=action, order=order),
            registering(server),
            api_beside(urls[::order], monkeypatch),
        ):
            api_tools(guarded, names={action: "guarded"}, server=server)
            api_tools(everybodys, names={action: "everybodys"}, server=server)
            assert "permission" in ann.problem("guarded")
            assert ann.data("everybodys") == {"path": "/everybodys/"}


def test_the_same_view_with_something_around_it_is_found(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Report.as_view(permission_classes=[AllowAny])
    with api_beside([path("report/", never_cache(view))], monkeypatch):
        api_tools(view, names={"get": "report"}, server=server)
        assert ann.data("report") == {"path": "/report/"}
