"""The request that lets a model choose a flight, and the interpretation of its answer."""

import re
from collections.abc import Sequence

from demo_project.travel.results import Flight

ROLE = "You are a travel expert who helps people to find the flight that suits them."
MAX_FLIGHTS = 40
"""Limit of flights a model compares."""
MAX_WORDS = 1000
"""Limit of characters of a reason."""


def code_of(flight: Flight) -> str:
    """Return a code for a flight, such as ``CRL104-0715``, or ``CRL104-0715B`` in business class."""
    return f"{flight.number}-{flight.departs:%m%d}{'B' if flight.cabin == 'business' else ''}"


def question(flights: Sequence[Flight], wishes: str) -> str:
    """Return the prompt for the model."""
    offers = "\n".join(f"{code_of(each)}: {each}" for each in flights)
    return (
        f"Choose the best of these {len(flights)} flights for a traveller.\n\n{offers}\n\n"
        f"What the traveller wishes: {wishes or 'a fair price at a reasonable hour'}.\n\n"
        "Answer in two lines and nothing else:\n"
        "FLIGHT: the code at the beginning of its line\n"
        "REASON: one or two sentences for the traveller"
    )


def choice(answer: str, flights: Sequence[Flight]) -> tuple[Flight | None, str]:
    """Return the flight that an answer names, or None, and its reason.

    Models do not always answer in two lines. The first code after ``FLIGHT:`` counts, or the only one in the answer.
    """
    by_code = {code_of(each): each for each in flights}
    pattern = rf"\b({'|'.join(map(re.escape, by_code))})\b"
    named = re.search(rf"FLIGHT\W*{pattern}", answer, re.IGNORECASE)
    codes = {named[1].upper()} if named else {each.upper() for each in re.findall(pattern, answer, re.IGNORECASE)}
    chosen = by_code[codes.pop()] if len(codes) == 1 else None
    reason = re.search(r"REASON\W*(\w.*)", answer, re.IGNORECASE | re.DOTALL)
    return chosen, (reason[1] if reason else answer).strip()[:MAX_WORDS]
