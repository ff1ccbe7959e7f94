"""Show the titles and descriptions of generated tools, as a small site has them."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.reference.docstrings import table


def section() -> str:
    """Return a table of tools and one of their arguments."""
    from django_mcp.core.server import restore_all, snapshots

    before = snapshots()
    try:
        definitions = list(_definitions())
    finally:
        restore_all(before)
    tools = [(f"`{each['name']}`", _cell(each["title"]), _cell(each["description"])) for each in definitions]
    arguments = [
        (f"`{each['name']}`", f"`{name}`", _cell(schema["description"]))
        for each in definitions
        for name, schema in _properties(each["inputSchema"])
    ]
    return "\n".join(
        [table(("tool", "title", "description"), tools), table(("tool", "argument", "description"), arguments)]
    )


def _definitions() -> Iterator[Mapping[str, Any]]:
    from django_mcp import AllowAny, MCPServer, ModelResource, register, tool
    from django_mcp.core.tool_search import finders
    from tests.model_resources.library.models import Author, Book

    server = MCPServer("reference", authentication=[AllowAny()], search_tools=True)

    @register(Author, server=server)
    class Authors(ModelResource):
        """People who write books."""

        fields = ("name",)
        search_fields = ("name",)
        view_permission = None

    @register(Book, server=server)
    class Books(ModelResource):
        """Books of the library."""

        fields = ("title", "author")
        search_fields = ("title",)
        connector = True
        filterset_fields = ("title__icontains", "author")
        ordering = ("title",)
        aggregates: Mapping[str, Any] = {}
        group_by_fields = ("author",)
        actions = ("create", "update", "delete")
        writable_fields = ("title", "author")

    @tool(task="optional", server=server)
    def count_words() -> int:
        """Count the words of all books."""
        return 0

    for each in server.tools.values():
        if each.name != "count_words" and not each.name.endswith(("author", "authors")):
            yield each.definition
    yield from (each.definition for each in finders())


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, each in schema.get("properties", {}).items():
        if "description" in each:
            yield name, each


def _cell(text: str) -> str:
    text = " ".join(text.split())
    for special in "\\|*_<>`[]$":
        text = text.replace(special, f"\\{special}")
    return text
