"""``admin_tools``: the models of an ``AdminSite`` as tools for staff."""

import copy
import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Literal

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.dispatch import receiver
from django.forms.utils import pretty_name
from django.utils.text import camel_case_to_spaces, capfirst, slugify
from django.utils.translation import gettext as _

from django_mcp.core.context import Context
from django_mcp.core.decorators import servers_of
from django_mcp.core.permissions import Right, right
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.request import require_same
from django_mcp.core.server import FINDERS, MCPServer, Namespace, Where, every_server
from django_mcp.core.signals import urls_made
from django_mcp.core.signatures import GIVEN, function
from django_mcp.integrations.admin_site import (
    actions,
    changeform,
    changelist,
    choices,
    deletion,
    history,
    pages,
    password,
    schemas,
)
from django_mcp.integrations.admin_site.changeform import KEY
from django_mcp.integrations.admin_site.hidden import (
    HIDDEN,
    PREFIXES,
    is_offered_by_default,
    require_open_search,
    secret_search_fields,
)
from django_mcp.integrations.admin_site.previews import going_along, preview_of_deletion, preview_of_save
from django_mcp.integrations.admin_site.rights import gives_rights
from django_mcp.integrations.requests import Call, site_request
from django_mcp.model_resources.previews import unless_secret
from django_mcp.primitives.base import NAME, Primitive, ToolError, check_options, translated, untranslated
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import about_argument, missing_argument, unknown_argument

APPROVAL = ("self", "other")
READING = ("search", "get", "history")
WRITING = ("add", "change", "delete", "password")
OVERVIEW, CHOICES = "admin_overview", "admin_choices"
SEARCH_ABOVE = 40
"""Number of a caller's tools above which an endpoint with these searches them, unless the site says otherwise."""
_PERMISSIONS = {
    "search": "has_view_or_change_permission",
    "get": "has_view_or_change_permission",
    "history": "has_view_or_change_permission",
    "add": "has_add_permission",
    "change": "has_change_permission",
    "delete": "has_delete_permission",
    "password": "has_change_permission",
}
"""Methods of ``ModelAdmin`` by what a tool does."""
_WORDS = {
    "search": "Search {many} in the site's admin: rows of its list, with its columns.",
    "get": "Show one {one} as its page in the site's admin does, with the rows that belong to it.",
    "history": "Show who changed one {one} and when, as the site's admin recorded it.",
    "add": "Add one {one} through its form in the site's admin.",
    "change": "Change one {one} through its form in the site's admin. Omitted fields keep their values.",
    "password": "Set the password of one {one} through the site's admin. Whoever runs this client can read it.",
    "delete": "Delete one {one} through the site's admin, with the rows that go along.",
}


def admin_tools(
    site: Any = None,
    *,
    only: Collection[str] = (),
    exclude: Collection[str] = (),
    write: bool = True,
    show: Collection[str] = (),
    approval: Literal["self", "other"] = "self",
    safe_actions: Collection[str] = (),
    verified: Callable[[Context], bool] | None = None,
    app: bool = False,
    server: Where = None,
    **options: Any,
) -> None:
    """Offer the site's admin as tools for staff: ``admin_tools(server=staff)``.

    Each call goes through the views of the ``AdminSite`` as the calling user, so its rows, fields, permissions, forms,
    signals and history are those of the admin's pages, whatever the site overrides. Tools exist for callers whom
    ``AdminSite.has_permission`` admits. Tools that write ask for an approval by default. A ``ModelAdmin`` may say
    ``mcp = False``, or ``mcp = ["search", "get"]``.

    Args:
        site: an ``AdminSite``. Default: ``django.contrib.admin.site``.
        only: offer only these: labels of apps or models, such as ``"shop"`` or ``"shop.order"``. Sessions, tokens and
            other models that are left out by default are offered if they are named here.
        exclude: leave these out.
        write: False for tools that only read.
        show: fields that are hidden by their names, such as ``"shop.customer.api_key"``.
        approval: ``"self"`` if callers may decide their own calls, on the approval's page in the admin; ``"other"`` if
            another person has to. Users, groups and other models that give rights always need another person.
        safe_actions: names of actions that change nothing, such as ``"export_csv"``. They need no approval.
        verified: for an ``AdminSite`` that asks ``request.user.is_verified()``, as django-otp's does: takes the
            ``Context`` and returns what that says, such as whether the client's scopes or its sign-in had a second
            factor.
        app: True to show lists as tables and rows as forms in clients with MCP Apps. Forms save with ``change_…``.
        server: one or several endpoints or namespaces to register at. Default: ``django_mcp.server``.
        **options: options of ``tool`` for all of them: ``scopes``, ``groups``, ``tags``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: the admin is not installed, a label is unknown, or an option does not apply.
    """
    check_options("admin_tools", options, admin_tools, Tool.__init__, Primitive.__init__)
    if approval not in APPROVAL or "self_approval" in options:
        msg = f"admin_tools: approval must be one of {', '.join(map(repr, APPROVAL))}, and replaces self_approval."
        raise ImproperlyConfigured(msg)
    if not isinstance(app, bool):
        msg = (
            f"admin_tools: app must be True or False, not {app!r}. Templates are replaced by templates of their names."
        )
        raise ImproperlyConfigured(msg)
    for name, given in (("only", only), ("exclude", exclude), ("show", show), ("safe_actions", safe_actions)):
        if isinstance(given, str):
            msg = f"admin_tools: {name} must be a list, like [{given!r}]."
            raise ImproperlyConfigured(msg)
    offered = AdminTools(
        _site(site),
        only=frozenset(only),
        exclude=frozenset(exclude),
        write=write,
        show=frozenset(show),
        approval=approval,
        safe_actions=frozenset(safe_actions),
        verified=verified,
        options=options,
        has_apps=app,
    )
    offered.register(server, offered.tools)
    _late.append((offered, server))


_late: list[tuple["AdminTools", Where]] = []
"""What was offered where, for models that apps register when they are ready."""


@receiver(urls_made)
def add_late_models(**_: Any) -> None:
    """Add the tools of models that were registered since."""
    for offered, server in _late:
        if added := list(offered.added()):
            offered.register(server, partial(offered.tools_of, added))


def declared() -> "list[AdminTools]":
    """Return what calls of ``admin_tools`` declared at endpoints that exist, also if all its names are taken there."""
    known = set(map(id, every_server()))
    places = {id(offered): servers_of(where) for offered, where in _late}
    return [offered for offered, _ in _late if any(id(_endpoint(place)) in known for place in places[id(offered)])]


def _endpoint(place: MCPServer | Namespace) -> MCPServer:
    return place.server if isinstance(place, Namespace) else place


def admins_of(server: MCPServer) -> "list[AdminTools]":
    """Return what an endpoint offers of admin sites, each as one call of ``admin_tools`` declared it."""
    offered = (getattr(tool, "offered", None) for tool in server.tools.values())
    return list({id(found): found for found in offered if isinstance(found, AdminTools)}.values())


def _site(site: Any) -> Any:
    if not apps.is_installed("django.contrib.admin"):
        msg = "admin_tools needs 'django.contrib.admin' in INSTALLED_APPS."
        raise ImproperlyConfigured(msg)
    from django.contrib import admin  # noqa: PLC0415 - needs the app

    found = admin.site if site is None else site
    if not isinstance(found, admin.AdminSite) and not hasattr(found, "admin_view"):
        msg = f"admin_tools takes an AdminSite, not {site!r}."
        raise ImproperlyConfigured(msg)
    admin.autodiscover()  # the app of the admin may be ready later
    return found


Making = tuple[str, Callable[[], Tool]]
"""A tool's name, and what makes the tool."""


@dataclasses.dataclass(frozen=True)
class Unnamed:
    """A tool that is left out, because of its name.

    Attributes:
        server: the endpoint.
        name: its name there.
        other: what has that name already; None if clients do not take such a name.
    """

    server: MCPServer
    name: str
    other: Primitive | None


class AdminTools:
    """The tools of one call of ``admin_tools``; see there for the arguments.

    Attributes:
        declaration: its arguments that choose what is offered.
        unnamed: tools that are left out, for the system checks.
    """

    def __init__(
        self,
        site: Any,
        *,
        only: frozenset[str],
        exclude: frozenset[str],
        write: bool,
        show: frozenset[str],
        approval: str,
        safe_actions: frozenset[str],
        verified: Callable[[Context], bool] | None,
        options: Mapping[str, Any],
        has_apps: bool = False,
    ) -> None:
        self.site, self._write, self.opened, self._options = site, write, show, options
        self.has_apps = has_apps
        self._approval, self.safe_actions, self._verified = approval, safe_actions, verified
        known = {label for model in self._registered() for label in _labels(model)}
        if unknown := sorted((only | exclude) - known):
            msg = f"admin_tools: the admin has no {unknown[0]!r}. It has: {', '.join(sorted(known))}."
            raise ImproperlyConfigured(msg)
        every = {model._meta.label_lower for model in apps.get_models()}  # noqa: SLF001 - those of inlines too
        if misnamed := sorted(label for label in show if label.rpartition(".")[0] not in every):
            msg = f"admin_tools: show has {misnamed[0]!r}; write app, model and field, such as 'shop.customer.api_key'."
            raise ImproperlyConfigured(msg)
        offered = {name for model in self._registered() for name in actions.action_names(site, self.admin_of(model))}
        if absent := sorted(safe_actions - offered):
            msg = f"admin_tools: the admin has no action {absent[0]!r}. It has: {', '.join(sorted(offered))}."
            raise ImproperlyConfigured(msg)
        self._only, self._exclude = only, exclude
        self.writes = write
        self.declaration: dict[str, Any] = {
            "only": only,
            "exclude": exclude,
            "write": write,
            "show": show,
            "safe_actions": safe_actions,
            "verified": verified,
        }
        self.unnamed: list[Unnamed] = []

    def register(self, where: Where, makings: Callable[[], Iterable[Making]]) -> None:
        """Register tools at each endpoint, without those whose names are taken there: a site has to start with them."""
        originals: dict[str, Tool] = {}
        for place in servers_of(where):
            server, prefix = _endpoint(place), f"{place.name}_" if isinstance(place, Namespace) else ""
            for name, make in makings():
                full = f"{prefix}{name}"
                other = server.tools.get(full)
                if other is not None or not NAME.fullmatch(full):
                    self.unnamed.append(Unnamed(server, full, other))
                    continue
                tool = make()
                tool.origin = originals.setdefault(name, tool)
                place.add(tool)

    def _registered(self) -> list[type[models.Model]]:
        # django-constance registers a class that is no model, for a page of settings.
        registered = self.site._registry  # noqa: SLF001 - AdminSite has no public list
        return [model for model in registered if issubclass(model, models.Model)]

    @cached_property
    def names(self) -> dict[type[models.Model], tuple[str, str]]:
        """The words for one and for several rows in names of tools, with the app if two models have the same."""
        own = {model: _words_of(model) for model in self._offered()}
        several = Counter(word for words in own.values() for word in set(words))
        taken = {word for word, number in several.items() if number > 1}
        return {model: self._words(model, taken) for model in own}

    @staticmethod
    def _words(model: type[models.Model], taken: Collection[str]) -> tuple[str, str]:
        one, many = _words_of(model)
        if one in taken or many in taken or name_of("search", (one, many)) in FINDERS:  # of a model Tool
            return _with_app(model, (one, many))
        return one, many

    def added(self) -> Iterator[type[models.Model]]:
        """Yield the models that were registered after the names were given, and give them theirs."""
        taken = {word for words in self.names.values() for word in words}
        for model in self._offered():
            if model not in self.names:
                self.names[model] = self._words(model, taken)
                yield model

    def _offered(self) -> list[type[models.Model]]:
        return [model for model in self._registered() if self._takes(model)]

    def _takes(self, model: type[models.Model]) -> bool:
        return not self._reason_against(model)

    def _reason_against(self, model: type[models.Model]) -> str:
        """Return why a registered model has no tools, "" if it has."""
        labels = _labels(model)
        if labels & self._exclude:
            return "excluded by admin_tools(exclude=…)"
        if getattr(self.admin_of(model), "mcp", True) is False:
            return "its ModelAdmin says mcp = False"
        if self._only:
            return "" if labels & self._only else "not named in admin_tools(only=…)"
        offered = is_offered_by_default(model._meta)  # noqa: SLF001 - Django's documented API
        return "" if offered else "left out unless named in admin_tools(only=…)"

    def left_out(self) -> Iterator[tuple[type[models.Model], str]]:
        """Yield the models of the site that have no tools, and why."""
        for model in self._registered():
            if reason := self._reason_against(model):
                yield model, reason

    def absent(self, model: type[models.Model]) -> Iterator[tuple[str, str]]:
        """Yield what no caller has a tool for, by verb, and why."""
        for verb in _possible_verbs(self.admin_of(model)):
            name = name_of(verb, self.names[model])
            if verb in WRITING and not self._write:
                yield verb, "admin_tools(write=False)"
            elif verb not in _verbs_of(self.admin_of(model)):
                yield verb, "not in mcp of its ModelAdmin"
            elif any(tool.name.endswith(name) for tool in self.unnamed):
                yield verb, f"the name {name} is taken (manage.py check)"

    def admin_of(self, model: type[models.Model]) -> Any:
        """Return the ``ModelAdmin`` of a model, or None if it was unregistered."""
        return self.site._registry.get(model)  # noqa: SLF001 - get_model_admin() is new in Django 5.0 and raises

    def tools(self) -> Iterator[Making]:
        """Yield the tools of all models, after the overview."""
        yield OVERVIEW, self._overview
        yield CHOICES, self._choices
        yield from self.tools_of(self.names)

    def tools_of(self, offered: Iterable[type[models.Model]]) -> Iterator[Making]:
        """Yield the tools of some models."""
        for model in offered:
            words = self.names[model]
            wanted = _verbs_of(self.admin_of(model))
            for verb in (*READING, *(WRITING if self._write else ())):
                if verb in wanted:
                    yield name_of(verb, words), partial(AdminTool, self, model, verb, words, self._options)
            if self._write and "actions" in wanted:
                for name, description in actions.action_names(self.site, self.admin_of(model)).items():
                    made = partial(ActionTool, self, model, name, str(description), words, self._options)
                    yield name_of_action(name, words), made

    def hidden_options(self) -> Iterator[tuple[type[models.Model], str, str, str]]:
        """Yield what lists declare that leads to a hidden field: model, option, path, and what ``show`` would name."""
        for model in self.names:
            admin = self.admin_of(model)
            filters = [name for name, _ in schemas.filter_names(getattr(admin, "list_filter", ()))]
            paths = {"search_fields": getattr(admin, "search_fields", ()), "list_filter": filters}
            for option, declared in paths.items():
                for path in secret_search_fields(model, declared, self.opened):
                    label = model._meta.label_lower  # noqa: SLF001 - Django's documented API
                    yield model, option, path, f"{label}.{path.lstrip(PREFIXES)}"

    def usable(self, ctx: Context, model: type[models.Model], verb: str) -> "AdminTool | None":
        """Return the tool for a model at the endpoint of a call, or None if the caller cannot use it."""
        found = (
            tool
            for tool in ctx.server.tools.values()
            if isinstance(tool, AdminTool) and (tool.offered, tool.model, tool.verb) == (self, model, verb)
        )
        tool = next(found, None)
        return tool if tool is not None and right(ctx, tool) is Right.USE else None

    # Who may

    def is_left_to_requester(self, model: type[models.Model]) -> bool:
        """Return True if callers decide their own calls that change rows of a model."""
        return self._approval == "self" and not gives_rights(self.admin_of(model))

    def admits(self, ctx: Context) -> bool:
        """Return True if the admin site admits the caller."""
        if ctx.user is None:
            return False
        try:
            return bool(self.site.has_permission(self.request(ctx)))
        except Exception as error:  # noqa: BLE001 - such as what middleware of the site sets and is not there
            words = "%r admits no caller of its tools, as has_permission() failed: %s"
            log_rate_limited(logging.ERROR, words, self.site.name, f"{type(error).__name__}: {error}")
            return False

    def may(self, ctx: Context, model: type[models.Model], verb: str) -> bool:
        """Return True if the caller may do this with some rows of a model."""
        admin = self.admin_of(model)
        if admin is None or not self.admits(ctx):
            return False
        request = self.request(ctx)
        return bool(admin.has_module_permission(request) and getattr(admin, _PERMISSIONS[verb])(request))

    def request(self, ctx: Context) -> Any:
        """Return a request of the caller to ask the admin with."""
        self.verify(ctx)
        return site_request(ctx, Call("GET", "/"))

    def verify(self, ctx: Context) -> None:
        """Have the user of a call say whether they are verified, if the site told how to find out."""
        user: Any = ctx.user
        if self._verified is None or getattr(user, "_mcp_verified_for", None) is self:
            return
        is_verified = bool(self._verified(ctx))
        # A copy: calls of one credential may share the user, and another admin may ask otherwise.
        user = copy.copy(user)
        user.is_verified, user._mcp_verified_for = lambda: is_verified, self  # noqa: SLF001 - ours
        ctx.principal = dataclasses.replace(ctx.principal, user=user)

    # The overview

    def _overview(self) -> Tool:
        def overview(ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:  # noqa: ARG001
            return ToolResult({"models": [*self._models(ctx)]})

        words = "List the models of the site's admin with what you may do there, and the tools for it."
        options = {"title": "Overview of the admin", "always_listed": True, **self._options}
        options |= {"read_only": True, "open_world": False, "visible": self.admits}
        call = function(overview, OVERVIEW, [], self)
        return Tool(call, context_type=Context, description=words, **options)

    def _choices(self) -> Tool:
        def offered(ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
            tool = ctx.server.tools.get(keywords["tool"])
            if not isinstance(tool, AdminTool) or tool.offered is not self or not tool.is_offered(ctx):
                raise ArgumentError([about_argument(["tool"], "must be the name of a tool of the admin.")])
            return ToolResult({"choices": tool.choices(ctx, keywords["argument"], keywords["query"])})

        words = "List choices for an argument of another tool of the admin, such as a row that a field refers to."
        parameters = [
            Parameter("tool", str, EMPTY, "Name of the tool."),
            Parameter("argument", str, EMPTY, "Its argument, such as customer, lines.product, or filters.status."),
            Parameter("query", str, "", "Words that the choices contain."),
        ]
        options = {"title": "Choices of the admin", **self._options}
        options |= {"read_only": True, "open_world": False, "visible": self.admits}
        call = function(offered, CHOICES, parameters, self)
        return Tool(call, context_type=Context, description=words, **options)

    def _models(self, ctx: Context) -> Iterator[dict[str, Any]]:
        every = [tool for tool in ctx.server.tools.values() if isinstance(tool, AdminTool | ActionTool)]
        tools = [tool for tool in every if tool.offered is self]
        for model in self.names:
            own = [tool.name for tool in tools if tool.model is model and tool.is_offered(ctx)]
            if own:
                options = model._meta  # noqa: SLF001 - Django's documented API
                yield {"model": options.label, "title": capfirst(str(options.verbose_name_plural)), "tools": own}


def _verbs_of(admin: Any) -> Collection[str]:
    """Return what a ``ModelAdmin`` wants to have tools for, with ``"actions"``."""
    given, possible = getattr(admin, "mcp", True), [*_possible_verbs(admin), "actions"]
    return [verb for verb in possible if verb in given] if isinstance(given, list | tuple) else possible


def _possible_verbs(admin: Any) -> list[str]:
    return [verb for verb in (*READING, *WRITING) if verb != "password" or password.has_page(admin)]


def _labels(model: type[models.Model]) -> frozenset[str]:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return frozenset({options.app_label, options.label_lower})


def _words_of(model: type[models.Model]) -> tuple[str, str]:
    options = model._meta  # noqa: SLF001 - Django's documented API
    one = camel_case_to_spaces(model.__name__).replace(" ", "_")
    many = untranslated(options.verbose_name_plural)
    many = slugify(many).replace("-", "_") if many.isascii() else ""
    return one, many if many and many != one else f"{one}s"


def _with_app(model: type[models.Model], words: tuple[str, str]) -> tuple[str, str]:
    app = re.sub(r"\W", "_", model._meta.app_label)  # noqa: SLF001 - Django's documented API
    return f"{app}_{words[0]}", f"{app}_{words[1]}"


def name_of(verb: str, words: tuple[str, str]) -> str:
    """Return the name of the tool for a verb, of the words for one and several rows."""
    one, many = words
    others = {"search": f"search_{many}", "history": f"{one}_history", "password": f"set_{one}_password"}
    return others.get(verb, f"{verb}_{one}")


def name_of_action(action: str, words: tuple[str, str]) -> str:
    """Return the name of the tool for an action."""
    return f"delete_{words[1]}" if action == actions.DELETE else f"{words[0]}_{action}"


def _shared_options(model: type[models.Model], *, reads: bool, destroys: bool) -> dict[str, Any]:
    """Return the tag, hints and first policy of a tool for a model."""
    tags = [model._meta.app_label]  # noqa: SLF001 - Django's documented API
    hints = {"read_only": reads, "destructive": None if reads else destroys, "open_world": False}
    return {"tags": tags, **hints, **({} if reads else {"policy": "ask"})}


class AdminTool(Tool):
    """A tool for one model of an admin.

    Args:
        offered: the tools that it is one of.
        model: the model.
        verb: one of ``READING`` and ``WRITING``.
        words: for one and several rows, in its name.
        options: of ``tool``.
    """

    search_above = SEARCH_ABOVE

    def __init__(
        self,
        offered: AdminTools,
        model: type[models.Model],
        verb: str,
        words: tuple[str, str],
        options: Mapping[str, Any],
    ) -> None:
        self.offered, self.model, self.verb = offered, model, verb
        meta = model._meta  # noqa: SLF001 - Django's documented API
        name = name_of(verb, words)
        reads = verb in READING
        own = {
            "title": capfirst(name.replace("_", " ")),
            "description": _WORDS[verb].format(one=meta.verbose_name, many=meta.verbose_name_plural),
            **_shared_options(model, reads=reads, destroys=verb != "add"),
            **options,
            "self_approval": offered.is_left_to_requester(model),
        }
        if verb == "password":
            own["policy"] = "block"  # until somebody decides so in the admin
        if not reads:
            own["preview"] = function(self._preview, f"preview_{name}", [GIVEN], offered)
        if offered.has_apps and verb in pages.TEMPLATES:
            own["app"] = pages.app_of(verb)
        call = function(self._run, name, [], offered)  # the approval is bound to each argument and its rows
        arguments = schemas.AdminArguments(self._described(None))
        super().__init__(call, context_type=Context, arguments=arguments, visible=self.is_offered, **own)
        if not reads:
            self.rows_of = self._rows_of

    @property
    def admin(self) -> Any:
        """The ``ModelAdmin``."""
        return self.offered.admin_of(self.model)

    def is_offered(self, ctx: Context) -> bool:
        """Return True if the admin lets the caller do this."""
        return self.offered.may(ctx, self.model, self.verb)

    # Arguments

    def schema_for(self, ctx: Context) -> dict[str, Any]:
        """Return the arguments for this caller, in the language of the call."""
        return translated(self._described(self.offered.request(ctx)))  # type: ignore[no-any-return]

    def _described(self, request: Any) -> dict[str, Any]:
        key = schemas.object_schema({KEY: schemas.KEY_SCHEMA}, [KEY])
        label = self.model._meta.label  # noqa: SLF001 - Django's documented API
        match self.verb:
            case "search":
                return schemas.search_schema(self.admin, request, self.offered.opened)
            case "add":
                described = schemas.add_schema
                known: dict[str, Any] = {"type": "object", "properties": {}}
            case "password":
                new = {"type": "string", "description": "The new password."}
                return schemas.object_schema(
                    {KEY: schemas.KEY_SCHEMA, password.PASSWORD: new}, [KEY, password.PASSWORD]
                )
            case "change":
                described = schemas.change_schema
                known = {**key, "additionalProperties": True}
            case _:
                return key
        return known if request is None else schemas.made_or_open(partial(described, self.admin, request), label)

    def choices(self, ctx: Context, argument: str, query: str) -> list[choices.Choice]:
        """Return the choices for one of the arguments, those of a filter as ``filters.status``."""
        name = argument.removeprefix("filters.")
        if self.verb == "search":
            return choices.filter_choices(ctx, self.offered.site, self.model, name, query, self.offered.opened)
        request, opened = self.offered.request(ctx), self.offered.opened
        fields = schemas.form_fields(self.admin, request, opened, is_new=self.verb == "add")
        fields = fields if self.verb in WRITING else {}
        return choices.field_choices(ctx, self.offered.site, fields, argument, query, opened)

    # A call

    def _run(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        self.offered.verify(ctx)
        given = {name: value for name, value in keywords["given"].items() if value is not None or self.verb in WRITING}
        self._check_names(ctx, given)
        key, site, opened = given.pop(KEY, None), self.offered.site, self.offered.opened
        match self.verb:
            case "search":
                found = changelist.search(ctx, site, self.model, given, opened)
                return self._viewed(ctx, ToolResult(found.result), lambda: pages.table(self, ctx, given, found))
            case "history":
                return ToolResult(history.history(ctx, site, self.model, key))
            case "get":
                page = changeform.open_form(ctx, site, self.model, key)
                return self._viewed(ctx, ToolResult(page.shown(opened)), lambda: pages.form(self, ctx, page))
        with history.naming_client(ctx):
            return self._write(ctx, key, given)

    def _check_names(self, ctx: Context, given: Mapping[str, Any]) -> None:
        """Refuse what the tool does not take; fields of a form are checked with its page."""
        if self.verb == "search" and given.get("query"):
            require_open_search(self.admin, self.offered.request(ctx), self.offered.opened)
        schema = self._described(None)
        missing = [missing_argument([name]) for name in schema.get("required", ()) if given.get(name) is None]
        known = schema["properties"]
        if schema.get("additionalProperties") is False:
            known = self.schema_for(ctx)["properties"]
            missing += [unknown_argument([name], known) for name in given if name not in known]
        if missing:
            raise ArgumentError(missing)

    def _write(self, ctx: Context, key: Any, given: dict[str, Any]) -> ToolResult[Any]:
        site = self.offered.site
        if key is not None:
            require_same(ctx, KEY, self._locked(ctx, key))
        if self.verb == "delete":
            messages = deletion.delete(ctx, site, self.model, key)
            return ToolResult({"deleted": key, "messages": messages}, text="\n".join(messages) or "Deleted.")
        if self.verb == "password":
            messages = password.set_password(ctx, site, self.model, key, given[password.PASSWORD])
            return ToolResult({KEY: key, "messages": messages}, text="\n".join(messages) or "Set.")
        page = changeform.open_form(ctx, site, self.model, key)
        saved = changeform.save(page, given)
        made = changeform.key_of(self.model, saved.location) if key is None else key
        done = ToolResult({KEY: made, "messages": saved.messages}, text="\n".join(saved.messages) or "Saved.")
        if self.verb == "add":
            return done

        def saved_form() -> dict[str, Any]:
            return pages.form(self, ctx, changeform.open_form(ctx, site, self.model, made), done.text or "")

        return self._viewed(ctx, done, saved_form)

    def _viewed(
        self, ctx: Context, result: ToolResult[Any], values: Callable[[], Mapping[str, Any]]
    ) -> ToolResult[Any]:
        """Add the HTML for clients that show apps; *values* are the variables of its template."""
        if not isinstance(self.app, pages.AdminApp) or not ctx.shows_apps:
            return result
        return self.app.viewed(ctx, result, values)

    def _locked(self, ctx: Context, key: Any) -> models.Model:
        """Return the row, locked until the end of the call where the database can."""
        row = self._row(ctx, key)
        rows = type(row)._base_manager.using(row._state.db).filter(pk=row.pk)  # noqa: SLF001 - documented
        rows.select_for_update(of=("self",)).first()
        return row

    # Approvals

    def _rows_of(self, ctx: Context, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        key = keywords["given"].get(KEY)
        if self.verb == "add" or key is None:
            return {}
        return {KEY: self._row(ctx, key)}

    def _row(self, ctx: Context, key: Any) -> models.Model:
        from django.contrib.admin.utils import quote, unquote  # noqa: PLC0415 - needs the app

        row = self.admin.get_object(self.offered.request(ctx), unquote(quote(str(key))))
        if row is None:
            raise ToolError(f"There is no {self.model._meta.verbose_name} {key}.")  # noqa: SLF001 - documented
        return row  # type: ignore[no-any-return]

    def _preview(self, ctx: Context, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        self.offered.verify(ctx)
        given, site = dict(keywords["given"]), self.offered.site
        key = given.pop(KEY, None)
        if self.verb == "delete":
            return preview_of_deletion(ctx, site, self.model, key, self.offered.opened)
        if self.verb == "password":
            changes = [{"field": password.PASSWORD, "label": capfirst(_("password")), "after": HIDDEN}]
            return {
                "verb": "submit",
                "object": f"{self.definition['title']}: {self._row(ctx, key)}",
                "changes": changes,
            }
        return preview_of_save(ctx, site, self.model, key, given, self.offered.opened)


class ActionTool(Tool):
    """A tool for one action of a model's list.

    Args:
        offered: the tools that it is one of.
        model: the model.
        action: name of the action.
        description: of the action.
        words: for one and several rows, in its name.
        options: of ``tool``.
    """

    search_above = SEARCH_ABOVE

    def __init__(
        self,
        offered: AdminTools,
        model: type[models.Model],
        action: str,
        description: str,
        words: tuple[str, str],
        options: Mapping[str, Any],
    ) -> None:
        self.offered, self.model, self.action = offered, model, action
        meta = model._meta  # noqa: SLF001 - Django's documented API
        name = name_of_action(action, words)
        from django.contrib.admin.utils import model_format_dict  # noqa: PLC0415 - needs the app

        title = description % model_format_dict(model) if "%(" in description else description
        is_safe = action in offered.safe_actions
        own = {
            "title": title,
            "description": f"{title}: an action of the site's admin on {meta.verbose_name_plural}.",
            **_shared_options(model, reads=is_safe, destroys=True),
            **options,
            "self_approval": offered.is_left_to_requester(model),
        }
        if not is_safe:
            own["preview"] = function(self._preview, f"preview_{name}", [GIVEN], offered)
        call = function(self._run, name, [], offered)  # the approval is bound to each argument and its rows
        arguments = schemas.AdminArguments(ACTION_SCHEMA)
        super().__init__(call, context_type=Context, arguments=arguments, visible=self.is_offered, **own)
        self.rows_of = self._rows_of

    @property
    def _admin(self) -> Any:
        return self.offered.admin_of(self.model)

    def is_offered(self, ctx: Context) -> bool:
        """Return True if the admin offers the action to the caller."""
        if not self.offered.may(ctx, self.model, "search"):
            return False
        return actions.may_run(self._admin, self.offered.request(ctx), self.action)

    def _rows(self, ctx: Context, given: Mapping[str, Any]) -> list[models.Model]:
        keys, asked, request = given.get("pks"), given.get("search"), self.offered.request(ctx)
        if asked is None:
            if keys is None:
                raise ArgumentError([missing_argument(["pks"])])
            return actions.rows_for(self._admin, request, keys)
        if keys is not None:
            raise ArgumentError([about_argument(["search"], "cannot be given together with 'pks'.")])
        if asked.get("query"):
            require_open_search(self._admin, request, self.offered.opened)
        return actions.rows_found(ctx, self.offered.site, self.model, asked, self.offered.opened)

    def _rows_of(self, ctx: Context, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        return {_selected_by(keywords["given"]): self._rows(ctx, keywords["given"])}

    def _run(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        given, known = keywords["given"], list(ACTION_SCHEMA["properties"])
        if unknown := [unknown_argument([name], known) for name in given if name not in known]:
            raise ArgumentError(unknown)
        rows = self._rows(ctx, given)
        require_same(ctx, _selected_by(given), rows)
        keys, values, button = [row.pk for row in rows], given.get("values"), given.get("button")
        with history.naming_client(ctx):
            return actions.run(ctx, self.offered.site, self.model, self.action, keys, values, button)

    def _preview(self, ctx: Context, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        given = keywords["given"]
        rows = self._rows(ctx, given)
        actions.open_list(ctx, self.offered.site, self.model)
        named = deletion.shortened([*map(str, rows)])
        meta = self.model._meta  # noqa: SLF001 - Django's documented API
        changes = [
            {"field": f"values.{name}", "label": capfirst(pretty_name(name)), "after": unless_secret(name, value)}
            for name, value in (given.get("values") or {}).items()
        ]
        many = capfirst(str(meta.verbose_name_plural))
        told = {
            "verb": "submit",
            "object": f"{self.definition['title']} ({len(rows)})",
            "changes": [{"field": _selected_by(given), "label": many, "after": named}, *changes],
        }
        if self.action != actions.DELETE:
            return told
        page = actions.open_deletion(ctx, self.offered.site, self.model, [row.pk for row in rows])
        if page is None:
            return told
        texts = deletion.names_in(page.context.get("deletable_objects") or ())
        return {**told, **going_along(page, meta, len(rows), texts)}


# For ``mcp_inspect``, which knows no reason of a tool's own.
for _offers in (AdminTool.is_offered, ActionTool.is_offered):
    vars(_offers)["words"] = "decided by the admin; see mcp_inspect --admin"


def _selected_by(given: Mapping[str, Any]) -> str:
    """Return the argument that chooses the rows of an action."""
    return "pks" if given.get("search") is None else "search"


ACTION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pks": {
            "type": "array",
            "items": {"type": ["integer", "string"]},
            "minItems": 1,
            "maxItems": actions.MAX_ROWS,
            "description": "Keys of the rows.",
        },
        "search": schemas.object_schema(
            {"query": {"type": "string"}, "filters": {"type": "object"}, "date": {"type": "string"}}
        )
        | {
            "description": f"Instead of pks: all rows that the search tool finds by these, at most {actions.MAX_FOUND}."
        },
        "values": {
            "type": "object",
            "description": "What the action asks for on a page of its own. Try without it first.",
        },
        "button": {"type": "string", "description": "The button to press on that page, if it has several."},
    },
    "additionalProperties": False,
}
