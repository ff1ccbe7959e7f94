"""From a docstring to descriptions."""

import pytest
from docstring_parser import parse
from pydantic import Field

from django_mcp.primitives.function import read_docstring
from tests.primitives.makers import make_prompt, make_resource, make_tool


def google(city: str, nights: int = 1) -> str:
    """Book a stay.

    Ask for the city first.

    Args:
        city: Where to, like
            "Porto".
        nights: How many.

    Returns:
        The booking.
    """
    raise NotImplementedError


def numpy(city: str, nights: int = 1) -> str:
    """Book a stay.

    Ask for the city first.

    Parameters
    ----------
    city : str
        Where to, like
        "Porto".
    nights : int
        How many.

    Returns
    -------
    str
        The booking.
    """
    raise NotImplementedError


def sphinx(city: str, nights: int = 1) -> str:
    """Book a stay.

    Ask for the city first.

    :param city: Where to, like
        "Porto".
    :param nights: How many.
    :returns: The booking.
    """
    raise NotImplementedError


def test_each_style_of_docstring_describes_tool_and_arguments(subtests: pytest.Subtests) -> None:
    for call in [google, numpy, sphinx]:
        with subtests.test(call=call):
            tool = make_tool(call)
            assert tool.definition["description"] == "Book a stay.\n\nAsk for the city first."
            properties = tool.definition["inputSchema"]["properties"]
            assert properties["city"]["description"].split() == ["Where", "to,", "like", '"Porto".']
            assert properties["nights"]["description"] == "How many."


def test_each_style_describes_prompts_and_resources_too(subtests: pytest.Subtests) -> None:
    for call in [google, numpy, sphinx]:
        with subtests.test(call=call):
            prompt = make_prompt(call)
            assert prompt.definition["description"] == "Book a stay.\n\nAsk for the city first."
            assert prompt.definition["arguments"][1]["description"] == "How many."
            assert make_resource(call, "x:{city}{?nights}").definition["description"].startswith("Book a stay.")


def test_a_first_sentence_on_two_lines_stays_one_paragraph() -> None:
    def book(city: str) -> str:
        """Book a stay in a hotel or a guest house of a
        city.

        Args:
            city: Where to.
        """
        raise NotImplementedError

    assert make_tool(book).definition["description"] == "Book a stay in a hotel or a guest house of a\ncity."


def test_a_function_without_docstring_has_no_description() -> None:
    def silent(city: str) -> str: ...

    tool = make_tool(silent)
    assert "description" not in tool.definition
    assert tool.definition["inputSchema"]["properties"] == {"city": {"type": "string"}}


def test_a_description_given_goes_before_the_docstring_whose_arguments_still_count() -> None:
    tool = make_tool(google, description="\n    Shorter.\n\n    And indented.\n    ")
    assert tool.definition["description"] == "Shorter.\n\nAnd indented."
    assert tool.definition["inputSchema"]["properties"]["nights"]["description"] == "How many."


def test_a_description_in_field_goes_before_the_docstring() -> None:
    def book(city: str = Field(description="From Field.")) -> str:
        """Book.

        Args:
            city: From the docstring.
        """
        raise NotImplementedError

    assert make_tool(book).arguments.schema["properties"]["city"]["description"] == "From Field."


def test_a_described_parameter_that_does_not_exist_is_ignored() -> None:
    def book(city: str) -> str:
        """Book.

        Args:
            town: Gone.
        """
        raise NotImplementedError

    assert make_tool(book).arguments.schema["properties"] == {"city": {"type": "string"}}


def test_any_docstring_can_be_read(subtests: pytest.Subtests) -> None:
    def check(text: str) -> None:
        def odd() -> str: ...

        odd.__doc__ = text
        make_tool(odd)

    for text in [
        "One line",
        "A: B",
        "Args:",
        "Use {braces} and `ticks` and 100%.",
        "Ünïcode \N{EM DASH} yes.",
        "    ",
        "x" * 5000,
    ]:
        with subtests.test(text=text):
            check(text)


def test_one_line_is_read_as_the_parser_would_read_it(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        " ",
        "Add two numbers.",
        "Add two numbers. ",
        " Add two numbers.",
        "Add “two” numbers — or more…",
        "Add: two numbers.",
        "Args: a number",
        ":param a: a number",
        "Mail somebody@example.com.",
        "a - b",
        "---",
        "Returns",
        ".. deprecated",
        "Add two numbers.\n\nArgs:\n    a: One.",
        "Add two numbers.\n\nBoth are whole.",
        "\nAdd two numbers.\n",
    ]:
        with subtests.test(text=text):
            docs = parse(text)
            words = (docs.description or "").rstrip("\n")
            assert read_docstring(text) == (words or None, {each.arg_name: each.description for each in docs.params})
