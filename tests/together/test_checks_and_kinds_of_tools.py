"""Checks that name a tool: they name what the site wrote, however the tool was made."""

from typing import Any

import pytest
from django import forms
from django.http import HttpRequest, HttpResponse
from django.views import View
from ninja import NinjaAPI
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from django_mcp import MCPServer, ModelResource, form_tool, register, tool, view_tool
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from tests.model_resources.library.models import Tag

HERE = __name__


def function() -> str:
    return ""


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


class ClassView(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


class Form(forms.Form):
    def save(self) -> str:
        return ""


class Methods:
    def method(self) -> str:
        return ""


class Tags(ModelResource):
    fields = ("word",)


class APITags(ReadOnlyModelViewSet[Tag]):
    queryset = Tag.objects.all()


@api_view(["GET"])
def api_function(request: Request) -> Response:
    return Response()


def operation(request: HttpRequest) -> str:
    return ""


def test_a_check_names_what_the_site_wrote(make_server: Any, db: None, subtests: pytest.Subtests) -> None:
    server: MCPServer = make_server()
    api = NinjaAPI(urls_namespace="origins")
    api.get("/operation")(operation)
    tool(server=server)(function)
    tool(Methods().method, server=server)
    view_tool(view, path="view/", name="view", server=server)
    view_tool(ClassView, path="class/", name="class_view", server=server)
    view_tool("named", server=server)
    form_tool(Form, name="form", server=server)
    form_tool(forms.formset_factory(Form), name="set", argument="forms", handle=repr, server=server)
    register(Tag, Tags, server=server)
    drf_tools(APITags, mounted=False, names={"list": "api_tags"}, actions=["list"], server=server)
    drf_tools(api_function, mounted=False, names={"get": "api_function"}, server=server)
    ninja_tools(api, server=server)
    written = {
        "function": "function",
        "method": "Methods.method",
        "view": "view",
        "class_view": "ClassView",
        "form": "Form",
        "set": "Form",
        "search_tags": "Tags",
        "api_tags": "APITags",
        "api_function": "api_function",
        "operation": "operation",
    }
    for name, origin in written.items():
        with subtests.test(name=name):
            assert server.tools[name].label == f"tool {name!r} ({HERE}.{origin})"
    assert server.tools["named"].label == "tool 'named' (view 'named')"
    assert "django_mcp." not in " ".join(tool.label for tool in server.tools.values())
