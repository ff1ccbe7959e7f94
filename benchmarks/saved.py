"""A run kept as JSON, so that its table and its plots can be made anew without measuring again."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.runner import Plan, Results


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured, how, and on what.

    Attributes:
        words: ``-k`` of the run, which says what was measured.
        about: names and values that the figures depend on.
    """

    plan: Plan
    results: Results
    about: Sequence[tuple[str, str]]
    words: str | None = None

    def save(self, file: Path) -> None:
        """Write it."""
        kept = {
            "words": self.words,
            "about": [list(pair) for pair in self.about],
            "plan": asdict(self.plan),
            "failures": self.results.failures,
            "rounds": [{name: asdict(found) for name, found in each.items()} for each in self.results.rounds],
        }
        file.write_text(json.dumps(kept, indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> "Run":
        """Read it.

        Raises:
            OSError, ValueError, KeyError, TypeError: there is no such run.
        """
        kept = json.loads(file.read_text())
        rounds = [{name: Measurement(**found) for name, found in each.items()} for each in kept["rounds"]]
        return cls(
            Plan(**kept["plan"]),
            Results(rounds, kept["failures"]),
            [(name, value) for name, value in kept["about"]],
            kept["words"],
        )
