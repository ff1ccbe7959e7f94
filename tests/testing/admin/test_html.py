"""Pages as a browser reads them."""

import pytest
from bs4 import BeautifulSoup

from django_mcp.test.admin import html


def parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


@pytest.mark.parametrize(
    ("controls", "sent"),
    [
        ('<input name="a" value="1">', [("a", "1")]),
        ('<input name="a">', [("a", "")]),
        ('<input name="a" value="1" disabled>', []),
        ('<fieldset disabled><input name="a" value="1"></fieldset>', []),
        ('<input type="checkbox" name="a">', []),
        ('<input type="checkbox" name="a" checked>', [("a", "on")]),
        ('<input type="radio" name="a" value="1"><input type="radio" name="a" value="2" checked>', [("a", "2")]),
        ('<input type="file" name="a"><input type="submit" name="b"><input type="image" name="c">', []),
        ('<select name="a"><option value="1">x<option value="2">y</select>', [("a", "1")]),
        ('<select name="a"><option value="1">x<option value="2" selected>y</select>', [("a", "2")]),
        ('<select name="a"><option> x </select>', [("a", "x")]),
        ('<select name="a" multiple><option value="1">x</select>', []),
        (
            '<select name="a" multiple><option value="1" selected>x<option value="2" selected>y</select>',
            [("a", "1"), ("a", "2")],
        ),
        ('<select name="a"><option value="1" disabled>x<option value="2">y</select>', [("a", "2")]),
        ('<textarea name="a">\nfirst\nsecond</textarea>', [("a", "first\r\nsecond")]),
        ('<input name="csrfmiddlewaretoken" value="1"><input name="set-__prefix__-a"><input value="1">', []),
    ],
)
def test_successful_controls_are_sent(controls: str, sent: list[tuple[str, str]]) -> None:
    page = parsed(f'<form method="post">{controls}<input type="submit" name="_save"></form>')
    form, button = html.find_form(page)
    assert form is not None
    assert button == "_save"
    assert html.successful(html.controls_of(page, form)) == sent


def test_a_form_is_found_by_its_buttons_and_owns_what_names_it() -> None:
    page = parsed(
        '<form method="post" id="logout"><input name="x"></form>'
        '<form method="post" id="other_form"><input name="a"></form>'
        '<input form="other_form" name="b"><button form="other_form" name="_save">Save</button>'
    )
    form, _ = html.find_form(page)
    assert form is not None
    assert [name for name, _ in html.successful(html.controls_of(page, form))] == ["a", "b"]


def test_the_text_of_a_cell_is_what_a_person_reads() -> None:
    texts = {
        '<td class="field-a"> one\n two<br>three </td>': "one two three",
        '<td class="field-a"><img src="icon-yes.svg" alt="True"></td>': "True",
        '<td class="field-a"><select><option>x<option selected>y</select></td>': "y",
        '<td class="field-a"><select><option value="" selected>- Select -<option>y</select></td>': "",
        '<td class="field-a"><input type="hidden" value="1"><input value="2"></td>': "2",
        '<td class="field-a"><input type="submit" name="act" value="Act"> 3</td>': "3",
        '<td><label><input type="radio"> x</label><label><input type="radio" checked> y</label></td>': "y",
    }
    assert [html.text_of(parsed(cell).td) for cell in texts] == [*texts.values()]


def test_links_of_a_list_are_told_once_with_their_kind() -> None:
    page = parsed(
        '<div id="changelist-filter"><a href="?">All</a><a href="?kind=book">Book</a><a href="?kind=book">B</a></div>'
        '<table id="result_list"><thead><tr><th class="action-checkbox-column"></th>'
        '<th class="column-__str__"><div class="text"><a href="?o=1">x</a></div></th>'
        '<th class="column-a"><div class="text"><a href="?o=2">A</a></div></th></tr></thead></table>'
        '<p class="paginator"><a href="?p=2">2</a> 14 things</p>'
    )
    told = [(link.kind, link.query, link.text) for link in html.list_links(page)]
    assert told == [("filter", "kind=book", "Book"), ("order", "o=2", "2"), ("page", "p=2", "2")]
    assert html.total(page) == 14


def test_an_amount_with_its_currency_is_no_date_and_time() -> None:
    def kind(second: str) -> str:
        page = parsed(f'<form><div class="form-row field-a"><input name="a_0">{second}</div></form>')
        [field] = html.form_fields(html.controls_of(page, page.form))
        return field.kind

    assert kind('<input name="a_1">') == "split"
    assert kind('<select name="a_1"><option>EUR</select>') == "several"


def test_the_column_of_boxes_is_not_counted_in_a_theme_without_its_class() -> None:
    heads = '<th><input id="action-toggle"></th><th><div class="text"><a href="?o=1">A</a></div></th>'
    page = parsed(f'<table id="result_list"><thead><tr>{heads}</tr></thead></table>')
    assert [link.text for link in html.list_links(page)] == ["1"]
