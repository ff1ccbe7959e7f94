"""Which names are those of secrets, and where they count."""

import pytest

from django_mcp.conf import Settings
from django_mcp.core.redaction import is_hidden
from django_mcp.secret_names import (
    ARGUMENTS,
    EVERYWHERE,
    FIELDS,
    GENERATED,
    NONE,
    PART,
    QUESTIONS,
    WHOLE,
    ends_in,
    match,
)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_name_of_a_secret_is_one_as_a_field_an_argument_a_question_and_in_generated_code(name: str) -> None:
    for written in (name, f"user_{name}", name.replace("_", "-").title(), f"{name}2"):
        assert match(written, FIELDS)
        assert match(written, GENERATED)
        assert is_hidden(written, "hush", Settings().REDACTED_ARGUMENTS)
        assert ends_in(written, QUESTIONS)


@pytest.mark.parametrize(
    "name",
    ["PINCode", "OTPCode", "IBANNumber", "pin_code", "otp_2", "password_again", "JWTToken", "pass_word", "accesstoken"],
)
def test_a_name_in_capitals_and_words_for_the_same_value_hide_no_secret(name: str) -> None:
    assert match(name, FIELDS)
    assert is_hidden(name, "hush", Settings().REDACTED_ARGUMENTS)
    assert ends_in(name, QUESTIONS)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "contraseña",
            "contrasen\u0303a_nueva",
            "Contraseña",
            "nuevaContraseña",
            "clave_de_acceso",
            "numero_de_tarjeta",
        ),
        *(
            "motDePasse",
            "mot de passe",
            "mdp",
            "cléPrivée",
            "jeton",
            "Benutzerkennwort",
            "Passwort",
            "kreditkartennummer",
        ),
        *("ccNumber", "cvv2", "smsCode", "seed_phrase", "Geheimzahl", "wallet_mnemonic"),
    ],
)
def test_names_in_other_languages_are_found_with_and_without_accents(name: str) -> None:
    assert match(name, FIELDS)
    assert match(name, GENERATED)
    assert is_hidden(name, "hush", Settings().REDACTED_ARGUMENTS)
    assert is_hidden(name, "hush", (name,))


@pytest.mark.parametrize(
    "name",
    [
        *("clave", "palabra_clave", "enclave", "conclave", "schluessel", "Schlüssel", "Artikelschlüssel", "geheim"),
        *("pinned", "spin", "cc", "bcc", "passe", "carte", "tarjeta", "karte", "seed", "phrase", "sms", "otped"),
    ],
)
def test_words_that_are_mostly_no_secrets_are_shown(name: str) -> None:
    """A Spanish *clave* is a password, or the key of a record; *palabra clave* is a keyword."""
    assert not match(name, FIELDS)
    assert not is_hidden(name, "shown", Settings().REDACTED_ARGUMENTS)
    assert not ends_in(name, QUESTIONS)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("hash", {"field", "generated"}),
        ("key", {"field", "generated"}),
        ("keys", {"field", "generated"}),
        ("salt", {"field", "generated", "argument"}),
        ("card", {"argument"}),
        ("cookie", {"argument", "generated"}),
        ("nonce", {"generated"}),
        ("recovery_code", {"generated"}),
        ("password_hint", {"field", "generated", "argument"}),
        ("tokens", {"field", "generated", "argument"}),
        *(
            (name, set())
            for name in ("cards", "discard", "monkey", "opinion", "keyboard", "compass", "basalt", "author")
        ),
    ],
)
def test_where_names_differ_it_is_on_purpose(name: str, where: set[str]) -> None:
    lists = {"field": FIELDS, "generated": GENERATED, "argument": ARGUMENTS}
    assert {kind for kind, names in lists.items() if match(name, names)} == where
    assert not ends_in(name, QUESTIONS)


def test_a_part_of_a_word_counts_less_than_a_word() -> None:
    """Numbers are hidden for a word alone: ``max_tokens`` is none."""
    assert [match(name, ARGUMENTS) for name in ("token", "max_tokens", "title")] == [WHOLE, PART, NONE]


def test_a_name_that_a_site_adds_may_end_in_a_number() -> None:
    assert is_hidden("line2", "hush", ("line2",))
    assert is_hidden("lastLine2", "hush", ("line2",))
    assert not is_hidden("line1", "shown", ("line2",))
