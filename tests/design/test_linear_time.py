"""What clients send costs no more time than its length: every pattern, and everything else that compares texts."""

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from django_mcp.contrib.ninja import _VARIABLE
from django_mcp.core.apps import _ORIGIN_IN_PLACE, _ROOTED, _Addresses, _view_of
from django_mcp.core.redaction import MAX_SECRETS, redact, redact_uri, redacted, secrets_in, without
from django_mcp.core.tool_search import misplaced_arguments, words
from django_mcp.doctor.probes import _PASSWORD
from django_mcp.integrations.prompts import _COMMENT
from django_mcp.model_resources.apps import readable_text
from django_mcp.model_resources.form_sources import form_verbose_name
from django_mcp.oauth.authorize import AuthorizationRequest, with_issuer
from django_mcp.oauth.cimd import CIMDError, checked
from django_mcp.oauth.consent import clean_name
from django_mcp.oauth.grants import known, why_not_a_resource
from django_mcp.oauth.redirect_uris import is_registered, usable_redirect_uris
from django_mcp.primitives.validation_errors import MAX_COMPARED, _as_json, close_matches, hint, unknown_argument
from django_mcp.secret_names import QUESTIONS, ends_in
from tests.design.sources import Module, modules

LENGTH = 8000
MAX_SECONDS = 0.08
"""Processor time for ``LENGTH`` characters: about 1 ms if it is linear, over 0.1 s if it is quadratic."""

METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")


def uses(module: Module) -> Iterator[tuple[str, re.Pattern[str], str]]:
    """Yield label, pattern and method of each use of a regular expression."""
    names = vars(importlib.import_module(module.name))
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
            continue
        owner = ast.unparse(node.func.value)
        if owner == "re" and isinstance(node.args[0], ast.Constant):
            flags = next((eval(ast.unparse(each.value)) for each in node.keywords if each.arg == "flags"), 0)
            yield f"{module.label}:{node.lineno}", re.compile(node.args[0].value, flags), node.func.attr
        elif isinstance(pattern := names.get(owner), re.Pattern):
            yield f"{module.label}:{node.lineno}", pattern, node.func.attr


READERS = [each for each in modules() if "\nimport re\n" in each.text]
USES = [use for module in READERS for use in uses(module)]


def attacks(pattern: str) -> Iterator[str]:
    """Yield texts of repeated parts of the pattern, each with an end at which it does not match."""
    parts = {*re.findall(r"[A-Za-z]{2,}|%[0-9A-Fa-f]{2}", pattern), *"aA0 /%&:.-_\\\"'<>{}()=@#?;,~+\n"}
    for part in sorted(parts):
        for begin in ("", "a", '"', "a://", "bearer "):
            yield begin + part * (LENGTH // len(part)) + "\0"


def seconds_of(act: Callable[[], Any]) -> float:
    """Return the processor time of *act*; the least of three if it is long, for other processes evict its caches."""
    found = []
    for _ in range(3):
        began = time.thread_time()
        act()
        found.append(time.thread_time() - began)
        if found[0] < MAX_SECONDS:
            break
    return min(found)


@pytest.mark.parametrize(("pattern", "method"), [pytest.param(*use[1:], id=use[0]) for use in USES])
def test_a_pattern_takes_time_in_proportion_to_the_text(pattern: re.Pattern[str], method: str) -> None:
    apply = (lambda text: pattern.sub("", text)) if method in {"sub", "split", "findall", "finditer"} else None
    for text in attacks(pattern.pattern):
        act = apply or getattr(pattern, method)
        assert seconds_of(lambda: act(text)) < MAX_SECONDS, text[:50]  # noqa: B023 - called at once


def test_each_pattern_is_looked_at() -> None:
    known = {label.partition(":")[0] for label, _, _ in USES}
    with_patterns = {module.label for module in modules() if "re.compile(" in module.text}
    assert with_patterns - known == set()


HALF, LONG = 15_000, 30_000


def addresses(html: str) -> Callable[[], Any]:
    return lambda: _Addresses(html, "https://a.example/")


# Each took quadratic time, which single parts of its pattern do not show: texts of the site, and of its rows.
OF_SITES: dict[str, Callable[[], Any]] = {
    "a word in an image-set of CSS": addresses(f"<style>a {{ b: image-set({'a' * LONG}) }}</style>"),
    "whitespace in a refresh": addresses(f'<meta http-equiv="refresh" content="0{" " * LONG}">'),
    "whitespace before a refresh": addresses(f'<meta http-equiv="refresh" content="{" " * LONG}x">'),
    "parentheses in a srcset": addresses(f'<img srcset="{"a (" * LONG}">'),
    "whitespace in HTML": lambda: _ROOTED.search(f"={' ' * LONG}"),
    "marks in the HTML of a result": lambda: _view_of("<!--mcp-->" * LONG),
    "ends of tags in a column": lambda: readable_text(f"<p{'>' * LONG}a"),
    "the name of a form class": lambda: form_verbose_name(type("Form" * HALF + "A", (), {})),
    "the route of an operation": lambda: _VARIABLE.sub("", "<" * LONG),
    "inputs of a page": lambda: _PASSWORD.search("<input " * HALF),
    "comments in a template": lambda: _COMMENT.search("{% comment %}" * HALF),
    "quotes in what is expected of an argument": lambda: _as_json("\\'" * LONG + "\\"),
    "quotes in a choice": lambda: hint("be one of " + "\\'" * LONG, "a", is_optional=False),
    "a name of a question": lambda: ends_in("_".join(["pin", *["code"] * LONG, "a"]), QUESTIONS),
}


@pytest.mark.parametrize("act", OF_SITES.values(), ids=OF_SITES.keys())
def test_what_a_site_writes_is_read_in_proportion_to_its_length(act: Callable[[], Any]) -> None:
    assert seconds_of(act) < MAX_HEAVY_SECONDS


MAX_HEAVY_SECONDS = 0.5
"""Processor time for a few megabytes, which take several seconds where each value is looked at."""
NAMES = [f"list_{noun}_{number}" for noun in ("order", "customer", "invoice") for number in range(700)]
MANY = 200_000
JSON_TEXT = "[" + "0," * (MANY // 2) + "0]"

HEAVY: dict[str, Callable[[], Any]] = {
    "a result that an app shows": lambda: _ORIGIN_IN_PLACE.findall("src=https://a" * MANY),
    "a URI of separators": lambda: redact_uri("x:" + "%26" * 20_000),
    "a URI of parameters": lambda: redact_uri("x:?" + "&".join(f"a{number}=b" for number in range(20_000))),
    "a text of addresses": lambda: redact("a://b:" * 10_000),
    "a long name of an argument": lambda: redacted(None, {"a" * 20 * MANY: 1}),
    "many names of arguments": lambda: redacted(None, {f"name{number}": 1 for number in range(MANY)}),
    "many values": lambda: redacted(None, {"ids": list(range(MANY))}),
    "JSON in a text": lambda: redacted(None, {"text": JSON_TEXT}),
    "JSON in many texts": lambda: redacted(None, {"texts": [JSON_TEXT[:9000]] * 500}),
    "many secrets": lambda: secrets_in(None, {"password": [f"hush{number}" for number in range(MANY)]}),
    "many values among which secrets may be": lambda: secrets_in(None, {"ids": list(range(MANY))}),
    "secrets in an error": lambda: without("a" * 4000, [f"{'a' * 4000}{number}" for number in range(MAX_SECRETS)]),
    "a long word": lambda: close_matches("list_order" * MANY, NAMES),
    "many words": lambda: close_matches("list_order", (f"list_{number}" for number in range(MANY))),
    "a long name that is unknown": lambda: unknown_argument(["x" * 20 * MANY], NAMES),
    "many arguments of a relay": lambda: [*misplaced_arguments({f"arguments{number}": 1 for number in range(MANY)})],
    "redirect URIs": lambda: usable_redirect_uris([f"https://a.example/{number}" for number in range(1000)]),
    "a redirect URI": lambda: usable_redirect_uris(["http://localhost:" + "1/?:[.@" * MANY]),
    "a redirect URI that is compared": lambda: is_registered("http://[::1]:1/" + "?:" * MANY, ["http://[::1]/"] * 10),
    "the name of a client": lambda: clean_name("a \u202e\u200b" * 16_000),
    "a document of a client": lambda: checked("https://a.example/" + "./" * MANY),
    "scopes": lambda: AuthorizationRequest({"scope": (" ".join(map(str, range(MANY))),)}).scopes,
    "a state": lambda: AuthorizationRequest({"state": ("%\x7f&=" * MANY,)}).unprintable(),
    "a state in an error": lambda: with_issuer("https://a.example/?" + "state=&" * MANY),
    "many resources": lambda: known(f"https://a.example/{number}" for number in range(1000)),
    "many resources in an error": lambda: why_not_a_resource([f"https://a.example/{number}" for number in range(1000)]),
    "a resource": lambda: known(["https://a.example/" + "%2F../" * MANY]),
    "words of a query": lambda: words("aA" * 250),
}


@pytest.mark.parametrize("act", HEAVY.values(), ids=HEAVY.keys())
def test_what_a_client_sends_is_cut_before_it_is_compared(act: Callable[[], Any]) -> None:
    def acts() -> None:
        with suppress(CIMDError):
            act()

    assert seconds_of(acts) < MAX_HEAVY_SECONDS


def test_few_words_are_compared_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def count(word: str, possible: list[str], n: int, cutoff: float) -> list[str]:
        compared.append(len(possible))
        return []

    monkeypatch.setattr("difflib.get_close_matches", count)
    close_matches("list_order_12", NAMES)
    close_matches("ab", ["abc"] * 10_000)
    assert compared == [MAX_COMPARED, MAX_COMPARED]


def test_the_word_that_was_meant_is_found_among_many() -> None:
    assert close_matches("list_costumer_77", NAMES) == ["list_customer_77"]
    assert close_matches("pag", ["query", "page", "limit"]) == ["page"]
    assert close_matches("axc", ["abc"]) == ["abc"]
    assert close_matches("zzz", NAMES) == []
