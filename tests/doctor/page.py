"""The table of ``docs/doctor.md``, as the catalogue has it: ``python -m tests.doctor.page`` writes it."""

from pathlib import Path

from django_mcp.doctor.messages import FINDINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"
MARK = "<!-- findings -->\n"


def table() -> str:
    """A row for each finding. What is observed stands in braces."""
    rows = ["| id | | what it says | what to do |", "|---|---|---|---|"]
    for name, (severity, message, remedy) in FINDINGS.items():
        cells = [f"`{name}`", severity, *(each.replace("{{", "{").replace("}}", "}") for each in (message, remedy))]
        rows.append(f"| {' | '.join(each.replace('|', '&#124;') for each in cells)} |")
    return "\n".join(rows) + "\n"


def written(page: str) -> str:
    """*page* with the table as it should be."""
    return f"{page.partition(MARK)[0]}{MARK}\n{table()}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
