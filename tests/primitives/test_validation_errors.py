"""What a careless caller is told: a sentence from which the call can be repaired."""

import datetime
import time
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic_core import SchemaValidator

from django_mcp.primitives.schema import ArgumentError
from tests.primitives.makers import make_tool, taking


class Guest(BaseModel):
    name: str
    age: int


def book(
    city: str,
    arrival: datetime.date,
    nights: Annotated[int, Field(ge=1, le=30)] = 1,
    board: Literal["none", "half", "full"] = "none",
    guests: list[Guest] = [],  # noqa: B006
    note: Annotated[str, Field(max_length=20)] = "",
) -> None: ...


def problems(**changes: Any) -> list[str]:
    """What is wrong with a good call after *changes*; a change to ``...`` takes an argument away."""
    arguments: dict[str, Any] = {"city": "Porto", "arrival": "2026-05-01", **changes}
    with pytest.raises(ArgumentError) as caught:
        make_tool(book).arguments.validate({key: value for key, value in arguments.items() if value is not ...})
    assert str(caught.value) == " ".join(caught.value.problems)
    return list(caught.value.problems)


def test_a_mistake_is_one_sentence_with_the_argument_and_what_was_sent(subtests: pytest.Subtests) -> None:
    for changes, sentence in [
        ({"city": ...}, "Missing argument 'city'."),
        ({"guests": [{"name": "Ann"}]}, "Missing argument 'guests[0].age'."),
        ({"city": 5}, "Argument 'city' must be a string, not 5; write \"5\"."),
        ({"city": None}, "Argument 'city' must be a string, not null."),
        ({"nights": None}, "Argument 'nights' must be an integer, not null; omit it instead."),
        ({"nights": 0}, "Argument 'nights' must be at least 1, not 0."),
        ({"nights": 31}, "Argument 'nights' must be at most 30, not 31."),
        ({"board": "all"}, "Argument 'board' must be 'none', 'half' or 'full', not 'all'."),
    ]:
        with subtests.test(changes=changes, sentence=sentence):
            assert problems(**changes) == [sentence]


def test_null_and_truth_values_among_the_choices_are_named_as_json_has_them() -> None:
    def pick(value: Literal["None", "it's True", 3, True, None]) -> None: ...  # noqa: PYI061

    with pytest.raises(ArgumentError) as caught:
        make_tool(pick).arguments.validate({"value": "x"})
    (problem,) = caught.value.problems
    assert problem == "Argument 'value' must be 'None', \"it's True\", 3, true or null, not 'x'."


def test_a_mistake_names_the_argument_the_rule_and_the_value(subtests: pytest.Subtests) -> None:
    for changes, words in [
        ({"nights": "many"}, ["'nights'", "integer", "'many'"]),
        ({"nights": 1.5}, ["'nights'", "integer", "1.5"]),
        ({"nights": [1]}, ["'nights'", "integer", "[1]"]),
        ({"arrival": "2026-02-30"}, ["'arrival'", "date", "'2026-02-30'"]),
        ({"arrival": "soon"}, ["'arrival'", "date", "'soon'"]),
        ({"guests": {"name": "Ann"}}, ["'guests'", "array"]),
        ({"guests": [{"name": "Ann", "age": "x"}]}, ["'guests[0].age'", "integer", "'x'"]),
        ({"note": "a" * 21}, ["'note'", "at most 20 characters"]),
    ]:
        with subtests.test(changes=changes, words=words):
            (sentence,) = problems(**changes)
            assert [word for word in words if word not in sentence] == []


def test_a_misspelt_argument_is_answered_with_the_one_that_was_meant(subtests: pytest.Subtests) -> None:
    for wrong, meant in [
        ("nigths", "nights"),
        ("citty", "city"),
        ("boards", "board"),
        ("arrival_", "arrival"),
        ("Nights", "nights"),
    ]:
        with subtests.test(wrong=wrong, meant=meant):
            (sentence,) = problems(**{wrong: 1})
            assert sentence.startswith(
                f"Unknown argument {wrong!r}. Did you mean {meant!r}? It takes 'city', 'arrival'"
            )


def test_an_argument_like_no_other_is_answered_with_all_there_are() -> None:
    (sentence,) = problems(zzz=1)
    assert sentence == "Unknown argument 'zzz'. It takes 'city', 'arrival', 'nights', 'board', 'guests', 'note'."


def test_an_argument_to_a_tool_that_takes_none_is_answered_with_that() -> None:
    def now() -> None: ...

    with pytest.raises(ArgumentError, match=r"^Unknown argument 'zone'\. It takes no arguments\.$"):
        make_tool(now).arguments.validate({"zone": "UTC"})


def test_every_mistake_is_told_at_once() -> None:
    assert len(problems(city=..., nights=0, board="x", more=1)) == 4


def test_a_thousand_mistakes_are_not_all_told() -> None:
    assert len(problems(**{f"a{number}": 1 for number in range(1000)})) == 20


def tag(
    tags: list[str] = [],  # noqa: B006
    counts: dict[str, int] = {},  # noqa: B006
    moments: list[datetime.datetime] = [],  # noqa: B006
    lines: list[list[int]] = [],  # noqa: B006
) -> None: ...


def counted(tags: list[str], numbers: list[int], counts: dict[str, int]) -> None: ...


def test_a_million_wrong_values_are_refused_quickly(subtests: pytest.Subtests) -> None:
    """They are checked where other calls wait: a list of 1.3 million took 18 s."""
    many: list[tuple[Any, dict[str, Any], str]] = [
        (tag, {"tags": [1] * 260_000}, "'tags[0]' must be a string"),
        (counted, {"tags": [1] * 260_000, "numbers": [], "counts": {}}, "'tags[0]' must be a string"),
        (counted, {"tags": [], "numbers": ["5"] * 260_000, "counts": {}}, "'numbers[0]' must be an integer"),
        (tag, {"tags": ["x"] * 100_000 + [1] * 100_000}, "'tags[100000]' must be a string"),
        (tag, {"moments": [1] * 200_000}, "'moments[0]' must be"),
        (tag, {"lines": [["x"] * 1000 for _ in range(200)]}, "'lines[0][0]' must be an integer"),
        (tag, {f"a{number}": 1 for number in range(20_000)}, "Unknown argument 'a0'"),
        (tag, {"counts": dict.fromkeys(map(str, range(60_000)), "x")}, "'counts.0' must be an integer"),
        (tag, {"counts": {**dict.fromkeys(map(str, range(20_000)), 1), **dict.fromkeys("abc" * 9, "x")}}, "'counts.a'"),
    ]
    for function, arguments, says in many:
        with subtests.test(says=says, function=function.__name__):
            made = make_tool(function).arguments
            began = time.process_time()
            with pytest.raises(ArgumentError) as caught:
                made.validate(arguments)
            assert time.process_time() - began < 0.8
            assert says in caught.value.problems[0]
            assert len(caught.value.problems) <= 20


class Box(BaseModel):
    numbers: list[int]


@dataclass
class Crate:
    boxes: list[Box]


def test_a_long_list_within_a_model_is_read_to_its_first_mistake_too(subtests: pytest.Subtests) -> None:
    """700,000 mistakes took 320 MB, because models have validators of their own."""
    if "_use_prebuilt" not in signature(SchemaValidator).parameters:
        pytest.skip("pydantic before 2.13 validates models with their own validators")
    numbers = [1] * 1500 + ["x"] * 5
    for annotation, value, path in [
        (Box, {"numbers": numbers}, "value.numbers[1500]"),
        (Box | None, {"numbers": numbers}, "value.numbers[1500]"),
        (Crate, {"boxes": [{"numbers": numbers}]}, "value.boxes[0].numbers[1500]"),
    ]:
        with subtests.test(annotation=annotation):
            with pytest.raises(ArgumentError) as caught:
                taking(annotation).arguments.validate({"value": value})
            assert caught.value.problems == [f"Argument {path!r} must be an integer, not 'x'."]


def test_nothing_is_said_to_be_missing_from_a_large_object_that_has_it() -> None:
    def keep(guest: dict[str, dict[str, int]], last: str) -> None: ...

    guest = {str(number): {"x": number} for number in range(50_000)}
    with pytest.raises(ArgumentError) as caught:
        make_tool(keep).arguments.validate({"guest": {**guest, "bad": {"x": "no"}}, "last": "x"})
    assert caught.value.problems == ["Argument 'guest.bad.x' must be an integer, not 'no'."]
    assert make_tool(keep).arguments.validate({"guest": guest, "last": "x"})["guest"] == guest


def test_a_long_value_is_not_repeated_in_full(subtests: pytest.Subtests) -> None:
    for value in ["x" * 100_000, ["x"] * 10_000, {"a": "b" * 5000}]:
        with subtests.test(value=value):
            (sentence,) = problems(nights=value)
            assert len(sentence) < 250
            assert "…" in sentence


def test_a_long_name_is_not_repeated_in_full() -> None:
    (sentence,) = problems(**{"x" * 100_000: 1})
    assert len(sentence) < 300


def test_a_long_name_within_a_model_is_not_repeated_in_full() -> None:
    def count(numbers: dict[str, int]) -> None: ...

    with pytest.raises(ArgumentError) as caught:
        make_tool(count).arguments.validate({"numbers": {"x" * 100_000: "no"}})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("kind", [datetime.timedelta, datetime.datetime, datetime.time, datetime.date])
def test_a_number_is_no_time_also_where_null_or_text_would_do(kind: type) -> None:
    for annotation in (kind, kind | None, kind | str, list[kind] | kind | None):

        def wait(how_long: Any) -> None: ...

        wait.__annotations__["how_long"] = annotation
        arguments = make_tool(wait).arguments
        for value in (30, 1.5, True):
            with pytest.raises(ArgumentError, match=r"Argument 'how_long' must be .*a (duration|date|time)"):
                arguments.validate({"how_long": value})
