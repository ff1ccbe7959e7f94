"""The host itself, seen with a small app: what the tests of real apps rely on."""

import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.real_browser.apps.conftest import Open
from tests.real_browser.apps.demo import take
from tests.real_browser.apps.host import Hosted


def test_an_app_shows_the_result_of_its_call(hosted: Hosted) -> None:
    hosted.open("list_people", {"start": 1})
    expect(hosted.view.locator("li")).to_have_text(["Person 2", "Person 3", "Person 4"])
    (given,) = hosted.messages("ui/notifications/tool-input", to="app")
    assert given["params"] == {"arguments": {"start": 1}}
    assert hosted.complaints == []


def test_an_app_calls_tools_of_its_server(hosted: Hosted) -> None:
    hosted.open("list_people")
    hosted.view.get_by_role("button", name="Next").click()
    expect(hosted.view.locator("li")).to_have_text(["Person 4", "Person 5", "Person 6"])
    hosted.view.get_by_label("Name").fill("Ada")
    hosted.view.get_by_role("button", name="Greet").click()
    expect(hosted.view.locator("#greeting")).to_have_text("Hello Ada")


@pytest.mark.parametrize("press", ["button", "Enter"])
def test_a_form_is_sent_from_a_sandbox_without_forms(hosted: Hosted, press: str) -> None:
    hosted.open("list_people", sandbox="allow-scripts")
    name = hosted.view.get_by_label("Name")
    name.fill("Ada")
    name.press("Enter") if press == "Enter" else hosted.view.get_by_role("button", name="Greet").click()
    expect(hosted.view.locator("#greeting")).to_have_text("Hello Ada")
    assert len(hosted.messages("tools/call")) == 1


@pytest.mark.parametrize("sandbox", ["allow-scripts", "allow-scripts allow-forms"])
def test_a_form_is_validated_unless_it_or_its_button_says_otherwise(hosted: Hosted, sandbox: str) -> None:
    hosted.open("list_people", sandbox=sandbox)
    hosted.view.get_by_role("button", name="Greet").click()
    expect(hosted.view.get_by_label("Name")).to_be_focused()
    assert hosted.messages("tools/call") == []
    for count, name in enumerate(("Unchecked", "Hail"), start=1):
        hosted.view.get_by_role("button", name=name).click()
        hosted.wait_for("tools/call", count)
    assert [each["params"]["arguments"] for each in hosted.messages("tools/call")] == [{"name": ""}] * 2


def test_an_error_in_a_long_app_comes_into_view(hosted: Hosted) -> None:
    hosted.open("list_people", maxHeight=300)
    expect(hosted.view.get_by_role("button", name="Hail")).not_to_be_in_viewport()
    hosted.view.get_by_role("button", name="Hail").scroll_into_view_if_needed()
    expect(hosted.view.get_by_role("heading")).not_to_be_in_viewport()
    hosted.frame.evaluate("mcp.show({isError: true, content: [{type: 'text', text: 'Nobody is there.'}]})")
    expect(hosted.view.get_by_role("alert")).to_have_text("Nobody is there.")
    expect(hosted.view.get_by_role("alert")).to_be_in_viewport()


def test_an_app_is_readable_in_a_host_without_styles(hosted: Hosted) -> None:
    hosted.open("list_people", styles=False, theme="dark")
    expect(hosted.view.locator("li")).to_have_count(3)
    assert contrast(hosted) > 4.5


def contrast(hosted: Hosted) -> float:
    """The ratio of the luminances of the text and its background (WCAG 2.2, 1.4.3)."""
    colours = hosted.frame.evaluate(
        "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
    )
    light, dark = sorted((luminance(colour) for colour in colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_markup_in_a_value_is_text(hosted: Hosted) -> None:
    hosted.open("list_people", {"start": 7})
    expect(hosted.view.locator("li")).to_have_text("<img src=x onerror=alert(1)>")
    assert hosted.violations() == []


def test_the_theme_of_the_host_is_the_apps(hosted: Hosted) -> None:
    hosted.open("list_people", theme="dark")
    body = hosted.view.locator("body")
    expect(body).to_have_css("background-color", "rgb(31, 30, 29)")
    hosted.change(theme="light")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")


def test_pictures_are_taken_in_each_theme_and_width(hosted: Hosted, tmp_path: Path) -> None:
    take(hosted, "list_people", {}, tmp_path)
    sizes = {file.stem: Image.open(BytesIO(file.read_bytes())).size for file in tmp_path.iterdir()}
    assert {name: width for name, (width, _) in sizes.items()} == {
        "list-people-dark-narrow": 360,
        "list-people-dark-wide": 720,
        "list-people-light-narrow": 360,
        "list-people-light-wide": 720,
    }
    assert all(height > 200 for _, height in sizes.values())


@pytest.mark.parametrize("width", [320, 640])
def test_an_app_gets_the_width_of_its_container_and_the_height_it_reports(hosted: Hosted, width: int) -> None:
    hosted.open("list_people", width=width)
    expect(hosted.view.locator("li")).to_have_count(3)
    size = hosted.wait_for("ui/notifications/size-changed")[-1]["params"]
    assert hosted.frame.evaluate("innerWidth") == width
    hosted.page.wait_for_function(
        "height => document.querySelector('iframe').offsetHeight >= height", arg=size["height"]
    )


def test_an_app_answers_before_it_goes(hosted: Hosted) -> None:
    hosted.open("list_people")
    assert hosted.teardown() == {}
    expect(hosted.page.locator("iframe")).to_have_count(0)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_without_the_extension_gets_text_and_no_tools_for_apps(connect: Open, mode: str) -> None:
    plain = connect(extension=False, mode=mode)
    assert "Person 3" in plain.call("list_people")["content"][0]["text"]
    assert {each["name"] for each in plain.tools} & {"greet", "list_people"} == {"list_people"}
    assert not any(each["uri"].startswith("ui://apps/people") for each in plain.resources())
