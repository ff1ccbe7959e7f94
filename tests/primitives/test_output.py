"""What a tool gives back, judged by its own output schema and by the models of ``mcp_types``."""

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Annotated, Any, Literal, NotRequired, Optional

import mcp_types
import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, computed_field
from typing_extensions import TypedDict

from django_mcp import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    MCPServer,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResult,
    prompt,
)
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.jsonrpc import encode
from tests.primitives.makers import giving

NOTHING = object()
RETURNED_NOTHING = [{"type": "text", "text": "The tool returned nothing."}]


class City(BaseModel):
    name: str
    founded: datetime.date | None = None


class Priced(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    amount: Decimal = Field(alias="theAmount")

    @computed_field
    def rounded(self) -> int:
        return round(self.amount)


class Part(BaseModel):
    name: str
    parts: list["Part"] = []


class Numbers(RootModel[list[int]]): ...


@dataclasses.dataclass
class Point:
    x: float
    city: City | None = None


class Row(TypedDict):
    day: datetime.date
    note: NotRequired[str]


class GroupRow(TypedDict):
    name: str


class Board(enum.Enum):
    NONE = "none"
    HALF = "half"


DAY = datetime.date(2026, 5, 1)
PORTO = City(name="Porto", founded=DAY)
PORTO_WIRE = {"name": "Porto", "founded": "2026-05-01"}
UUID = uuid.UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2")

# Return annotation, value, structured content.
STRUCTURED: dict[str, tuple[Any, Any, Any]] = {
    "model": (City, PORTO, PORTO_WIRE),
    "model from a dict": (City, {"name": "Porto"}, {"name": "Porto", "founded": None}),
    "model with alias and computed field": (Priced, Priced(amount=Decimal("2.5")), {"theAmount": "2.5", "rounded": 2}),
    "model of itself": (Part, Part(name="a", parts=[Part(name="b")]), None),
    "annotated model": (Annotated[City, "for people"], PORTO, PORTO_WIRE),
    "dataclass": (Point, Point(1.5, PORTO), {"x": 1.5, "city": PORTO_WIRE}),
    "typed dict": (Row, {"day": DAY}, {"day": "2026-05-01"}),
    "dict": (dict, {"a": [DAY]}, {"a": ["2026-05-01"]}),
    "dict of ints": (dict[str, int], {"a": 1}, {"a": 1}),
    "mapping": (Mapping[str, Decimal], {"a": Decimal("1.10")}, {"a": "1.10"}),
    "dict of models": (dict[str, City], {"a": PORTO}, {"a": PORTO_WIRE}),
    "result of a model": (ToolResult[City], ToolResult(PORTO), PORTO_WIRE),
    "a model where a result of it was promised": (ToolResult[City], PORTO, PORTO_WIRE),
    "a result of a model where the model was promised": (City, ToolResult(PORTO), PORTO_WIRE),
}

# Annotation, value, structured content that is no object.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "int": (int, 3, 3),
    "zero": (int, 0, 0),
    "bool": (bool, False, False),
    "float": (float, 1.5, 1.5),
    "decimal": (Decimal, Decimal("1.10"), "1.10"),
    "date": (datetime.date, DAY, "2026-05-01"),
    "datetime": (datetime.datetime, datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC), "2026-05-01T00:00:00Z"),
    "duration": (datetime.timedelta, datetime.timedelta(minutes=90), "PT1H30M"),
    "uuid": (uuid.UUID, UUID, str(UUID)),
    "enum": (Board, Board.HALF, "half"),
    "literal": (Literal["a", "b"], "b", "b"),
    "list of ints": (list[int], [1, 2], [1, 2]),
    "empty list": (list[int], [], []),
    "list of texts": (list[str], ["a"], ["a"]),
    "list of models": (list[City], [PORTO], [PORTO_WIRE]),
    "list of rows": (list[Row], [{"day": DAY, "note": "x"}], [{"day": "2026-05-01", "note": "x"}]),
    "sequence": (Sequence[int], (1, 2), [1, 2]),
    "tuple": (tuple[int, str], (1, "a"), [1, "a"]),
    "set": (set[int], {1}, [1]),
    "root model": (Numbers, Numbers([1]), [1]),
    "result of an int": (ToolResult[int], ToolResult(3), 3),
    "result of a text": (ToolResult[str], ToolResult("a"), "a"),
    "result of a list": (ToolResult[list[City]], ToolResult([PORTO]), [PORTO_WIRE]),
}

# The same for unions: the structured content is {"result": …} of the last.
UNIONS: dict[str, tuple[Any, Any, Any]] = {
    "optional int": (Optional[int], None, None),  # noqa: UP045 - people write it
    "optional text": (str | None, "a", "a"),
    "optional model": (City | None, PORTO, PORTO_WIRE),
    "no model": (City | None, None, None),
    "either": (int | str, "a", "a"),
    "objects": (dict[str, int] | City, PORTO, PORTO_WIRE),
}


def shown(tool: Tool, value: Any) -> dict[str, Any]:
    """The result as a client reads it, after it has been judged."""
    wire = json.loads(encode(tool.output.fields(value)))
    mcp_types.CallToolResult.model_validate(wire)
    if "outputSchema" in tool.definition:
        checker = Draft202012Validator.FORMAT_CHECKER
        Draft202012Validator(tool.definition["outputSchema"], format_checker=checker).validate(
            wire["structuredContent"]
        )
    return wire


def only_text(wire: dict[str, Any]) -> str:
    (block,) = wire["content"]
    assert block["type"] == "text"
    return block["text"]


def test_a_class_with_fields_is_structured_content_as_it_is(subtests: pytest.Subtests) -> None:
    for kind, (returns, value, expected) in STRUCTURED.items():
        with subtests.test(kind):
            wire = shown(giving(returns), value)
            assert "result" not in wire["structuredContent"]
            if expected is not None:
                assert wire["structuredContent"] == expected
            assert json.loads(only_text(wire)) == wire["structuredContent"]


def test_an_array_or_a_scalar_is_structured_content_as_it_is(subtests: pytest.Subtests) -> None:
    for kind, (returns, value, expected) in VALUES.items():
        with subtests.test(kind):
            tool = giving(returns)
            wire = shown(tool, value)
            assert wire["structuredContent"] == expected
            assert tool.definition["outputSchema"]["type"] != "object"
            assert only_text(wire) == expected or json.loads(only_text(wire)) == expected


def test_a_union_is_wrapped_for_all_clients_and_its_text_is_not(subtests: pytest.Subtests) -> None:
    for kind, (returns, value, expected) in UNIONS.items():
        with subtests.test(kind):
            tool = giving(returns)
            wire = shown(tool, value)
            assert wire["structuredContent"] == {"result": expected}
            assert tool.definition["outputSchema"]["type"] == "object"
            assert set(wire) == {"content", "structuredContent"}
            assert only_text(wire) == expected or json.loads(only_text(wire)) == expected


def test_a_value_that_breaks_the_promise_of_the_annotation_is_not_sent(subtests: pytest.Subtests) -> None:
    for returns, value in [
        (int, "many"),
        (int, None),
        (City, {"nome": "Porto"}),
        (City, None),
        (list[City], [PORTO, {}]),
        (dict[str, int], {"a": "b"}),
        (ToolResult[City], ToolResult({"nome": "Porto"})),
        (Row, {}),
        (Literal["a"], "b"),
    ]:
        with subtests.test(returns=returns, value=value), pytest.raises(ValidationError):
            giving(returns).output.fields(value)


NAN = float("nan")
INFINITY = float("inf")


def test_a_number_json_does_not_have_is_not_sent_as_something_else(subtests: pytest.Subtests) -> None:
    for returns, value in [
        (float, NAN),
        (float, -INFINITY),
        (list[float], [1.0, INFINITY]),
        (dict[str, float], {"a": NAN}),
        (Point, Point(NAN)),
        (ToolResult[float], ToolResult(NAN)),
        (ToolResult[float], ToolResult(NAN, text="not a number")),
        (ToolResult[dict[str, float]], ToolResult({"a": INFINITY}, text="endless")),
        (ToolResult, ToolResult({"a": NAN}, text="not a number")),
        (Any, NAN),
        (Any, {"a": [INFINITY]}),
        (list[TextContent | float], [TextContent("a"), NAN]),
    ]:
        with (
            subtests.test(returns=returns, value=value),
            pytest.raises(ValueError),  # noqa: PT011 - whose words nobody but the log sees
        ):
            giving(returns).output.fields(value)


def test_the_words_for_such_numbers_are_words_like_others() -> None:
    assert shown(giving(list[str]), ["NaN", "Infinity"])["structuredContent"] == ["NaN", "Infinity"]


@pytest.mark.django_db
def test_a_queryset_is_the_list_of_its_rows(subtests: pytest.Subtests) -> None:
    Group.objects.bulk_create([Group(name="agents"), Group(name="guests")])
    for returns in [list[dict[str, str]], list[GroupRow], Any]:
        with subtests.test(returns=returns):
            wire = shown(giving(returns), Group.objects.order_by("name").values("name"))
            assert json.loads(only_text(wire)) == [{"name": "agents"}, {"name": "guests"}]


class Unschemable: ...


def test_a_return_type_without_schema_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for returns in [Unschemable, list[Unschemable], ToolResult[Unschemable], Unschemable | None]:
        with subtests.test(returns=returns), pytest.raises(ImproperlyConfigured, match=r"(?s)tool 'give'.*Unschemable"):
            giving(returns)


def test_an_iterator_as_return_type_is_refused_for_it_has_no_schema() -> None:
    with pytest.raises(ImproperlyConfigured, match="tool 'give'"):
        giving(Iterator[Unschemable])


IMAGE = ImageContent(b"\x89PNG", "image/png")
BLOCKS = [
    TextContent("words"),
    IMAGE,
    AudioContent(b"RIFF", "audio/wav"),
    ResourceLink("x:y", "y"),
    EmbeddedResource(ResourceContents("words", uri="x:y")),
]


def test_a_block_is_content_and_nothing_more(subtests: pytest.Subtests) -> None:
    for block, annotated in product(BLOCKS, [True, False]):
        with subtests.test(block=block, annotated=annotated):
            tool = giving(type(block) if annotated else Any)
            assert "outputSchema" not in tool.definition
            assert shown(tool, block) == {"content": [block.to_wire()]}


def test_a_list_of_blocks_has_no_schema(subtests: pytest.Subtests) -> None:
    for returns in [
        list[TextContent],
        list[TextContent | ImageContent],
        list[TextContent | str],
        tuple[TextContent, ...],
        Sequence[ImageContent],
    ]:
        with subtests.test(returns=returns):
            assert "outputSchema" not in giving(returns).definition


def test_a_list_of_blocks_and_texts_is_content_in_that_order() -> None:
    wire = shown(giving(list[ImageContent | str]), ["before", IMAGE, "after"])
    assert [block["type"] for block in wire["content"]] == ["text", "image", "text"]
    assert [block.get("text") for block in wire["content"]] == ["before", None, "after"]


def test_blocks_and_data_in_one_list_are_told_apart() -> None:
    wire = shown(giving(Any), [IMAGE, {"a": DAY}, 3])
    assert wire["content"] == [
        IMAGE.to_wire(),
        {"type": "text", "text": '{"a":"2026-05-01"}'},
        {"type": "text", "text": "3"},
    ]


def test_a_block_or_nothing_is_content(subtests: pytest.Subtests) -> None:
    for returns in [TextContent | None, Optional[ImageContent], list[TextContent] | None]:  # noqa: UP045
        with subtests.test(returns=returns):
            tool = giving(returns)
            assert "outputSchema" not in tool.definition
            assert shown(tool, None) == {"content": RETURNED_NOTHING}


def test_a_text_is_the_text(subtests: pytest.Subtests) -> None:
    for returns, text in product([str, Any, None, object, ToolResult], ["words", " x", "é\n\N{GRINNING FACE}"]):
        with subtests.test(returns=returns, text=text):
            tool = giving(returns)
            assert "outputSchema" not in tool.definition
            assert shown(tool, text) == {"content": [{"type": "text", "text": text}]}


def test_none_is_said_in_words(subtests: pytest.Subtests) -> None:
    for returns in [None, type(None), Any, str]:
        with subtests.test(returns=returns):
            assert shown(giving(returns), None) == {"content": RETURNED_NOTHING}


def test_a_value_nobody_annotated_is_its_json_as_text(subtests: pytest.Subtests) -> None:
    def check(value: Any, text: str) -> None:
        def unannotated(): ...

        tool = Tool(unannotated, context_type=type("Nothing", (), {}))
        wire = shown(tool, value)
        assert wire["content"] == [{"type": "text", "text": text}]
        assert ("structuredContent" in wire) == isinstance(value, dict | list)

    for value, text in [
        (3, "3"),
        (True, "true"),
        (Decimal("1.10"), '"1.10"'),
        (DAY, '"2026-05-01"'),
        ([1, "a"], '[1,"a"]'),
        ([], "[]"),
        (PORTO, '{"name":"Porto","founded":"2026-05-01"}'),
        (Point(1.0), '{"x":1.0,"city":null}'),
    ]:
        with subtests.test(value=value, text=text):
            check(value, text)


def test_a_dict_nobody_annotated_is_structured_content_without_schema() -> None:
    tool = giving(Any)
    assert "outputSchema" not in tool.definition
    wire = shown(tool, {"a": DAY})
    assert wire["structuredContent"] == {"a": "2026-05-01"}
    assert json.loads(only_text(wire)) == {"a": "2026-05-01"}


# ToolResult


def test_a_result_has_words_of_its_own_for_its_data() -> None:
    wire = shown(giving(ToolResult[City]), ToolResult(PORTO, text="Porto, founded in May."))
    assert only_text(wire) == "Porto, founded in May."
    assert wire["structuredContent"] == PORTO_WIRE


def test_further_blocks_of_a_result_come_after_its_text() -> None:
    wire = shown(giving(ToolResult[City]), ToolResult(PORTO, text="Porto.", content=[IMAGE]))
    assert [block["type"] for block in wire["content"]] == ["text", "image"]


def test_a_result_may_be_blocks_alone() -> None:
    assert shown(giving(ToolResult), ToolResult(content=[IMAGE])) == {"content": [IMAGE.to_wire()]}


def test_a_result_may_be_a_text_alone() -> None:
    assert shown(giving(ToolResult), ToolResult(text="done")) == {"content": [{"type": "text", "text": "done"}]}


def test_the_meta_of_a_result_is_sent(subtests: pytest.Subtests) -> None:
    for returns in [ToolResult, ToolResult[City], City, Any]:
        with subtests.test(returns=returns):
            assert shown(giving(returns), ToolResult(PORTO, meta={"example.com/a": 1}))["_meta"] == {"example.com/a": 1}


def test_an_empty_text_of_a_result_is_its_json() -> None:
    assert only_text(shown(giving(ToolResult[int]), ToolResult(3, text=""))) == "3"


def test_a_result_of_data_with_blocks_still_says_the_data_in_words() -> None:
    """Some clients show a model the content only."""
    wire = shown(giving(ToolResult[City]), ToolResult(PORTO, content=[IMAGE]))
    assert any(block["type"] == "text" and "Porto" in block["text"] for block in wire["content"])


def test_a_result_without_type_sends_an_object_or_array_as_structured_content(subtests: pytest.Subtests) -> None:
    for value in ({"a": 1}, [1]):
        with subtests.test(value=value):
            wire = shown(giving(ToolResult), ToolResult(value, text="one"))
            assert wire == {"content": [{"type": "text", "text": "one"}], "structuredContent": value}


def test_a_model_never_reads_an_empty_block(subtests: pytest.Subtests) -> None:
    """Providers refuse a request with one, and with it the whole conversation."""
    for value in ["", " \n", None, [], ToolResult(text=""), [TextContent("")], gettext_lazy("")]:
        with subtests.test(value=value):
            assert shown(giving(Any), value)["content"] in (RETURNED_NOTHING, [{"type": "text", "text": "[]"}])
    blocks = [TextContent(""), TextContent("words"), TextContent(" ")]
    assert shown(giving(Any), blocks)["content"] == [{"type": "text", "text": "words"}]
    assert shown(giving(ToolResult[dict[str, int]]), ToolResult({"a": 1}, text=""))["content"] == [
        {"type": "text", "text": '{"a":1}'}
    ]


def test_a_prompt_that_is_empty_says_so() -> None:
    server = MCPServer("empty-prompts", path="empty-prompts/")
    prompt(name="quiet", server=server)(lambda: "")
    message = server.prompts["quiet"].fields("")["messages"][0]
    assert message["content"]["text"] == "The prompt is empty."
