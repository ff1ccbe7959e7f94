"""What an app cannot do, however it tries: reach other origins, read its host, or call what is not for apps."""

from typing import Any

import pytest
from playwright.sync_api import Error, expect

from tests.faults.conftest import until
from tests.real_browser.apps.host import Host, Hosted, policy

TO_OTHERS = {
    "fetch": ("connect-src", "fetch(url).catch(() => {})"),
    "beacon": ("connect-src", "navigator.sendBeacon(url, 'secret')"),
    "socket": ("connect-src", "new WebSocket(url.replace('http', 'ws'))"),
    "events": ("connect-src", "new EventSource(url)"),
    "image": ("img-src", "new Image().src = url"),
    "script": ("script-src-elem", "put('script', {src: url})"),
    "style": ("style-src-elem", "put('link', {rel: 'stylesheet', href: url})"),
    "background": ("img-src", "put('p', {style: `background: url(${url})`, textContent: 'x'})"),
    "font": ("font-src", "new FontFace('x', `url(${url})`).load().catch(() => {})"),
    "frame": ("frame-src", "put('iframe', {src: url})"),
    "object": ("object-src", "put('object', {data: url})"),
    "media": ("media-src", "put('video', {src: url})"),
    "base": ("base-uri", "put('base', {href: url})"),
    "form": ("form-action", "put('form', {action: url, method: 'post'}).submit()"),
    "navigation": ("frame-src", "location.href = url"),
}
"""Ways to send something to another origin: the directive that blocks each, and its script."""

PUT = "const put = (name, values) => document.body.appendChild(Object.assign(document.createElement(name), values));"

WITHOUT_TRACE = {
    "window": "window.open(url)",
    "top": "try { top.location.href = url } catch {}",
    "link": "put('a', {href: url, target: '_top'}).click()",
    "prefetch": "put('link', {rel: 'prefetch', href: url})",
    "worker": "try { new Worker(URL.createObjectURL(new Blob([`fetch('${url}')`]))) } catch {}",
}
"""Ways that are blocked by the sandbox, or without an event."""

OF_OTHERS = {
    "sandbox": "parent.document.title",
    "host": "top.document.title",
    "host's client": "top.host.log",
    "storage": "localStorage.length",
    "cookies": "document.cookie",
}


@pytest.fixture
def app(hosted: Hosted, host: Host) -> Hosted:
    """An app that declares no origin, and runs what the tests say."""
    host.reached.clear()
    return hosted.open("show_attacks")


def attack(app: Hosted, script: str, url: str) -> None:
    app.frame.evaluate(f"url => {{ {PUT} {script}; }}", url)


def settle(app: Hosted) -> None:
    """Return when what an app has begun would have arrived: a later request of the host has."""
    app.page.evaluate("url => fetch(url, {mode: 'no-cors'})", f"{app.host.foreign}/last")


@pytest.mark.parametrize("way", TO_OTHERS)
def test_an_app_reaches_no_origin_that_it_does_not_declare(app: Hosted, way: str) -> None:
    directive, script = TO_OTHERS[way]
    attack(app, script, f"{app.host.foreign}/{way}")
    settle(app)
    until(lambda: directive in "\n".join([*app.violations(), *app.complaints]), f"a report of {directive}")
    assert app.host.reached == ["/last"]


@pytest.mark.parametrize("way", WITHOUT_TRACE)
def test_an_app_does_not_leave_its_frame(app: Hosted, way: str) -> None:
    attack(app, WITHOUT_TRACE[way], f"{app.host.foreign}/{way}")
    settle(app)
    assert app.host.reached == ["/last"]
    assert len(app.page.context.pages) == 1
    expect(app.page).to_have_title("Host")


@pytest.mark.parametrize("what", OF_OTHERS)
def test_an_app_reads_nothing_of_its_host(app: Hosted, what: str) -> None:
    with pytest.raises(Error, match=r"SecurityError|Blocked a frame"):
        app.frame.evaluate(OF_OTHERS[what])


def test_an_app_reaches_an_origin_that_it_declares(app: Hosted) -> None:
    app.open("show_friends")
    attack(app, "window.done = fetch(url).then(() => 'read')", f"{app.host.foreign}/friend")
    assert app.frame.evaluate("done") == "read"
    attack(app, TO_OTHERS["image"][1], f"{app.host.foreign}/image")
    settle(app)
    assert app.host.reached == ["/friend", "/last"]


def test_an_app_calls_only_tools_that_are_visible_to_apps(app: Hosted) -> None:
    assert ask(app, "greet", name="Ada")["result"]["content"][0]["text"] == "Hello Ada"
    assert "may not call" in ask(app, "delete_people")["error"]["message"]
    assert "may not call" in ask(app, "absent")["error"]["message"]


def ask(app: Hosted, tool: str, **arguments: Any) -> dict[str, Any]:
    return app.frame.evaluate("params => request('tools/call', params)", {"name": tool, "arguments": arguments})


def test_a_message_past_the_sandbox_is_ignored(app: Hosted) -> None:
    app.frame.evaluate("void request('tools/call', {name: 'greet', arguments: {name: 'top'}}, top)")
    assert ask(app, "greet", name="Ada")["result"]["content"][0]["text"] == "Hello Ada"
    assert len(app.messages("tools/call")) == 1


def test_an_app_does_not_speak_for_the_sandbox(app: Hosted) -> None:
    app.frame.evaluate("send({method: 'ui/notifications/sandbox-resource-ready', params: {html: '<p>mine'}})")
    app.frame.evaluate("send({method: 'ui/notifications/sandbox-proxy-ready', params: {}})")
    ask(app, "greet", name="Ada")
    assert app.frame.title() == "Attacks"
    assert len(app.page.frames) == 3


def test_what_is_no_origin_adds_nothing_to_the_policy() -> None:
    added = policy({"connectDomains": ["https://a.example.com; script-src *", "'unsafe-eval'", "*", "data:"]})
    assert added == policy({})
    assert "connect-src https://a.example.com;" in policy({"connectDomains": ["https://a.example.com"]})
