"""Default managers whose rows depend on the caller: those of packages for tenants, such as django-scopes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest
from django import forms
from django.apps import apps
from django.core.checks import run_checks
from django.db import models

from django_mcp import MCPServer, ModelResource, register, unregister
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Tag

TENANT: ContextVar[str] = ContextVar("tenant")
STARTS = {"root": "", "ann": "Anna", "bob": "Carl"}


class NoTenant(Exception):
    """A query without a tenant, as ``ScopeError`` of django-scopes is."""


class Closed(models.QuerySet[Any]):
    """What a manager of django-scopes returns without a tenant."""

    def refuse(self, *args: Any, **options: Any) -> NoReturn:
        raise NoTenant("A tenant needs to be active for this query.")

    all = filter = complex_filter = get = count = exists = order_by = values = __iter__ = refuse  # type: ignore[assignment]


class Strict(models.Manager[Any]):
    """The rows of the tenant, or else none may be asked for."""

    field = "name"

    def get_queryset(self) -> Any:
        if TENANT.get(None) is None:
            return Closed(self.model, using=self._db)
        return super().get_queryset().filter(**{f"{self.field}__startswith": TENANT.get()})

    def all(self) -> Any:
        return self.get_queryset().all()


class Lenient(Strict):
    """The rows of the tenant, or else all."""

    def get_queryset(self) -> Any:
        return super().get_queryset() if TENANT.get(None) is not None else models.QuerySet(self.model, using=self._db)


@contextmanager
def of_tenant(request: Any) -> Iterator[None]:
    token = TENANT.set(STARTS[request.user.username])
    try:
        yield
    finally:
        TENANT.reset(token)


def managed(monkeypatch: pytest.MonkeyPatch, model: Any, kind: type[Strict], field: str) -> None:
    manager: Any = kind()
    manager.model, manager.name, manager.field = model, "objects", field
    monkeypatch.setitem(vars(model._meta), "default_manager", manager)


class Resource(ModelResource):
    view_permission = add_permission = change_permission = None


class Authors(Resource):
    fields = ("name",)
    title_field = "name"


class Tags(Resource):
    fields = ("word",)


class Books(Resource):
    fields = ("title", "author", "tags")
    lookup_field = "slug"
    actions = ("create", "update")
    writable_fields = ("title", "slug", "author", "tags")
    policy = "allow"


@pytest.fixture(params=[Strict, Lenient], ids=["strict", "lenient"])
def tenants(
    request: pytest.FixtureRequest,
    server: MCPServer,
    books: list[Book],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    managed(monkeypatch, Author, request.param, "name")
    managed(monkeypatch, Tag, request.param, "word")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CALL_CONTEXT_MANAGERS": [of_tenant]}
    monkeypatch.setattr(apps, "ready", False)  # as in a site that starts: the tools are described later
    register(Author, Authors, server=server)
    register(Tag, Tags, server=server)
    register(Book, Books, server=server)
    monkeypatch.setattr(apps, "ready", True)


def key(name: str) -> int:
    pk: int = Author._base_manager.get(name=name).pk
    return pk


@pytest.mark.usefixtures("tenants")
def test_tools_that_write_are_described_where_there_is_no_tenant(server: MCPServer) -> None:
    assert [found for found in run_checks(tags=["django_mcp"]) if found.id == "django_mcp.E029"] == []
    properties = server.tools["create_book"].definition["inputSchema"]["properties"]
    assert {"author", "tags"} <= properties.keys()


@pytest.mark.usefixtures("tenants")
def test_each_tenant_chooses_its_own_rows_whoever_came_first(reader: Callable[..., Reader]) -> None:
    for user, own, other in (("ann", "Anna Berg", "Carl Dahl"), ("bob", "Carl Dahl", "Anna Berg")):
        caller = reader(user)
        assert "create_book" in caller.tool_names()
        made = caller.data("create_book", title=user, slug=user, author=key(own))
        assert made["author"]["title"] == own
        refused = caller.problem("create_book", title="x", slug="x", author=key(other))
        assert f"'{key(other)}'" in refused
        assert f"Choose one of: {key(own)} ({own})." in refused
        assert caller.data("update_book", slug=user, title="New", author=key(own))["author"]["title"] == own
        assert "no author" in caller.problem("update_book", slug=user, author=key(other))


@pytest.mark.usefixtures("tenants")
def test_so_it_is_with_sets_of_rows(reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch) -> None:
    sea, night = (Tag._base_manager.get(word=word).pk for word in ("sea", "night"))
    monkeypatch.setattr("tests.model_resources.test_managers_of_tenants.STARTS", {"ann": "se", "bob": "ni"})
    monkeypatch.setitem(vars(Author._meta), "default_manager", Author._base_manager)
    for user, own, other in (("ann", sea, night), ("bob", night, sea)):
        made = reader(user).data("create_book", title=user, slug=user, author=key("Anna Berg"), tags=[own])
        assert len(made["tags"]) == 1
        assert "no tag" in reader(user).problem(
            "create_book", title="x", slug="x", author=key("Anna Berg"), tags=[own, other]
        )


class BookForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Book
        fields = ("title", "slug", "author")


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("is_shown", [True, False])
def test_a_form_of_the_site_keeps_no_rows_of_the_first_tenant_either(
    server: MCPServer, reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch, is_shown: bool
) -> None:
    unregister(Book, server=server)
    formed = type("Formed", (Books,), {"form": BookForm, "fields": ("title",), "writable_fields": ()})
    with monkeypatch.context() as starting:
        starting.setattr(apps, "ready", False)
        register(Book, formed, server=server)
    if not is_shown:
        unregister(Author, server=server)
    for user, own, other in (("ann", "Anna Berg", "Carl Dahl"), ("bob", "Carl Dahl", "Anna Berg")):
        reader(user).data("create_book", title=user, slug=user, author=key(own))
        assert Book.objects.get(slug=user).author_id == key(own)
        assert "Argument 'author'" in reader(user).problem("create_book", title="x", slug="x", author=key(other))
