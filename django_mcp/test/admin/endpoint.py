"""The admin at an endpoint: an MCP client that calls the tools of ``admin_tools``."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qsl

from django.apps import apps
from django.contrib.admin import AdminSite
from django.db.models import Model
from django.template.defaultfilters import capfirst
from django.utils import formats, timezone
from django.utils.dateparse import parse_date, parse_datetime, parse_duration, parse_time
from django.utils.translation import gettext

from django_mcp import AllowAny, Context, MCPServer, tool
from django_mcp.client.in_process import HOST
from django_mcp.core.server import restore_all, snapshots
from django_mcp.integrations.admin_site import changeform, deletion
from django_mcp.integrations.admin_site.hidden import HIDDEN, reaches_secret, secret_search_fields
from django_mcp.integrations.admin_site.tools import ActionTool, AdminTool, admin_tools
from django_mcp.test.admin.pages import Link, Page, State, Value, normalize
from django_mcp.test.client import MCPClient
from django_mcp.test.results import CallResult


class Endpoint:
    """The side of a client of an endpoint that offers the admin. Tools that write need no approval there.

    Args:
        site: the admin site.
        user: the user for whom the client acts.
        host: of the site. Default: that of Django's test client, which only tests allow.
        **options: of ``admin_tools``.

    Attributes:
        called: the last call of a tool.
    """

    def __init__(self, site: AdminSite, user: Any, *, host: str = HOST, **options: Any) -> None:
        self.site = site
        self.called = ""
        self._overview: list[dict[str, Any]] | None = None
        self._shown = frozenset(options.get("show", ()))
        before = snapshots()
        server = MCPServer("judge-of-the-admin", authentication=[AllowAny()], search_tools=0, log_requests=False)
        restore_all(before)  # it is nobody else's
        admin_tools(site, server=server, **{"policy": "allow", **options})
        tools = server.tools.values()
        offered = [made for made in tools if isinstance(made, AdminTool)]
        self._declared = {
            made.model: {other.verb for other in offered if other.model is made.model} for made in offered
        }
        self._verbs = {made.name: made.verb for made in offered}
        acting = [made for made in tools if isinstance(made, ActionTool)]
        self._actions = {made.name: made.action for made in acting}
        self._acted_on = {made.model for made in acting}
        self._register_readings(server)
        # What tools of the admin return is the site's: it has no schema to be checked against.
        self.client = MCPClient(user, server=server, protocol_version="modern", headers={"Host": host}, schemas=False)
        self._columns: dict[type[Model], list[str]] = {}

    def offers(self, model: type[Model]) -> bool:
        """Return True if there are tools for the model."""
        self._overview = None
        return model in self._declared

    # What no tool tells: the data that a form would send, what a deletion would take along.

    def _register_readings(self, server: MCPServer) -> None:
        site = self.site

        @tool(server=server)
        def judge_form(ctx: Context, label: str, pk: str | None = None) -> dict[str, Any]:
            """Return what the untouched form sends."""
            page = changeform.open_form(ctx, site, apps.get_model(label), pk)
            read_only = [[name, value] for name, value in _read_only(page)]
            pairs = page.page_form().pairs if page.may_save else []
            inlines = {inline.formset.prefix: inline.name for inline in page.inlines}
            told = {"may_save": page.may_save, "pairs": [[*pair] for pair in pairs], "read_only": read_only}
            return {**told, "inlines": inlines}

        @tool(server=server)
        def judge_deletion(ctx: Context, label: str, pk: str) -> dict[str, Any]:
            """Return what a deletion takes along, or what prevents it."""
            model = apps.get_model(label)
            context = deletion.open_deletion(ctx, site, model, pk)[1].context
            prevents = [*(context.get("perms_lacking") or ())] or [*(context.get("protected") or ())]
            counted = () if prevents else context.get("model_count") or ()
            objects = prevents or context.get("deleted_objects") or ()
            return {
                "allowed": not prevents,
                "counts": [f"{capfirst(name)}: {count}" for name, count in counted],
                "objects": deletion.names_in(objects),
            }

    # Pages.

    def changelist(self, model: type[Model], link: Link | None) -> Page:
        """Search, with the arguments that a link of the page stands for."""
        arguments = {} if link is None else self._arguments(model, link)
        if arguments is None:
            return Page(State.UNKNOWN)
        called = self._call(model, "search", arguments)
        if isinstance(called, Page):
            return called
        rows = called.structured["rows"]
        empty = self._empty(model)
        if link is None and rows:
            self._columns[model] = [name for name in rows[0] if name != "pk"]
        keys = tuple(str(row["pk"]) for row in rows)
        parts: dict[str, Any] = {"rows": keys, "number of rows": called.structured["total"]}
        for row in rows:
            cells = (value for name, value in row.items() if name != "pk")
            parts |= {f"column {number} of {row['pk']}": Told(cell, empty) for number, cell in enumerate(cells, 1)}
        return Page(State.SHOWN, parts, keys)

    def form_data(self, model: type[Model], pk: str | None) -> Page:
        """Return what the driver would send."""
        if pk is None and "add" not in self._tools(model):
            return self._missing(model, "add")
        if pk is not None:
            got = self._call(model, "get", {"pk": pk})
            if isinstance(got, Page):
                return got
        called = self._read_form(model, pk)
        if isinstance(called, Page):
            return called
        parts: dict[str, Any] = {"can be saved": called.structured["may_save"]}
        for name, value in called.structured["pairs"]:
            parts[f"control {name}"] = (*parts.get(f"control {name}", ()), value)
        parts.pop("control csrfmiddlewaretoken", None)
        empty = self._empty(model)
        parts |= {f"read-only {name}": Told(value, empty) for name, value in called.structured["read_only"]}
        return Page(State.SHOWN, parts)

    def _read_form(self, model: type[Model], pk: str | None) -> CallResult | Page:
        label = model._meta.label  # noqa: SLF001 - Django's documented API
        return self._page_of(self.client.call("judge_form", {"label": label, **({} if pk is None else {"pk": pk})}))

    def delete_page(self, model: type[Model], pk: str) -> Page:
        """Return what the tool that deletes would take along."""
        if "delete" not in self._tools(model):
            return self._missing(model, "delete")
        called = self._page_of(self.client.call("judge_deletion", {"label": model._meta.label, "pk": pk}))  # noqa: SLF001 - Django's documented API
        if isinstance(called, Page):
            return called
        lists = {
            name: tuple(normalize(without_markdown(text)) for text in called.structured[name])
            for name in ("counts", "objects")
        }
        return Page(State.SHOWN, {"allowed": called.structured["allowed"], **lists})

    def history(self, model: type[Model], pk: str) -> Page:
        """Return user and text of each entry."""
        called = self._call(model, "history", {"pk": pk})
        if isinstance(called, Page):
            return called
        if "text" in called.structured:  # a page of a package
            return Page(State.SHOWN, {"entries": Mentioning(called.structured["text"])})
        entries = called.structured.get("entries", ())
        return Page(State.SHOWN, {"entries": tuple((entry["user"], normalize(entry["action"])) for entry in entries)})

    def actions(self, model: type[Model]) -> Page:
        """Return the names and titles of the caller's tools that are actions of the list."""
        if model not in self._acted_on:  # the declaration has none for anybody, as without writing
            return Page(State.UNKNOWN)
        names = self._names(model)
        if not names:
            return Page(State.REFUSED, why="no tool")
        own = {name: self._actions[name] for name in names if name in self._actions}
        titles = {
            f"title of {action}": normalize(str(self.client.definition(name)["title"])) for name, action in own.items()
        }
        return Page(State.SHOWN, {"names": tuple(sorted(own.values())), **titles})

    def save(self, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
        """Add or change with the values as arguments of the types that the tool's schema says."""
        verb, self._overview = "add" if pk is None else "change", None
        name = self._tools(model).get(verb)
        if name is None:
            return self._missing(model, verb)
        described = self.client.definition(name).get("inputSchema", {}).get("properties", {})
        names: Mapping[str, str] = {}
        if any(is_of_rows(value.argument) for value in values.values()):
            read = self._read_form(model, pk)
            names = {} if isinstance(read, Page) else read.structured["inlines"]
        given = {names.get(field, field): value.argument for field, value in values.items()}
        arguments = {field: typed(value, described.get(field, {})) for field, value in given.items()}
        called = self._page_of(self.client.call(name, {**arguments, **({} if pk is None else {"pk": pk})}))
        if isinstance(called, Page):
            if "Missing argument" not in called.why:
                return called
            # The form's own words for it, of which the tool's are a translation.
            return replace(called, parts={"errors": (called.why, gettext("This field is required."))})
        messages = (normalize(without_markdown(message)) for message in called.structured["messages"])
        return Page(State.SAVED, {"messages": tuple(messages)})

    def _empty(self, model: type[Model]) -> frozenset[str]:
        """Return the texts by which the model's pages show that there is no value."""
        admin: Any = self.site.get_model_admin(model)
        columns = [*admin.list_display, *admin.readonly_fields]
        shown = [
            getattr(admin, each, getattr(model, each, None)) if isinstance(each, str) else each for each in columns
        ]
        own = {getattr(each, "empty_value_display", "-") for each in shown}
        return frozenset(map(str, {*own, admin.get_empty_value_display(), "-", ""}))

    # Calls.

    def _tools(self, model: type[Model]) -> dict[str, str]:
        """Return the names of the caller's tools for a model, by verb, without those of actions."""
        return {self._verbs[name]: name for name in self._names(model) if name in self._verbs}

    def _names(self, model: type[Model]) -> list[str]:
        """Return the names of the caller's tools for a model, as the overview tells them."""
        label = model._meta.label  # noqa: SLF001 - Django's documented API
        if self._overview is None:  # it asks about each tool, and changes with a save only
            called = self.client.call("admin_overview")
            self._overview = called.structured["models"] if called.ok else []
        return next((entry["tools"] for entry in self._overview if entry["model"] == label), [])

    def _call(self, model: type[Model], verb: str, arguments: Mapping[str, Any]) -> CallResult | Page:
        name = self._tools(model).get(verb)
        if name is None:
            return self._missing(model, verb)
        self.called = f"{name} {json.dumps(arguments, ensure_ascii=False, default=str)}"
        return self._page_of(self.client.call(name, arguments))

    def _missing(self, model: type[Model], verb: str) -> Page:
        """Return a refusal, unless the declaration has no such tool for anybody: what it leaves out is not compared."""
        self.called = f"no tool to {verb}"
        return Page(State.REFUSED, why="no tool") if verb in self._declared[model] else Page(State.UNKNOWN)

    def _page_of(self, called: CallResult) -> CallResult | Page:
        """Return the result, or the page of one that is an error."""
        if called.raised is not None:
            return Page(State.FAILED, why=repr(called.raised))
        if not called.ok:
            return Page(State.INVALID, {"errors": (called.text,)}, why=called.text)
        return called

    # Arguments of a search.

    def _arguments(self, model: type[Model], link: Link) -> dict[str, Any] | None:
        query = dict(parse_qsl(link.query, keep_blank_values=True))
        match link.kind:
            case "search":
                fields = getattr(self.site.get_model_admin(model), "search_fields", ())
                return None if secret_search_fields(model, fields, self._shown) else {"query": query["q"]}
            case "page":
                return {"page": int(query["p"])} if set(query) == {"p"} else None
            case "date":
                parts = {name.rpartition("__")[2]: int(value) for name, value in query.items()}
                return {"date": "-".join(f"{parts[part]:02}" for part in ("year", "month", "day") if part in parts)}
            case "order":
                return self._order(model, query.get("o", ""), int(link.text))
            case "filter":
                return self._filter(model, query, link)
        return None

    def _order(self, model: type[Model], numbers: str, position: int) -> dict[str, Any] | None:
        columns = self._columns.get(model)
        if not columns or not numbers:
            return None
        # The link's own column is first; others are as far from their numbers as it is.
        parts = numbers.split(".")
        offset = abs(int(parts[0])) - position
        named = [("-" if part.startswith("-") else "") + columns[abs(int(part)) - offset - 1] for part in parts]
        return None if any(self._hides_order(model, name.lstrip("-")) for name in named) else {"order_by": named}

    def _hides_order(self, model: type[Model], column: str) -> bool:
        """Return True if tools do not order by a column, as it is hidden or ordered by a hidden field."""
        shown: Any = getattr(self.site.get_model_admin(model), column, getattr(model, column, None))
        ordering = getattr(shown, "admin_order_field", None)
        paths = [column, *([ordering.lstrip("-")] if isinstance(ordering, str) else [])]
        return any(reaches_secret(model, path, self._shown) for path in paths)

    def _filter(self, model: type[Model], query: Mapping[str, str], link: Link) -> dict[str, Any] | None:
        name = self._tools(model).get("search", "")
        schema = self.client.definition(name).get("inputSchema", {}).get("properties", {})
        names = schema.get("filters", {}).get("properties", {})
        first = next(iter(query))
        fits = [each for each in names if any(key == each or key.startswith(f"{each}__") for key in query)]
        chosen = max(fits, key=len, default=first)
        if reaches_secret(model, chosen, self._shown):
            return None
        value: str | None = query[first] if len(query) == 1 else link.text
        if first.endswith("__isnull") and "null" in _types(names.get(chosen, {})):
            value = None
        return {"filters": {chosen: value}}


def _read_only(page: changeform.FormPage) -> Iterable[tuple[str, Any]]:
    for field in page.fields():
        if changeform.is_readonly(field):
            yield changeform.readonly_name(field), changeform.readonly_value(field)
    for inline in page.inlines:
        for number, row in enumerate(inline.shown):
            if "__prefix__" in row.form.prefix:
                continue
            for field in changeform.fields_of(row):
                if changeform.is_readonly(field):
                    name = f"{inline.formset.prefix}-{number}-{changeform.readonly_name(field)}"
                    yield name, changeform.readonly_value(field)


class Told:
    """A value in JSON. It equals each text by which a page shows that value.

    Args:
        value: the value.
        empty: texts for no value.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, empty: Collection[str]) -> None:
        self.value = value
        self.empty = empty

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Told):
            return bool(self.value == other.value)
        return isinstance(other, str) and (self.value == HIDDEN or other in {*map(normalize, self.texts())})

    def __repr__(self) -> str:
        return repr(self.value)

    def texts(self) -> Iterable[str]:
        """Yield the texts by which pages show the value."""
        value = self.value
        yield str(value)
        if value in (None, "", [], {}):
            yield from self.empty
        elif isinstance(value, bool):
            return
        elif isinstance(value, int | float):
            yield formats.localize(value)
        elif isinstance(value, dict | list):
            yield json.dumps(value, ensure_ascii=False)
            yield ", ".join(map(str, value))
        elif isinstance(value, str):
            yield from localized(value)
            yield without_markdown(value)


class Mentioning:
    """A page's text in Markdown. It equals entries of a history of which it has every word."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self.text = normalize(without_markdown(text))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mentioning):
            return self.text == other.text
        return isinstance(other, tuple) and all(normalize(part) in self.text for entry in other for part in entry)

    def __repr__(self) -> str:
        return repr(self.text)


def without_markdown(text: str) -> str:
    """Return the text of Markdown that was made from a page's markup."""
    return re.sub(r"\*\*|(?<!\w)_|_(?!\w)", "", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))


def localized(text: str) -> Iterable[str]:
    """Yield a number's, date's or time's text as pages have it."""
    with suppress(InvalidOperation):
        yield formats.localize(Decimal(text))
    lasts = parse_duration(text) if text.startswith(("P", "-P")) else None
    if lasts is not None:
        yield str(lasts)
    for parse in (parse_datetime, parse_date, parse_time):
        try:
            moment: datetime | date | time | None = parse(text)
        except ValueError:
            continue
        if isinstance(moment, datetime):
            moment = timezone.localtime(moment) if timezone.is_aware(moment) else moment
        if moment is not None:
            yield formats.localize(moment)


def typed(value: Any, schema: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one for each kind
    """Return a text as a value of the type that a schema says, if it can be one."""
    if isinstance(value, list):
        return [typed(each, schema.get("items", {})) for each in value]
    if isinstance(value, dict) and "properties" in schema:
        return {name: typed(each, schema["properties"].get(name, {})) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    options = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for option in options:
        for choice in [*option.get("enum", ()), *([option["const"]] if "const" in option else [])]:
            if str(choice).lower() == value.lower():
                return choice
    types = {name for option in options for name in _types(option)}
    if "boolean" in types and value in {"true", "false", "unknown"}:
        return {"true": True, "false": False, "unknown": None}[value]
    if types & {"integer", "number"}:
        # 7 and not 7.0, as a client writes a number that has no fraction.
        for make in (int, float):
            with suppress(ValueError):
                return make(value) if make is int or "number" in types else value
    return value


def is_of_rows(argument: Any) -> bool:
    """Return True for the rows of an inline."""
    return isinstance(argument, list) and any(isinstance(each, dict) for each in argument)


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)
