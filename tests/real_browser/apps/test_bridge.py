"""The script of a page in hosts that behave in other ways than the reference host: without any server behind them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.template import engines
from playwright.sync_api import Browser, FrameLocator, Page, expect

HOST = """<!doctype html><meta charset="utf-8"><style>iframe { width: 600px; height: 150px; border: 0 }</style><script>
window.calls = []; window.sizes = [];
addEventListener("message", ({ source, data: { id, method, params } }) => {
  const post = (message) => source.postMessage({ jsonrpc: "2.0", ...message }, "*");
  if (method === "ui/initialize") post({ id, result: { hostInfo: {}, hostContext: {}, ...window.said } });
  if (method === "ui/notifications/size-changed") {
    window.sizes.push(params.height);
    if (window.follows) document.querySelector("iframe").style.height = `${params.height}px`;
  }
  if (method === "tools/call") {
    window.calls.push(JSON.stringify(params));
    if (!window.isSilent) post({ id, result: { content: [{ type: "text", text: "Done." }] } });
  }
});
</script>"""
SETTLED = """async () => {
  for (let known, left = 20; left && sizes.length < 50; left = known === sizes.length ? left - 1 : 20) {
    known = sizes.length;
    await new Promise(requestAnimationFrame);
  }
  return sizes;
}"""
PASSES_ON = {"hostCapabilities": {"serverTools": {}}}


@dataclass
class Framed:
    """A page in a frame of a host."""

    page: Page
    view: FrameLocator

    def calls(self, count: int = 1) -> list[Any]:
        """The arguments of the calls, as the host sends them on."""
        self.page.wait_for_function("count => window.calls.length >= count", arg=count)
        return [json.loads(each)["arguments"] for each in self.page.evaluate("window.calls")]

    def sizes(self) -> list[int]:
        """The heights that the page asked for, once it asks for no more in 20 frames."""
        self.page.wait_for_function("window.sizes.length > 0")
        found: list[int] = self.page.evaluate(SETTLED)
        return found


Show = Callable[..., Framed]


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Shows the content of a page, and styles, in a host."""
    context = browser.new_context(viewport={"width": 800, "height": 1400})
    page = context.new_page()

    def made(content: str, style: str = "", **host: Any) -> Framed:
        if host.get("isSilent"):
            page.clock.install()
            page.clock.resume()
        page.set_content(HOST)
        page.evaluate("host => Object.assign(window, host)", {"said": PASSES_ON, "follows": True, **host})
        source = '{% extends "django_mcp/app.html" %}{% block head %}<style>' + style
        source += "</style>{% endblock %}{% block content %}" + content + "{% endblock %}"
        html = engines["django"].from_string(source).render({"csrf_token": ""})
        page.evaluate(
            """html => document.body.append(Object.assign(document.createElement("iframe"),
               { srcdoc: html, sandbox: "allow-scripts" }))""",
            html,
        )
        return Framed(page, page.frame_locator("iframe"))

    yield made
    context.close()


KEYS = [
    ("9007199254740991", 9007199254740991),
    ("9007199254740993", "9007199254740993"),
    ("-2047948614742839297", "-2047948614742839297"),
    ("0.1", 0.1),
    ("0.12345678901234567", "0.12345678901234567"),
    ("1e400", "1e400"),
]


def test_numbers_that_javascript_would_round_are_sent_as_text(show: Show) -> None:
    wanted = [{"pk": sent, "all": [sent], "text": f'"{text}"'} for text, sent in KEYS]
    buttons = [
        f"""<button data-mcp-tool="get" data-mcp-arguments='{{"pk": {text}, "all": [{text}],"""
        f""" "text": "\\\\"{text}\\\\""}}'>{text}</button>"""
        for text, _ in KEYS
    ]
    shown = show("<div data-mcp-view>" + "".join(buttons).replace("\\\\", "\\") + "</div>")
    for count, (text, _) in enumerate(KEYS, start=1):
        shown.view.get_by_role("button", name=text, exact=True).click()
        assert shown.calls(count)[-1] == wanted[count - 1]


def test_numbers_that_a_user_types_or_chooses_are_sent_as_they_are(show: Show) -> None:
    shown = show(
        """<form data-mcp-tool="add"><input type="number" name="typed" min="-9223372036854775808"
        max="9223372036854775807"><input type="number" step="any" name="part"><select name="key" data-mcp-json>
        <option value="2047948614742839297">A</option></select><input name="many" data-mcp-list="," data-mcp-json
        value="1,2047948614742839297"><button>Add</button></form>"""
    )
    shown.view.locator("[name=typed]").fill("2047948614742839297")
    shown.view.locator("[name=part]").fill("1234567890123.123456789")
    shown.view.get_by_role("button").click()
    key = "2047948614742839297"
    assert shown.calls() == [{"typed": key, "part": "1234567890123.123456789", "key": key, "many": [1, key]}]


def test_json_that_a_user_writes_is_not_changed_but_refused(show: Show) -> None:
    shown = show(
        """<form data-mcp-tool="add"><textarea name="json" data-mcp-json></textarea><button>Add</button></form>"""
    )
    shown.view.locator("textarea").fill('{"id": 2047948614742839297}')
    shown.view.get_by_role("button").click()
    expect(shown.view.get_by_role("alert")).to_contain_text("Put 2047948614742839297 in quotation marks")
    shown.view.locator("textarea").fill('{"id": "2047948614742839297", "n": 7}')
    shown.view.get_by_role("button").click()
    assert shown.calls() == [{"json": {"id": "2047948614742839297", "n": 7}}]


def test_a_host_that_is_silent_leaves_no_form_busy(show: Show) -> None:
    shown = show('<form data-mcp-tool="add"><button>Add</button></form>', said={}, isSilent=True)
    shown.view.get_by_role("button").click()
    shown.calls()
    expect(shown.view.get_by_role("alert")).to_have_count(0)
    shown.page.clock.fast_forward(11_000)
    expect(shown.view.get_by_role("alert")).to_contain_text("This client has not answered.")
    assert shown.view.locator("form").get_attribute("aria-busy") is None


def test_a_host_that_passes_calls_on_may_take_its_time(show: Show) -> None:
    shown = show('<form data-mcp-tool="add"><button>Add</button></form>', isSilent=True)
    shown.view.get_by_role("button").click()
    shown.calls()
    shown.page.clock.fast_forward(600_000)
    expect(shown.view.get_by_role("alert")).to_have_count(0)
    assert shown.view.locator("form").get_attribute("aria-busy") == "true"


LONG = '<div style="height: 900px">Long</div><p id="end">End</p>'


@pytest.mark.parametrize(
    "style",
    [
        "body { min-height: 100vh; padding: 20px; box-sizing: content-box }",
        "html, body { height: 100% }",
        "html { height: 100% } body { height: 100%; overflow: auto }",
        "body { height: 100vh; padding: 20px; box-sizing: content-box }",
        "#mcp-app { min-height: 110vh }",
        "html, body, #mcp-app { min-height: 100% !important; height: 100% !important }",
    ],
)
def test_a_frame_that_follows_the_page_comes_to_rest_and_shows_all(show: Show, style: str) -> None:
    shown = show(LONG, style)
    assert len(shown.sizes()) <= 3
    expect(shown.view.locator("#end")).to_be_in_viewport(ratio=1)
    assert shown.page.locator("iframe").bounding_box()["height"] < 1300  # type: ignore[index]


def test_a_frame_grows_and_shrinks_with_what_is_shown(show: Show) -> None:
    shown = show("<p>Short</p>")
    before = shown.sizes()[-1]
    root = shown.view.locator("#mcp-app")
    root.evaluate("(main, html) => { main.innerHTML = html }", LONG)
    assert shown.sizes()[-1] > 900
    root.evaluate("(main) => { main.innerHTML = '<p>Short</p>' }")
    assert shown.sizes()[-1] == before
