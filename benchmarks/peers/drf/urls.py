"""The fifty tools as selectors, which the package's documentation advises for what writes nothing.

A selector takes its schema and its validation from the function's signature. This is the view for WSGI, which calls
async functions too; the package's other one, for ASGI, takes longer for either kind.
"""

from django.urls import path
from django_service_specs import SelectorKind  # type: ignore[import-not-found]
from rest_framework.permissions import AllowAny
from rest_framework_mcp import MCPServer  # type: ignore[import-not-found]
from rest_framework_mcp.auth.backends.allow_any_backend import AllowAnyBackend  # type: ignore[import-not-found]
from rest_framework_services.types.selector_spec import SelectorSpec  # type: ignore[import-not-found]

from benchmarks.catalogue import TOOLS

server = MCPServer(name="bench", auth_backend=AllowAnyBackend())
for function in TOOLS:
    server.register_selector_tool(
        name=function.__name__,
        description=function.__doc__,
        # A tool without permissions is refused.
        spec=SelectorSpec(kind=SelectorKind.RETRIEVE, selector=function, permission_classes=[AllowAny]),
    )

urlpatterns = [path("mcp/", server.urls)]
