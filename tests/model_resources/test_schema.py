"""Columns whose values are easily shown otherwise than their schema says."""

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from django_mcp import MCPServer, ModelResource, register, register_field
from django_mcp.primitives import field_schema
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Sign, Stall, Words, WordsField

pytestmark = pytest.mark.postgresql


@pytest.fixture
def root(server: MCPServer, reader: Callable[..., Reader], people: Any) -> Reader:
    @register(Stall, server=server)
    class Stalls(ModelResource):
        fields = ("name", "opens", "rest", "rent", "area", "sign", "colour")
        filterset_fields = ("area", "area__gte", "sign__icontains", "opens__gte")
        ordering_fields = ("area", "sign")
        aggregates = {"area": ["sum", "avg", "max"], "rent": ["max"]}
        group_by_fields = ("sign",)
        actions = ("create", "update")
        writable_fields = ("name", "opens", "rest", "width", "length", "colour", "rent")

    assert Stalls
    for name, width in [("Harbour", 4), ("Mill", 5)]:
        Stall.objects.create(
            name=name,
            width=width,
            opens=datetime.time(9, 30),
            rest=-datetime.timedelta(hours=8, microseconds=5),
        )
    return reader("root")


def test_results_fit_their_schemas_in_every_reader_of_schemas(root: Reader) -> None:
    tools = {tool["name"]: tool for tool in root.list("tools/list")}
    key = Stall.objects.get(name="Mill").pk
    Stall.objects.create(name="", opens=datetime.time(9, 30), rest=datetime.timedelta())
    for name, arguments in [
        ("search_stalls", {}),
        ("get_stall", {"pk": key}),
        ("aggregate_stalls", {"measures": ["sum_area", "avg_area", "max_rent"], "by": ["sign"]}),
        ("create_stall", {"name": "Quay", "opens": "07:05", "rest": "PT1H"}),
    ]:
        found = root.data(name, **arguments)
        checker = Draft202012Validator(tools[name]["outputSchema"], format_checker=FormatChecker())
        assert not list(checker.iter_errors(found)), found


def test_no_schema_has_a_format_that_is_stricter_than_what_is_sent_or_unknown(root: Reader) -> None:
    def formats(schema: Any) -> Iterator[str]:
        if isinstance(schema, dict):
            if isinstance(schema.get("format"), str):
                yield schema["format"]
            schema = list(schema.values())
        if isinstance(schema, list):
            for each in schema:
                yield from formats(each)

    for tool in root.list("tools/list"):
        assert not {*formats(tool["outputSchema"])} & {"time", "duration", "decimal"}, tool["name"]
        assert not {*formats(tool["inputSchema"])} & {"time", "decimal"}, tool["name"]


def test_a_generated_column_has_the_type_of_its_output_field(root: Reader) -> None:
    rows = root.data("search_stalls", area__gte=15)["rows"]
    assert [(row["area"], row["sign"]) for row in rows] == [(15, "MILL")]
    assert [row["area"] for row in root.data("search_stalls", order_by="-area")["rows"]] == [15, 12]
    assert root.data("search_stalls", sign__icontains="arb")["rows"][0]["name"] == "Harbour"
    assert "'area'" in root.problem("search_stalls", area="abc")
    assert root.data("aggregate_stalls", measures=["sum_area"])["groups"] == [{"sum_area": 27}]


def test_a_generated_column_may_be_null(root: Reader) -> None:
    Stall.objects.bulk_create(
        Stall(name="", opens=datetime.time(9, 30), rest=datetime.timedelta(), length=length) for length in (6, 7, 8)
    )
    for order in ("sign", "-sign"):
        areas, cursor = [], None
        while True:
            page = root.data("search_stalls", order_by=order, limit=1, **({"cursor": cursor} if cursor else {}))
            areas += [row["area"] for row in page["rows"]]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        assert sorted(areas) == [12, 12, 14, 15, 16]


def test_a_row_with_a_generated_column_is_created_and_changed(root: Reader) -> None:
    made = root.data("create_stall", name="Quay", opens="07:05", rest="PT1H", width=7, length=3)
    assert (made["area"], made["sign"]) == (21, "QUAY")
    changed = root.data("update_stall", pk=made["pk"], width=1)
    assert changed["area"] == 3


def test_a_decimal_column_is_shown_as_a_number_in_text_whatever_it_is_in_python(root: Reader) -> None:
    assert {row["rent"] for row in root.data("search_stalls")["rows"]} == {"1000.00"}
    assert root.data("aggregate_stalls", measures=["max_rent"])["groups"] == [{"max_rent": "1000.00"}]


def test_a_column_with_a_default_of_the_database_may_be_left_out(root: Reader) -> None:
    (tool,) = (each for each in root.list("tools/list") if each["name"] == "create_stall")
    assert set(tool["inputSchema"]["required"]) == {"name", "opens", "rest"}
    made = root.data("create_stall", name="Quay", opens="07:05", rest="PT1H")
    assert (made["colour"], made["rent"]) == ("red", "1000.00")
    given = root.data("create_stall", name="Pier", opens="07:05", rest="PT1H", colour="blue", rent="12.50")
    assert (given["colour"], given["rent"]) == ("blue", "12.50")
    assert root.data("update_stall", pk=given["pk"], name="Jetty")["colour"] == "blue"


class TestAValueOfAPackagesClass:
    """It reads alike wherever it goes out."""

    @pytest.fixture
    def sign(self, db: None) -> Sign:
        return Sign.objects.create(name=Words({"de": "Beide", "en": "Both"}))

    @pytest.fixture
    def signs(self) -> type[ModelResource]:
        class Signs(ModelResource):
            fields = ("name",)
            title_field = "name"
            view_permission = None
            aggregates: Mapping[str, Any] = {"name": ["min", "max"]}
            group_by_fields = ("name",)

        return Signs

    def everywhere(self, client: Reader, sign: Sign) -> set[Any]:
        row = client.data("get_sign", pk=sign.pk)
        (listed,) = client.data("search_signs")["rows"]
        (group,) = client.data("aggregate_signs", by=["name"], measures=["min_name", "max_name"])["groups"]
        (link,) = client.request("resources/list", {}).result["resources"][-1:]
        return {row["name"], listed["name"], *group.values(), link.get("title")}

    def test_as_it_is_written(
        self, server: MCPServer, reader: Callable[..., Reader], sign: Sign, signs: type[ModelResource]
    ) -> None:
        register(Sign, signs, server=server)
        assert self.everywhere(reader(), sign) == {'{"de": "Beide", "en": "Both"}'}

    def test_as_the_site_says(
        self,
        server: MCPServer,
        reader: Callable[..., Reader],
        sign: Sign,
        signs: type[ModelResource],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(field_schema, "_TYPES", dict(field_schema._TYPES))
        register_field(WordsField, schema={"type": "string"}, to_json=lambda words: words.data["de"])
        register(Sign, signs, server=server)
        assert self.everywhere(reader(), sign) == {"Beide"}
