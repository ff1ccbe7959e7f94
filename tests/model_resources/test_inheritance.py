"""Row rules follow the table: they hold for proxies, children and parents of the class that declares them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Permission
from django.db import connections

from django_mcp import MCPServer, ModelResource, form_tool, register
from django_mcp.core.signals import rows_changed
from django_mcp.model_resources.notifications import start_new_batch
from tests.model_resources.conftest import Reader
from tests.model_resources.family.models import Alias, Chief, Column, Critic, Other, Person
from tests.model_resources.looking import look

CLASSES: Mapping[str, Any] = {"person": Person, "alias": Alias, "critic": Critic, "chief": Chief}


class Shown(ModelResource):
    """Rows that are not hidden, to all callers."""

    fields = ("name",)
    view_permission = change_permission = add_permission = delete_permission = None

    def get_queryset(self, ctx: Any) -> Any:
        return super().get_queryset(ctx).filter(hidden=False)


class ShownOneByOne(ModelResource):
    """The same, decided for each row."""

    fields = ("name",)

    def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
        return obj is None or not obj.hidden


class Plain(ModelResource):
    """All rows that the class has."""

    fields = ("name",)
    view_permission = None


class Columns(ModelResource):
    """Texts with people of each class."""

    fields = ("title", *(f"{name}__name" for name in CLASSES), "readers__name")
    list_fields = fields
    view_permission = None


class ComparedColumns(Columns):
    """The same, with all comparisons."""

    search_fields = tuple(f"{name}__name" for name in CLASSES)
    filterset_fields = tuple(f"{name}__name" for name in CLASSES)
    ordering_fields = filterset_fields
    group_by_fields = filterset_fields
    aggregates: Mapping[str, Any] = {f"{name}__name": ["max"] for name in CLASSES}


@pytest.fixture
def rows(db: None) -> Mapping[str, Any]:
    """A hidden chief, who is a person in each class, and one who is not hidden; each with a column."""
    secret, known = Chief.objects.create(name="secret", hidden=True), Chief.objects.create(name="known")
    for row in (secret, known):
        person = Person.objects.get(pk=row.pk)
        column = Column.objects.create(
            title=row.name,
            person=person,
            alias=Alias.objects.get(pk=row.pk),
            critic=Critic.objects.get(pk=row.pk),
            chief=row,
        )
        column.readers.set([secret, known])
    return {"secret": secret, "known": known}


@pytest.mark.parametrize("declared", [Shown, ShownOneByOne])
@pytest.mark.parametrize("registered", CLASSES)
def test_a_row_that_one_class_hides_is_hidden_behind_relations_to_all_others(
    server: MCPServer,
    reader: Callable[..., Reader],
    rows: Any,
    people: Any,
    registered: str,
    declared: Any,
) -> None:
    people["ann"].user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    register(CLASSES[registered], declared, server=server)
    register(Column, Columns, server=server)
    shown = {row["title"]: row for row in reader("ann").data("search_columns")["rows"]}
    assert [shown["secret"][f"{name}__name"] for name in CLASSES] == [None] * 4
    assert [shown["known"][f"{name}__name"] for name in CLASSES] == ["known"] * 4
    assert shown["known"]["readers__name"] == ["known"]


@pytest.mark.parametrize("declared", [Shown, ShownOneByOne])
@pytest.mark.parametrize("registered", CLASSES)
def test_nor_is_its_key_shown_where_a_relation_to_another_class_is(
    server: MCPServer, reader: Callable[..., Reader], rows: Any, people: Any, registered: str, declared: Any
) -> None:
    class Keys(ModelResource):
        fields = ("title", *CLASSES)
        list_fields = fields
        view_permission = None

    people["ann"].user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    register(CLASSES[registered], declared, server=server)
    register(Column, Keys, server=server)
    shown = {row["title"]: row for row in reader("ann").data("search_columns")["rows"]}
    others = [name for name in CLASSES if name != registered]
    assert [shown["secret"][name] for name in CLASSES] == [None] * 4
    assert [shown["known"][name] for name in others] == [rows["known"].pk] * 3
    one = reader("ann").data("get_column", pk=shown["secret"]["pk"])
    assert [one[name] for name in CLASSES] == [None] * 4


@pytest.mark.parametrize("declared", [Shown, ShownOneByOne])
@pytest.mark.parametrize("registered", CLASSES)
def test_nor_is_its_key_shown_in_a_preview(
    server: MCPServer, rows: Any, people: Any, registered: str, declared: Any
) -> None:
    """Of a change that replaces it, of one that leaves it, and of a deletion."""

    class Keys(ModelResource):
        fields = ("title", *CLASSES, "readers__name")
        form = forms.modelform_factory(Column, fields=("title", *CLASSES, "readers"))
        actions = ("create", "update", "delete")

    register(CLASSES[registered], declared, server=server)
    register(Column, Keys, server=server)
    column, secret, known = Column.objects.get(title="secret"), rows["secret"].pk, rows["known"].pk
    Person.objects.create(name="known later")
    keys = dict.fromkeys(CLASSES, known)
    root = people["root"]
    changed = look(server, root, "update_column", pk=column.pk, **keys, readers=[known])["changes"]
    assert {change["field"] for change in changed if change.get("hidden")} == {*CLASSES}
    shown = [
        changed,
        look(server, root, "update_column", pk=column.pk, title="other")["changes"],
        look(server, root, "delete_column", pk=column.pk)["changes"],
        look(server, root, "create_column", title="new", **keys)["changes"],
    ]
    values = [change.get(side) for changes in shown for change in changes for side in ("before", "after")]
    found = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    assert known in found or f"family://{registered}/{known}" in str(found)
    assert secret not in found
    assert f"/{secret}'" not in str(found)


@pytest.mark.parametrize("registered", ["person", "chief"])
def test_a_hidden_row_of_another_class_is_not_found_sorted_or_counted(
    server: MCPServer,
    reader: Callable[..., Reader],
    rows: Any,
    registered: str,
) -> None:
    register(CLASSES[registered], Shown, server=server)
    register(Column, ComparedColumns, server=server)
    guest = reader()
    for name in CLASSES:
        assert guest.data("search_columns", **{f"{name}__name": "secret"})["rows"] == []
        assert len(guest.data("search_columns", **{f"{name}__name": "known"})["rows"]) == 1
        first = guest.data("search_columns", order_by=f"{name}__name", limit=1)["rows"][0]
        assert first["title"] == "known"
        groups = guest.data("aggregate_columns", measures=["count", f"max_{name}__name"], by=[f"{name}__name"])
        assert [group[f"{name}__name"] for group in groups["groups"]] in (["known", None], [None, "known"])
    assert guest.data("search_columns", query="secret")["rows"] == []


@pytest.mark.parametrize(
    ("registered", "chosen"), [*(("person", name) for name in CLASSES), *((name, "person") for name in CLASSES)]
)
def test_a_form_does_not_take_a_row_that_another_class_hides(
    server: MCPServer,
    reader: Callable[..., Reader],
    rows: Any,
    registered: str,
    chosen: str,
) -> None:
    register(CLASSES[registered], Shown, server=server)

    @form_tool(server=server, handle=lambda ctx, form: form.cleaned_data["row"].name)
    class PickForm(forms.Form):
        row = forms.ModelChoiceField(CLASSES[chosen].objects.all())

    guest = reader()
    assert "not one of the available choices" in guest.problem("pick", row=rows["secret"].pk)
    assert guest.call("pick", row=rows["known"].pk).text == "known"


def test_a_choice_of_a_parent_row_has_the_title_that_a_registered_child_declares(
    server: MCPServer, reader: Callable[..., Reader], rows: Any, people: Any
) -> None:
    Person.objects.create(name="plain")

    @register(Critic, server=server)
    class Named(Shown):
        fields = ("name", "called")
        title_field = "called"

        def called(self, obj: Any) -> str:
            return f"critic {obj.name}"

    @form_tool(server=server, handle=lambda ctx, form: "taken")
    class PickForm(forms.Form):
        row = forms.ModelChoiceField(Person.objects.all())

    words = reader().problem("pick", row=0)
    assert f"{rows['known'].pk} (critic known)" in words
    assert "(secret plain)" in words, "no declaration is about this row"
    assert words.count("secret") == 1
    shown = look(server, people["root"], "pick", row=rows["known"].pk)["changes"]
    assert shown[0]["after"] == {"uri": f"family://critic/{rows['known'].pk}", "title": "critic known"}


def test_a_choice_has_the_title_of_the_proxy_that_shows_the_row(
    server: MCPServer, reader: Callable[..., Reader], rows: Any
) -> None:
    register(Alias, Shown, server=server)

    @register(Other, server=server)
    class Hidden(Plain):
        fields = ("hidden_name",)
        title_field = "hidden_name"

        def get_queryset(self, ctx: Any) -> Any:
            return Other.objects.filter(hidden=True)

        def hidden_name(self, obj: Any) -> str:
            return f"hidden {obj.pk}"

    @form_tool(server=server, handle=lambda ctx, form: "taken")
    class PickForm(forms.Form):
        row = forms.ModelChoiceField(Person.objects.all())

    words = reader().problem("pick", row=0)
    secret, known = rows["secret"].pk, rows["known"].pk
    assert f"{secret} (hidden {secret})" in words
    assert f"{known} (known)" in words


def test_the_result_and_the_preview_of_a_form_leave_out_hidden_rows_that_stay_in_a_set(
    server: MCPServer, reader: Callable[..., Reader], rows: Any, people: Any
) -> None:
    register(Person, Shown, server=server)

    @form_tool(server=server, lookup="pk", queryset=lambda ctx: Column.objects.all(), permission=None)
    class ColumnForm(forms.ModelForm):
        class Meta:
            model = Column
            fields = ("readers",)

    column, known = Column.objects.get(title="known"), rows["known"].pk
    (change,) = look(server, people["root"], "update_column", pk=column.pk, readers=[known])["changes"]
    assert change["after"] == [{"uri": f"family://person/{known}", "title": "known"}]
    assert reader().data("update_column", pk=column.pk, readers=[]) == {"pk": column.pk, "readers": []}
    assert [reader.name for reader in column.readers.all()] == ["secret"]


@pytest.mark.parametrize("declared", [Shown, ShownOneByOne])
@pytest.mark.parametrize(("deciding", "plain"), [(Person, Alias), (Person, Chief), (Chief, Person)])
def test_a_declaration_that_decides_nothing_leaves_out_what_its_relative_hides(
    server: MCPServer,
    reader: Callable[..., Reader],
    rows: Any,
    people: Any,
    deciding: Any,
    plain: Any,
    declared: Any,
) -> None:
    people["ann"].user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    Person.objects.create(name="plain")
    register(deciding, declared, server=server)
    register(plain, Plain, server=server)
    ann, tools = reader("ann"), server.model_resources[plain]
    found = [row["name"] for row in ann.data(f"search_{tools.plural}")["rows"]]
    assert "secret" not in found
    assert "known" in found
    assert ("plain" in found) is (plain in {Person, Alias})
    assert "found" in ann.problem(f"get_{tools.name}", pk=rows["secret"].pk)


def test_a_declaration_with_rows_of_its_own_decides_for_itself(
    server: MCPServer,
    reader: Callable[..., Reader],
    rows: Any,
) -> None:
    register(Person, Shown, server=server)

    @register(Alias, server=server)
    class Aliases(Plain):
        def get_queryset(self, ctx: Any) -> Any:
            return Alias.objects.filter(hidden=True)

    assert [row["name"] for row in reader().data("search_aliass")["rows"]] == ["secret"]


class CriticForm(forms.ModelForm):
    """Changes the columns of a critic, which are in two tables."""

    class Meta:
        """Both."""

        model = Critic
        fields = ("name", "paper")


@pytest.mark.parametrize("registered", [Person, Alias, Critic])
def test_a_form_needs_the_permissions_of_the_class_whose_rows_it_writes(
    server: MCPServer, reader: Callable[..., Reader], people: Any, registered: Any
) -> None:
    people["ann"].user_permissions.set(Permission.objects.filter(content_type__app_label="family"))
    critic = Critic.objects.create(name="known")

    @register(registered, server=server)
    class ReadOnly(ModelResource):
        fields = ("name",)

        def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
            return obj is None or obj.name != "known"

    form_tool(CriticForm, server=server, lookup="pk", queryset=lambda ctx: Critic.objects.all())
    assert "do not have permission" in reader("ann").problem("update_critic", pk=critic.pk, name="new")


def test_subscribers_of_a_child_hear_of_changes_to_its_parent(
    server: MCPServer, rows: Any, django_capture_on_commit_callbacks: Any
) -> None:
    register(Critic, Plain, server=server)
    heard: list[Any] = []

    def hear(changes: Any, **_: Any) -> None:
        heard.extend(change.uri for change in changes)

    start_new_batch(connections["default"])
    rows_changed.connect(hear)
    try:
        person = Person.objects.get(pk=rows["known"].pk)
        person.name = "renamed"
        with django_capture_on_commit_callbacks(execute=True):
            person.save()
    finally:
        rows_changed.disconnect(hear)
    assert f"family://critic/{person.pk}" in heard
