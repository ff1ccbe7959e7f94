"""Columns with names and values that are easily taken for something else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F
from django.test.utils import isolate_apps

from django_mcp import Context, MCPServer, ModelResource, form_tool, from_admin, register, tool
from django_mcp.test import MCPClient
from tests.model_resources.conftest import Reader
from tests.model_resources.family.models import COUNTRIES, Car, Person, Truck
from tests.model_resources.looking import look


class Cars(ModelResource):
    """Cars."""

    fields: Sequence[str] = ("model", "admin", "count", "code", "notes")
    view_permission = add_permission = change_permission = None
    lookup_field = "code"
    title_field = "model"
    search_fields = ("model", "admin")
    ordering = (F("count").desc(),)
    actions = ("create", "update")
    writable_fields: Sequence[str] = ("model", "code", "notes")


class DrivenCars(Cars):
    """Cars with their drivers."""

    fields = (*Cars.fields, "drivers")
    writable_fields = (*Cars.writable_fields, "drivers")


@pytest.fixture
def beetle(db: None) -> Car:
    return Car.objects.create(model="Beetle", code="b1", notes="*old*")


def errors(server: MCPServer, declared: Any) -> list[str]:
    register(Car, declared, server=server)
    return [each.msg for each in server.model_resources[Car].problems or ()]


@pytest.mark.parametrize("base", [Cars, from_admin(admin.ModelAdmin)])
def test_columns_may_have_the_names_of_our_attributes(
    server: MCPServer, reader: Callable[..., Reader], beetle: Car, base: Any
) -> None:
    class Own(base):  # type: ignore[misc]
        fields = ("model", "admin", "count")
        search_fields = ("model", "admin")
        view_permission = None
        actions = ()

    register(Car, Own, server=server)
    (row,) = reader().data("search_cars", query="Beet")["rows"]
    assert (row["model"], row["admin"]) == ("Beetle", "somebody")


def test_a_field_that_a_constraint_makes_unique_identifies_a_row(
    server: MCPServer, reader: Callable[..., Reader], beetle: Car
) -> None:
    @form_tool(server=server, lookup="code", queryset=lambda ctx: Car.objects.all(), permission=None)
    class RenameForm(forms.ModelForm):
        class Meta:
            model = Car
            fields = ("model",)

    assert errors(server, Cars) == []
    assert reader().data("get_car", code="b1")["model"] == "Beetle"
    assert not reader().call("update_rename", code="b1", model="Bug").result.get("isError")


def test_expressions_order_rows_if_they_are_columns(
    server: MCPServer, reader: Callable[..., Reader], beetle: Car
) -> None:
    Car.objects.create(model="Bus", code="b2", count=6)
    assert errors(server, Cars) == []
    assert [row["model"] for row in reader().data("search_cars")["rows"]] == ["Bus", "Beetle"]
    assert [row["model"] for row in reader().data("search_cars", order_by="count")["rows"]] == ["Beetle", "Bus"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"ordering": [F("count") + 1]}, "rows cannot be sorted by the expression"),
        ({"ordering": [F("count").asc(nulls_first=True)]}, "nulls sort last"),
        ({"ordering_fields": [F("count")]}, "ordering_fields has F(count), which is not a name"),
        ({"search_fields": [F("model")]}, "search_fields has F(model), which is not a name"),
        ({"filterset_fields": [Car._meta.pk]}, "which is not a name"),
        ({"fields": ["model", "count", "code", F("admin")]}, "fields has F(admin)"),
        ({"aggregates": {}, "group_by_fields": ["count"]}, "'count' in group_by_fields is also the name"),
    ],
)
def test_what_is_no_name_is_an_error_of_the_declaration(
    server: MCPServer, attributes: dict[str, Any], words: str
) -> None:
    (message,) = errors(server, type("Own", (Cars,), {**attributes, "title_field": None, "actions": ()}))
    assert words in message


def test_what_is_read_can_be_written_back(server: MCPServer, reader: Callable[..., Reader], beetle: Car) -> None:
    register(Car, Cars, server=server)
    client = reader()
    row = client.data("get_car", code="b1")
    assert row["notes"] == "*old*"
    assert client.contents("family://car/b1/notes")["text"] == "*old*"
    assert client.data("update_car", code="b1", notes=row["notes"])["notes"] == "*old*"
    assert client.data("update_car", code="b1", model="Bug")["notes"] == "*old*"


def test_a_default_and_a_value_to_be_changed_are_shown_and_stored_as_they_are_written(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User], beetle: Car
) -> None:
    class NotesForm(forms.ModelForm):
        class Meta:
            model = Car
            fields = ("notes",)

    @tool(server=server)
    def note(ctx: Context) -> str:
        return str(ctx.elicit("Which notes?", NotesForm, form_kwargs={"instance": beetle}).data["notes"])

    form_tool(
        NotesForm, app=True, lookup="code", queryset=lambda ctx: Car.objects.all(), permission=None, server=server
    )
    register(Car, Cars, server=server)
    assert reader().data("create_car", model="Bus", code="b2")["notes"] == "plain"
    assert Car.objects.get(code="b2").notes.raw == "plain"
    client = MCPClient(people["root"], server=server, apps=True)
    assert "*old*</textarea>" in client.call("update_notes_form", code="b1").html

    def answer(question: Any) -> Any:
        return {"notes": question["params"]["requestedSchema"]["properties"]["notes"]["default"]}

    assert client.call("note", answers=answer).text == "*old*"


def test_sets_that_are_stored_with_their_row_are_stored(
    server: MCPServer, reader: Callable[..., Reader], beetle: Car, people: Mapping[str, User]
) -> None:
    @form_tool(server=server, lookup="code", queryset=lambda ctx: Car.objects.all(), permission=None)
    class DriversForm(forms.ModelForm):
        class Meta:
            model = Car
            fields = ("drivers",)

    @register(Person, server=server)
    class People(ModelResource):
        fields = ("name",)
        view_permission = None

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).filter(hidden=False)

    register(Car, DrivenCars, server=server)
    ann, bob, eve = (Person.objects.create(name=name, hidden=name == "Eve") for name in ("Ann", "Bob", "Eve"))
    client = reader()
    made = client.data("create_car", model="Bus", code="b2", drivers=[ann.pk, bob.pk])
    assert len(made["drivers"]) == 2
    bus = Car.objects.get(code="b2")
    Car.drivers.through.objects.create(car=bus, person=eve)
    assert len(client.data("update_car", code="b2", drivers=[bob.pk])["drivers"]) == 1
    assert set(bus.drivers.all()) == {bob, eve}
    assert len(client.data("update_car", code="b2", model="Van")["drivers"]) == 1
    for name in ("update_car", "update_drivers"):
        (change,) = look(server, people["root"], name, code="b2", drivers=[ann.pk])["changes"]
        assert [each["uri"] for each in change["after"]] == [f"family://person/{ann.pk}"]
    client.call("update_drivers", code="b2", drivers=[ann.pk])
    assert set(bus.drivers.all()) == {ann, eve}


class TestWords:
    """What models read about values that are codes."""

    def test_labels_of_codes_are_named_in_filters_rows_and_errors(
        self, server: MCPServer, reader: Callable[..., Reader], db: None
    ) -> None:
        class Trucks(ModelResource):
            fields = ("state", "country")
            view_permission = None
            filterset_fields = ("state", "country")

        register(Truck, Trucks, server=server)
        client = reader()
        (tool,) = (tool for tool in client.list("tools/list") if tool["name"] == "search_trucks")
        assert "w (waiting), o (open)" in tool["inputSchema"]["properties"]["state"]["description"]
        row = tool["outputSchema"]["properties"]["rows"]["items"]["properties"]
        assert row["state"]["description"] == "As shown. Values: w (waiting), o (open)."
        assert "w (waiting), o (open)" in client.problem("search_trucks", state="waiting")
        assert "C047 (Norway)" in client.problem("search_trucks", country="norway")

    def test_an_error_of_a_form_finds_a_choice_by_its_label(
        self, server: MCPServer, reader: Callable[..., Reader], db: None
    ) -> None:
        @form_tool(server=server, handle=lambda ctx, form: "done")
        class WhereForm(forms.Form):
            country = forms.ChoiceField(choices=COUNTRIES)

        assert "C047 (Norway)" in reader().problem("where", country="Norway")

    def test_a_hint_names_a_column_of_the_related_model(self, server: MCPServer, db: None) -> None:
        class Own(Cars):
            fields = ("model", "count", "code", "trucks")
            search_fields = ("model",)
            actions = ()

        (message,) = errors(server, Own)
        assert "'trucks__state'" in message

    def test_what_a_link_shows_may_be_searched(
        self, server: MCPServer, reader: Callable[..., Reader], beetle: Car
    ) -> None:
        class Trucks(ModelResource):
            fields = ("car",)
            view_permission = None
            search_fields = ("car__model",)
            filterset_fields = ("car__code",)

        Truck.objects.create(car=beetle)
        register(Car, Cars, server=server)
        register(Truck, Trucks, server=server)
        assert len(reader().data("search_trucks", query="beetle", car__code="b1")["rows"]) == 1

    def test_a_preview_of_a_form_names_the_rows_that_were_chosen(
        self, server: MCPServer, people: Any, beetle: Car
    ) -> None:
        register(Car, Cars, server=server)

        @form_tool(server=server, handle=lambda ctx, form: "done")
        class PickForm(forms.Form):
            first = forms.ModelChoiceField(Car.objects.all())
            others = forms.ModelMultipleChoiceField(Car.objects.all())

        (first, others) = look(server, people["ann"], "pick", first="b1", others=["b1"])["changes"]
        link = {"uri": "family://car/b1", "title": "Beetle"}
        assert (first["after"], others["after"]) == (link, [link])


def test_columns_of_related_rows_may_have_the_names_of_lookups(server: MCPServer) -> None:
    with isolate_apps("tests.model_resources.family"):

        class Bakery(models.Model):  # noqa: DJ008 - no row is shown
            class Meta:
                app_label = "family"

        class Hours(models.Model):  # noqa: DJ008 - likewise
            bakery = models.ForeignKey(Bakery, models.CASCADE, related_name="hours")
            day = models.CharField(max_length=3)

            class Meta:
                app_label = "family"

    class Bakeries(ModelResource):
        fields = ("hours__day",)
        filterset_fields = ("hours__day",)

    register(Bakery, Bakeries, server=server)
    assert not server.model_resources[Bakery].problems
