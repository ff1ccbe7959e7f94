"""``api_tools``: the views of a REST API as tools."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.contrib.rest_framework import checks  # noqa: F401 - registers one
from django_mcp.contrib.rest_framework.tools import Described, Told
from django_mcp.contrib.rest_framework.views import Operation, operations
from django_mcp.contrib.rest_framework.words import tool_name
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import Where


def api_tools(
    source: Any,
    *,
    actions: Collection[str] | None = None,
    exclude: Collection[str] = (),
    name: str | None = None,
    plural: str | None = None,
    names: Mapping[str, str] | None = None,
    request: Mapping[str, Any] | None = None,
    responses: Mapping[str, Any] | None = None,
    path_arguments: Mapping[str, Any] | None = None,
    filters: Collection[str] | None = None,
    version: str | None = None,
    mounted: bool = True,
    scopes: Sequence[str] = (),
    write_scopes: Sequence[str] = (),
    server: Where = None,
    **options: Any,
) -> None:
    """Offer an API of Django REST framework as tools, one for each of its operations. The API stays as it was.

    A call is a request to the view's own URL as the calling user: permissions, throttles, filters, pages, parsers,
    versions and validation are the view's. Its authenticators are not asked.

    Args:
        source: a view set, a generic view, an ``APIView`` (the class, or what ``as_view`` or ``@api_view`` made), or a
            router, which means all its view sets.
        actions: the only ones to offer: ``"list"``, ``"retrieve"``, ``"create"``, ``"update"`` (PUT),
            ``"partial_update"``, ``"destroy"``, names of ``@action`` methods; of other views ``"get"``, ``"post"`` …
        exclude: those not to offer.
        name: what one row is called in names of tools; by default as its model.
        plural: what several are called.
        names: of single tools, by action.
        request: serializers for what actions take, where the view does not tell; of GET, for the query.
        responses: serializers for what actions answer, likewise.
        path_arguments: types of the URL's variables that the view does not tell of, or None for any, by name.
        filters: names of the only filters of a ``filterset_class`` to offer; by default all, or above 60 those that
            the class declares and those without a lookup (``__``) in their names. Each is an argument, and a model
            reads hundreds of them before it reads a question.
        version: which one to ask for, of an API with versions.
        mounted: the view is in the URLconf. With False it is called without a URL of its own.
        scopes: OAuth scopes that the tools need besides those of the endpoint.
        write_scopes: further ones for tools that are not read-only.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
        **options: of each tool, those of ``tool``: ``permission``, ``groups``, ``visible``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: *source* is nothing of the kind, has no such action or none at all, or cannot tell what
            it takes.
    """
    told = Told(
        names or {}, request or {}, responses or {}, path_arguments or {}, filters, version, mounted, name, plural
    )
    wanted = [*(actions or ()), *exclude, *told.names, *told.request, *told.responses]
    described = [Described(operation, told) for operation in _chosen(source, wanted, actions, exclude)]
    for each, tool in _named([each for each in described if actions is not None or not each.note.excluded], told):
        needed = [*scopes, *(() if each.operation.is_safe else write_scopes)]
        for one in servers_of(server):
            one.add(each.tool(tool, {**options, "scopes": needed}))


def _chosen(
    source: Any, wanted: Collection[str], actions: Collection[str] | None, exclude: Collection[str]
) -> Iterator[Operation]:
    every = list(operations(source))
    if not every:
        msg = (
            f"api_tools({source!r}): there is nothing to offer; it has neither standard actions, like list, nor "
            '@action methods. Give it ThatViewSet.as_view({"get": "listing_view"}), or offer the URL with view_tool. '
            "A router has to be filled before."
        )
        raise ImproperlyConfigured(msg)
    known = dict.fromkeys(key for each in every for key in (each.action, each.handler))
    if wrong := [each for each in dict.fromkeys(wanted) if each not in known]:
        msg = f"api_tools({source!r}): it has no {', '.join(wrong)}; it has {', '.join(known)}."
        raise ImproperlyConfigured(msg)
    for each in every:
        keys = {each.action, each.handler}
        if (actions is None or keys & {*actions}) and not keys & {*exclude}:
            yield each


def _named(described: Sequence[Described], told: Told) -> Iterator[tuple[Described, str]]:
    """Each with its name; of several of one name, such as an action with two methods, those behind the first differ."""
    seen: Counter[str] = Counter()
    for each in described:
        operation = each.operation
        name = told.names.get(operation.action) or told.names.get(operation.handler)
        name = name or tool_name(operation, each.noun, each.note)
        seen[name] += 1
        yield each, name if seen[name] == 1 else f"{operation.method.lower()}_{name}"
