"""What an outside tool found."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.auth_check.browser import Visit


@dataclass
class Verdict:
    """Of one tool about one server.

    Attributes:
        figures: what it found, in a few words.
        offences: everything that is less than it has to be, a line each.
    """

    figures: str
    offences: list[str] = field(default_factory=list)


def read_visits(log: Path) -> list[Visit]:
    """What a browser saw that wrote its visits into *log*."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [Visit(**json.loads(line)) for line in lines]


def why_not_seen(visits: list[Visit], *texts: str) -> list[str]:
    """What is missing for it to have been people at the real pages who let a client in.

    Args:
        visits: what they saw.
        texts: one for each visit there has to be: what its consent page has to say.
    """
    wrong = [] if len(visits) == len(texts) else [f"{len(visits)} people pressed Allow, not {len(texts)}"]
    for visit, text in zip(visits, texts, strict=False):
        if not visit.signed_in:
            wrong.append("a person was not asked to sign in")
        if text not in visit.consent:
            wrong.append(f"a consent page does not say {text!r}: {visit.consent[:500]}")
        wrong += [f"the browser complains about a consent page: {each}" for each in visit.complaints]
    return wrong
