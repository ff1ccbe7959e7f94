"""URI templates read backwards."""

import re
import time
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.uri_template import URITemplate, leads_out

WORDS = st.text(min_size=1, max_size=15)


@given(WORDS)
def test_a_simple_variable_gives_back_what_was_quoted_into_it(value: str) -> None:
    assert URITemplate("travel://cities/{city}").match(f"travel://cities/{quote(value, safe='')}") == {"city": value}


@given(WORDS, WORDS)
def test_two_variables_are_told_apart(city: str, category: str) -> None:
    uri = f"travel://activities/{quote(city, safe='')}/{quote(category, safe='')}"
    assert URITemplate("travel://activities/{city}/{category}").match(uri) == {"city": city, "category": category}


@given(WORDS)
def test_a_plus_variable_takes_slashes_too(path: str) -> None:
    assert URITemplate("file:///{+path}").match("file:///" + quote(path)) == {"path": path}


def test_a_plus_variable_takes_a_path_of_several_segments() -> None:
    assert URITemplate("file:///{+path}/raw").match("file:///a/b/c.txt/raw") == {"path": "a/b/c.txt"}


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=10)))
def test_a_query_gives_back_the_parameters_that_are_there(values: dict[str, str]) -> None:
    template = URITemplate("travel://search{?a,b}")
    uri = "travel://search" + (f"?{urlencode(values)}" if values else "")
    assert template.match(uri) == values


def test_the_order_of_query_parameters_does_not_matter(subtests: pytest.Subtests) -> None:
    for query in ["a=1&b=2", "b=2&a=1"]:
        with subtests.test(query=query):
            assert URITemplate("x:y{?a,b}").match(f"x:y?{query}") == {"a": "1", "b": "2"}


def test_a_query_follows_a_path_variable() -> None:
    template = URITemplate("travel://cities/{city}{?month}")
    assert template.match("travel://cities/Porto") == {"city": "Porto"}
    assert template.match("travel://cities/Porto?month=5") == {"city": "Porto", "month": "5"}
    assert template.match("travel://cities/S%C3%A3o%20Paulo?month=a%20b") == {"city": "São Paulo", "month": "a b"}


def test_a_uri_of_another_shape_does_not_match(subtests: pytest.Subtests) -> None:
    for source, uri in [
        ("travel://cities/{city}", "travel://cities/"),
        ("travel://cities/{city}", "travel://cities/a/b"),
        ("travel://cities/{city}", "travel://cities/a/"),
        ("travel://cities/{city}", "travel://cities/a?b=c"),
        ("travel://cities/{city}", "travel://cities/a#b"),
        ("travel://cities/{city}", "travel://cities"),
        ("travel://cities/{city}", "Travel://cities/a"),
        ("travel://cities/{city}", " travel://cities/a"),
        ("travel://cities/{city}", "xtravel://cities/a"),
        ("travel://cities/{city}", ""),
        ("travel://{a}/x/{b}", "travel://1/y/2"),
        ("travel://{a}/x/{b}", "travel://1/x/2/3"),
        ("file:///{+path}", "file:///"),
        ("file:///{+path}.txt", "file:///a.csv"),
        ("x:y{?a}", "x:y?c=1"),
        ("x:y{?a}", "x:y?a=1&c=1"),
        ("x:y{?a}", "x:y?a=1&a=2"),
        ("x:y{?a}", "x:z?a=1"),
        ("x:{v}{?a}", "x:?a=1"),
        ("x:a.b", "x:aXb"),
        ("x:plain", "x:plain2"),
    ]:
        with subtests.test(source=source, uri=uri):
            assert URITemplate(source).match(uri) is None


@given(WORDS.map(lambda text: text + "/" + text))
def test_a_simple_variable_never_takes_a_raw_slash(value: str) -> None:
    assert URITemplate("travel://cities/{city}").match(f"travel://cities/{value}") is None


OUT = (
    *("..", "../x", "a/../x", "a/..", "..\\x", "a\\..\\x", ".. /x", "a/ ../x"),
    *("/etc/passwd", "/", "//server/share", "\\windows", "\\\\server\\share", "\\\\?\\C:\\x"),
    *("C:/windows", "C:\\windows", "c:x", "Z:"),
    *("a\0b", "\0", "a\nb", "a\tb", "\x1b[0m", "a\x7f", "a\x85"),
)


@pytest.mark.parametrize("value", OUT)
def test_a_value_that_may_lead_out_of_a_folder_is_recognised(value: str) -> None:
    assert leads_out(value)


@pytest.mark.parametrize(
    "value",
    ["", "a", "a/b", "a\\b", "b..c", "...", "a/b..c/ü.txt", ".", "./a", "10:30", "isbn:5", "?q=..", "~/x", "a b"],
)
def test_other_text_stays_in_its_folder(value: str) -> None:
    assert not leads_out(value)


def test_what_a_pattern_would_read_as_a_sign_is_plain_in_a_template(subtests: pytest.Subtests) -> None:
    for uri in ["x:a.b", "x:(1)", "x:a+b", "x:[a]", "x:$^|", "x:a\\d"]:
        with subtests.test(uri=uri):
            template = URITemplate(uri)
            assert template.variables == ()
            assert template.match(uri) == {}


def test_a_template_without_variables_matches_itself_only() -> None:
    template = URITemplate("travel://cities")
    assert template.match("travel://cities") == {}
    assert template.match("travel://cities/") is None


def test_variables_are_named_in_order_and_those_of_the_query_are_optional() -> None:
    template = URITemplate("x://{b}/{+a}{?d,c}")
    assert template.variables == ("b", "a", "d", "c")
    assert template.optional == {"c", "d"}
    assert template.source == "x://{b}/{+a}{?d,c}"


def test_a_template_that_cannot_be_read_backwards_is_refused_with_its_reason(subtests: pytest.Subtests) -> None:
    for source, reason in [
        ("cities/{city}", "no scheme"),
        ("{scheme}://a", "no scheme"),
        ("", "no scheme"),
        ("/mcp", "no scheme"),
        ("1x:a", "no scheme"),
        ("x:{a}/{a}", "twice"),
        ("x:{a}{?a}", "twice"),
        ("x:{?a,a}", "twice"),
        ("x:{", "unbalanced"),
        ("x:}", "unbalanced"),
        ("x:{a", "unbalanced"),
        ("x:a}", "unbalanced"),
        ("x:{{a}}", "unbalanced"),
        ("x:{}", "not supported"),
        ("x:{+}", "not supported"),
        ("x:{?}", "not supported"),
        ("x:{?a,}", "not supported"),
        ("x:{?a, b}", "not supported"),
        ("x:{a,b}", "not supported"),
        ("x:{a*}", "not supported"),
        ("x:{a:3}", "not supported"),
        ("x:{#a}", "not supported"),
        ("x:{.a}", "not supported"),
        ("x:{/a}", "not supported"),
        ("x:{;a}", "not supported"),
        ("x:{&a}", "not supported"),
        ("x:{++a}", "not supported"),
        ("x:{1a}", "not supported"),
        ("x:{a-b}", "not supported"),
        ("x:{é}", "not supported"),
        ("x:{?a}/b", "not supported"),
        ("x:{?a}{b}", "not supported"),
    ]:
        with subtests.test(source=source, reason=reason), pytest.raises(ValueError, match=reason):
            URITemplate(source)


def test_the_refusal_repeats_the_template() -> None:
    with pytest.raises(ValueError, match=r"'x:\{a\*\}'"):
        URITemplate("x:{a*}")


@given(st.text(max_size=30))
def test_any_uri_at_all_is_matched_or_not_and_nothing_else(uri: str) -> None:
    for source in ("travel://{a}/{b}", "file:///{+path}", "x:y{?a,b}"):
        values = URITemplate(source).match(uri)
        assert values is None or set(values) <= set(URITemplate(source).variables)


@given(st.text(max_size=20))
def test_any_text_at_all_is_a_template_or_refused(source: str) -> None:
    try:
        template = URITemplate("x:" + source)
    except ValueError:
        return
    assert "{" in source or template.variables == ()


@pytest.mark.parametrize(
    ("source", "uri"),
    [
        ("shop://two/{a}-{b}-{c}", f"shop://two/{'-' * 1500}/"),
        ("x://{+a}/{+b}/{+c}/end", f"x://{'/' * 1500}"),
        ("x:{a}{b}{c}!", f"x:{'a' * 1500}"),
    ],
)
def test_a_uri_that_almost_matches_is_refused_in_linear_time(source: str, uri: str) -> None:
    template = URITemplate(source)
    began = time.process_time()
    assert template.match(uri) is None
    assert time.process_time() - began < 1


LETTERS = st.text("ab-/?\n", max_size=12)


@given(st.lists(st.sampled_from(["{%}", "{+%}", "a", "-", "/", "b-"]), min_size=1, max_size=6), LETTERS)
def test_linear_matching_gives_what_a_greedy_regular_expression_gives(parts: list[str], rest: str) -> None:
    source = "x:" + "".join(part.replace("%", f"v{number}") for number, part in enumerate(parts))
    groups = {"{%}": "([^/?#]+)", "{+%}": "(.+)"}
    found = re.fullmatch("x:" + "".join(groups.get(part, re.escape(part)) for part in parts), f"x:{rest}")
    matched = URITemplate(source).match(f"x:{rest}")
    assert (None if matched is None else list(matched.values())) == (None if found is None else list(found.groups()))
