"""Resources and templates."""

import base64
import datetime
import json
from itertools import product
from typing import Any

import mcp_types
import pytest
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ConfigDict, Field

from django_mcp import Annotations, Context, Icon, ResourceContents
from django_mcp.primitives.resource import Resource
from tests.primitives.makers import make_resource


class City(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str
    day: datetime.date = Field(default=datetime.date(2026, 5, 1), alias="theDay")


def about(city: str) -> str:
    """About a city."""
    return city


def plain() -> str:
    return "plain"


def contents(resource: Resource, value: Any) -> list[dict[str, Any]]:
    wire = resource.contents("x:asked", value)
    mcp_types.ReadResourceResult.model_validate({"contents": wire})
    return wire


def test_a_resource_is_listed_with_its_uri() -> None:
    resource = make_resource(plain, "x:plain")
    assert not resource.is_template
    assert resource.definition == {"name": "plain", "uri": "x:plain"}
    mcp_types.Resource.model_validate(resource.definition)


def test_a_template_is_listed_with_its_template() -> None:
    resource = make_resource(about, "x:{city}")
    assert resource.is_template
    assert resource.definition == {"name": "about", "uriTemplate": "x:{city}", "description": "About a city."}
    mcp_types.ResourceTemplate.model_validate(resource.definition)


def test_everything_said_of_a_resource_is_listed() -> None:
    resource = make_resource(
        plain,
        "x:plain",
        name="a name of any kind, even with spaces",
        title="Plain",
        description="Words.",
        mime_type="text/csv",
        size=0,
        annotations=Annotations(priority=1.0),
        icons=[Icon("https://example.com/a.png")],
        meta={"example.com/a": 1},
    )
    assert resource.definition == {
        "name": "a name of any kind, even with spaces",
        "title": "Plain",
        "description": "Words.",
        "icons": [{"src": "https://example.com/a.png"}],
        "_meta": {"example.com/a": 1},
        "uri": "x:plain",
        "mimeType": "text/csv",
        "size": 0,
        "annotations": {"priority": 1.0},
    }
    mcp_types.Resource.model_validate(resource.definition)


def two(city: str, month: int = 1) -> str: ...


def test_variables_and_parameters_must_be_the_same_and_both_are_shown(subtests: pytest.Subtests) -> None:
    for call, uri in [
        (plain, "x:{city}"),
        (about, "x:plain"),
        (about, "x:{town}"),
        (about, "x:{city}/{month}"),
        (two, "x:{city}"),
        (two, "x:{city}{?year}"),
    ]:
        with subtests.test(call=call, uri=uri):
            with pytest.raises(ImproperlyConfigured, match="must match the parameters") as caught:
                make_resource(call, uri)
            assert call.__name__ in str(caught.value)
            assert repr(uri) in str(caught.value)


def test_a_template_that_cannot_be_read_is_refused_by_function(subtests: pytest.Subtests) -> None:
    for uri in ["cities/{city}", "x:{city*}", "x:{city", "x:{city}/{city}"]:
        with subtests.test(uri=uri), pytest.raises(ImproperlyConfigured, match="resource 'about'"):
            make_resource(about, uri)


def test_a_variable_that_may_be_absent_needs_a_default() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"Give parameter 'city' a default"):
        make_resource(about, "x:cities{?city}")


def test_a_variable_that_is_absent_has_its_default(subtests: pytest.Subtests) -> None:
    def check(default: Any) -> None:
        def search(city: str | None = default) -> str: ...

        resource = make_resource(search, "x:cities{?city}")
        assert resource.match("x:cities") == {"city": default}
        assert resource.match("x:cities?city=Ghent") == {"city": "Ghent"}

    for default in [None, "Porto"]:
        with subtests.test(default=default):
            check(default)


def test_a_default_in_field_is_a_default() -> None:
    def search(limit: int = Field(default=5, ge=1)) -> str: ...

    resource = make_resource(search, "x:cities{?limit}")
    assert resource.match("x:cities") == {"limit": 5}
    assert resource.match("x:cities?limit=7") == {"limit": 7}
    assert resource.match("x:cities?limit=0") is None


def test_variables_are_converted_by_the_annotations() -> None:
    def events(year: int, day: datetime.date) -> str: ...

    resource = make_resource(events, "x:{year}/{day}")
    assert resource.match("x:2026/2026-05-01") == {"year": 2026, "day": datetime.date(2026, 5, 1)}


def test_a_uri_whose_values_do_not_convert_is_no_uri_of_this_template(subtests: pytest.Subtests) -> None:
    def check(uri: str) -> None:
        def events(year: int, day: datetime.date) -> str: ...

        assert make_resource(events, "x:{year}/{day}").match(uri) is None

    for uri in ["x:soon/2026-05-01", "x:2026/may", "x:2026", "x:2026/2026-05-01/a", "y:2026/2026-05-01"]:
        with subtests.test(uri=uri):
            check(uri)


def test_the_context_is_no_variable() -> None:
    def where(ctx: Context, city: str) -> str: ...

    resource = make_resource(where, "x:{city}")
    assert resource.match("x:Porto") == {"city": "Porto"}
    assert resource.function.context == "ctx"


def test_a_text_is_text(subtests: pytest.Subtests) -> None:
    for mime_type in [None, "text/csv"]:
        with subtests.test(mime_type=mime_type):
            resource = make_resource(plain, "x:plain", mime_type=mime_type)
            assert contents(resource, "words") == [
                {"uri": "x:asked", "mimeType": mime_type or "text/plain", "text": "words"}
            ]


def test_bytes_are_a_blob(subtests: pytest.Subtests) -> None:
    for kind, mime_type in product([bytes, bytearray, memoryview], [None, "image/png"]):
        with subtests.test(kind=kind, mime_type=mime_type):
            resource = make_resource(plain, "x:plain", mime_type=mime_type)
            (wire,) = contents(resource, kind(b"\x89\x00"))
            assert wire["mimeType"] == (mime_type or "application/octet-stream")
            assert base64.b64decode(wire["blob"]) == b"\x89\x00"


def test_anything_else_is_json(subtests: pytest.Subtests) -> None:
    for value, expected in [
        (City(name="Porto"), {"name": "Porto", "theDay": "2026-05-01"}),
        ({"a": datetime.date(2026, 5, 1)}, {"a": "2026-05-01"}),
        ([City(name="Porto")], [{"name": "Porto", "theDay": "2026-05-01"}]),
        ([], []),
        (["a"], ["a"]),
        (3, 3),
        (None, None),
        ({"a": float("inf")}, {"a": None}),
    ]:
        with subtests.test(value=value, expected=expected):
            (wire,) = contents(make_resource(plain, "x:plain"), value)
            assert wire["mimeType"] == "application/json"
            assert json.loads(wire["text"]) == expected


def test_contents_are_filled_in_with_what_was_asked_for() -> None:
    resource = make_resource(plain, "x:plain", mime_type="text/csv")
    assert contents(resource, ResourceContents("a")) == [{"uri": "x:asked", "mimeType": "text/csv", "text": "a"}]


def test_a_list_of_contents_is_several_contents() -> None:
    wire = contents(
        make_resource(plain, "x:plain"),
        [ResourceContents("a", uri="x:a"), ResourceContents(b"b", uri="x:b", mime_type="image/png")],
    )
    assert [(each["uri"], each.get("mimeType")) for each in wire] == [("x:a", None), ("x:b", "image/png")]


def test_a_list_that_begins_with_contents_may_go_on_with_text() -> None:
    wire = contents(make_resource(plain, "x:plain"), [ResourceContents("a", uri="x:a"), "b"])
    assert [each["text"] for each in wire] == ["a", "b"]


def test_a_value_without_json_form_is_not_sent() -> None:
    with pytest.raises(ValueError, match="serialize"):
        make_resource(plain, "x:plain").contents("x:plain", object())
