"""What a check finds: an id, how bad it is, what was observed, and what to do."""

import enum
from dataclasses import dataclass, field
from typing import Any

from django_mcp.doctor.catalogue import FINDINGS


class Severity(enum.IntEnum):
    """How bad it is, the worst last."""

    OK = 0
    HINT = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """As it is told."""
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or worth knowing.

    Attributes:
        id: its key in the catalogue.
        message: a sentence that says what was observed.
        remedy: the exact setting or directive that helps.
    """

    id: str
    severity: Severity
    message: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        """For ``--json``."""
        return {"id": self.id, "severity": self.severity.word, "message": self.message, "remedy": self.remedy}


@dataclass
class Checked:
    """What one check came to.

    Attributes:
        seen: a sentence about what is as it should be.
        skipped: why nothing was looked at; empty where something was.
    """

    name: str
    title: str
    findings: list[Finding] = field(default_factory=list)
    seen: str = ""
    skipped: str = ""

    @property
    def severity(self) -> Severity:
        """That of the worst finding."""
        return max((each.severity for each in self.findings), default=Severity.OK)

    def to_json(self) -> dict[str, Any]:
        """For ``--json``. A check that found nothing has one finding that says so."""
        fine = [] if self.skipped else [Finding(f"{self.name}.ok", Severity.OK, self.seen, "").to_json()]
        findings = [each.to_json() for each in self.findings] or fine
        return {"name": self.name, "severity": self.severity.word, "skipped": self.skipped, "findings": findings}


class Stop(Exception):
    """A check cannot go on: what it found makes the rest of it meaningless.

    Args:
        finding_id: of the catalogue.
        values: what its sentence and remedy name.
    """

    def __init__(self, finding_id: str, **values: Any) -> None:
        super().__init__(finding_id)
        self.finding_id = finding_id
        self.values = values


def make(finding_id: str, **values: Any) -> Finding:
    """A finding of the catalogue, with what was observed."""
    severity, message, remedy = FINDINGS[finding_id]
    return Finding(finding_id, Severity[severity.upper()], message.format(**values), remedy.format(**values))
