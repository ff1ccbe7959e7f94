"""HTML as text."""

import time

import pytest

from django_mcp.adapters.html_text import read_page


def test_a_page_is_shown_as_text(subtests: pytest.Subtests) -> None:
    for html, text in [
        ("<h1>A</h1><h3>B</h3><p>c", "# A\n\n### B\n\nc"),
        ("<p>a  \n b<b>c</b>&amp;&lt;d<br>e</p>", "a bc&<d\ne"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ("<table><tr><th>A<th>B<tr><td>1<td>x|y</table>", "| A | B |\n| --- | --- |\n| 1 | x\\|y |"),
        ("<table><tr><td><p>a</p><p>b</p><table><tr><td>c</table><td>d</table>", "| a b c | d |"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("<img alt='A map'> here", "A map here"),
        ("<title>Trips</title><p>a", "# Trips\n\na"),
        ("<title>Trips</title><h1>Yours</h1>", "# Yours"),
        ("<!doctype html><?xml version='1.0'?><p>a", "a"),
        ("<script>a<b</script><style>c</style><!-- d --><template>e</template>f", "f"),
        ("<div hidden>a</div><span aria-hidden=true>b</span>c", "bc"),
        ("<header>a</header><nav>b</nav>c<footer>d</footer>", "c"),
        ("a<main>b<article>c</article></main>d", "b\n\nc"),
        ("<div role=navigation>a</div><div role='main'>b</div>", "b"),
        ("<article><header><h2>a</h2></header>b</article>", "## a\n\nb"),
        ("<select><option>a</select><textarea><b></textarea>c", "c"),
        ("", ""),
    ]:
        with subtests.test(html=html, text=text):
            assert read_page(html).text == text


def test_a_link_leads_where_it_led(subtests: pytest.Subtests) -> None:
    for href, text in [
        ("/b/?c=d", "[x](/b/?c=d)"),
        ("../b/", "[x](/b/)"),
        ("http://site/b", "[x](/b)"),
        ("https://else/b c(d)", "[x](https://else/b%20c%28d%29)"),
        ("mailto:a@b", "[x](mailto:a@b)"),
        ("javascript:alert(1)", "x"),
        ("data:text/html,x", "x"),
        ("#part", "x"),
        ("http://[", "x"),
    ]:
        with subtests.test(href=href, text=text):
            assert read_page(f'<a href="{href}">x</a>', "http://site/a/").text == text


def test_malformed_pages_are_read_all_the_same(subtests: pytest.Subtests) -> None:
    for html, text in [
        ("<nav>a<p>b", "a\n\nb"),
        ("</p></div>a<b", "a<b"),
        ("<p class=it's>a</p>b", "a\n\nb"),
        ("a < b & c &nope; <3", "a < b & c &nope; <3"),
        ("<table><td>a<p>b</table>c", "| a b |\n\nc"),
        ("<td>a<li>b</ol></ul>c", "a\nbc"),
        ("<a href=/x>a<a href=/y>b", "[a](/x)[b](/y)"),
        ("<script>a", ""),
        ("<!-- a", ""),
    ]:
        with subtests.test(html=html, text=text):
            assert read_page(html).text == text


def test_errors_of_forms_are_told_with_their_fields() -> None:
    page = read_page(
        "<ul class='errorlist nonfield'><li>Both.</ul><table><tr><td><ul class=errorlist id=id_people_error>"
        "<li>Too many.<li>Really.</ul><input></table>"
    )
    assert page.errors == ["Both.", "people: Too many.", "people: Really."]
    assert "Error: Too many." in page.text


UNITS = """< <!-- <a </a <a' <a'" <div> <td> <![CDATA[ & <li> <ul><li> <table><tr><td> <script> <? <a&#32;href=x>y
<ul&#32;class=errorlist><li>x <a"<a"' <pre>x"""


@pytest.mark.slow
def test_reading_takes_a_time_that_grows_as_the_page(subtests: pytest.Subtests) -> None:
    def check(unit: str) -> None:
        def seconds(length: int) -> float:
            page = (unit.replace("&#32;", " ") * length)[:length]
            began = time.thread_time()  # what else the machine does is no news here
            read_page(page)
            return time.thread_time() - began

        seconds(1000)
        # Sixteen times the length: quadratic time would be 256 times as long, each time. Linear time is so once in a
        # while, when the collector goes through all that other tests have left.
        assert any(seconds(160_000) < 80 * max(seconds(10_000), 0.002) for _ in range(3))

    for unit in UNITS.split():
        with subtests.test(unit=unit):
            check(unit)
