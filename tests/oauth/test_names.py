"""Names of clients, as people see them."""

import pytest

from django_mcp.oauth.consent import clean_name


def test_what_hides_or_reorders_text_is_taken_out(subtests: pytest.Subtests) -> None:
    cases = [
        ("Claude", "Claude"),
        ("  Visual   Studio\tCode\n", "Visual Studio Code"),
        ("Réservation d’été 東京 🛫", "Réservation d’été 東京 🛫"),
        ("Cla\u202eedu\u202c", "Claedu"),
        ("\u2066Claude\u2069\u200e\u061c", "Claude"),
        ("Clau\u200bde\ufeff\u2060\u00ad", "Claude"),
        ("Claude\x00\x1b[31m\x9b", "Claude[31m"),
        ("Claude\u2028by\u2029us", "Claude by us"),
        ("\u3164\u2800\u115f", ""),
        ("Claude\ufe0f\U000e0041\U000e0100", "Claude"),
        ("\ud800Claude\udfff", "Claude"),
        ("\ue000Claude\uffff", "Claude"),
        ("\u200b \u202e ", ""),
        ("", ""),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ]
    for given, shown in cases:
        with subtests.test(given=given, shown=shown):
            assert clean_name(given) == shown


def test_a_long_name_is_cut_and_says_so() -> None:
    assert clean_name("x" * 60) == "x" * 60
    assert clean_name("x" * 500) == "x" * 59 + "…"
    assert clean_name("x" * 58 + " yyy") == "x" * 58 + "…"


def test_characters_that_show_nothing_do_not_count() -> None:
    assert clean_name("\u200b" * 100 + "Claude") == "Claude"
