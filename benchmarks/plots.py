"""Ratios as SVG: one picture for each group of targets, drawn here.

A bar is the median over the rounds, its whiskers the least and the greatest, a mark across it the ratio promised. The
name stands above its bar, so that the longest has room; sizes are those of a picture that is read on a phone too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.report import Row
from benchmarks.targets import SDK_ADD

WIDTH, BARS = 500, 328
"""Of the picture, and of the longest bar in it, in its own units, which are pixels at full size."""
PAD, HEAD, ROW, FOOT = 16, 76, 40, 14
THICK, CAP = 10, 4
"""Of a bar; of a whisker's end, above and below its middle."""

STYLE = """
  text { fill: #1f2328; font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
  .title { font-size: 15px; font-weight: 600 }
  .note { fill: #57606a; font-size: 11.5px; font-weight: 400 }
  .number { font-weight: 600 }
  .ground { fill: #ffffff; stroke: #d0d7de }
  .track { fill: #eff2f5 }
  .ours { fill: #2f8f5b }
  .other { fill: #8c959f }
  .spread { stroke: #1f2328; stroke-width: 1.4; fill: none }
  .promise { stroke: #bc4c00; stroke-width: 2.6 }
  .one { stroke: #57606a; stroke-width: 1; stroke-dasharray: 2 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9da7b1 }
    .ground { fill: #0d1117; stroke: #30363d }
    .track { fill: #1c2129 }
    .ours { fill: #3fa66d }
    .other { fill: #6e7681 }
    .spread { stroke: #e6edf3 }
    .promise { stroke: #f0883e }
    .one { stroke: #9da7b1 }
  }
"""

LEGEND = "bar: median; whiskers: least and most of all rounds; dots: as fast; thick: promised"


@dataclass(frozen=True, slots=True)
class Group:
    """What is drawn together.

    Attributes:
        key: of the file.
        title: what is shown.
        takes: whether a target belongs to it; the first group that takes it has it.
    """

    key: str
    title: str
    takes: Callable[[Row], bool]


GROUPS: tuple[Group, ...] = (
    Group("beside", "The Django view beside the fastest package", lambda row: " beside " in row.target.name),
    Group("lists", "tools/list of fifty tools", lambda row: row.target.relative_to != SDK_ADD),
    Group("full", "A call with a key, a policy and the log", lambda row: row.target.name.startswith("full ")),
    Group(
        "others",
        "Servers of other packages",
        lambda row: bool(row.target.server.peer) or row.target.name.startswith("sdk tools/list"),
    ),
    Group("edges", "A call of an open endpoint without a log", lambda row: True),  # noqa: ARG005 - all the rest
)


def grouped(table: Sequence[Row]) -> Mapping[str, tuple[Group, list[Row]]]:
    """The rows of each group that has some, by its key. A target that failed has no ratio, and no bar."""
    found: dict[str, tuple[Group, list[Row]]] = {}
    for row in table:
        if row.ratio is not None:
            group = next(group for group in GROUPS if group.takes(row))
            found.setdefault(group.key, (group, []))[1].append(row)
    return found


def write(table: Sequence[Row], directory: Path) -> list[Path]:
    """Write the pictures of a table; the files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for key, (group, rows) in grouped(table).items():
        written.append(directory / f"{key}.svg")
        written[-1].write_text(picture(group, rows))
    return written


def picture(group: Group, rows: Sequence[Row]) -> str:
    """The SVG of one group."""
    full = max(value for row in rows for value in _values(row)) * 1.02
    height = HEAD + ROW * len(rows) + FOOT
    to = {row.target.relative_to for row in rows}
    compared = to.pop() if len(to) == 1 else "what the table says"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="{group.key}-t {group.key}-d">',
        f'<title id="{group.key}-t">{escape(group.title)}</title>',
        f'<desc id="{group.key}-d">{escape(" ".join(map(_said, rows)))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{PAD}" y="26">{escape(group.title)}</text>',
        f'<text class="note" x="{PAD}" y="45">requests per second, as a multiple of: {escape(compared)}</text>',
        f'<text class="note" x="{PAD}" y="61">{escape(LEGEND)}</text>',
    ]
    for at, row in enumerate(rows):
        parts += _bar(row, HEAD + ROW * at, full)
    return "\n".join([*parts, "</svg>", ""])


def _values(row: Row) -> Iterator[float]:
    assert row.ratio is not None
    yield from (row.ratio.most, row.target.at_least or 0.0, 1.0)


def _said(row: Row) -> str:
    assert row.ratio is not None
    promised = f", at least {row.target.at_least:.1f} promised" if row.target.at_least else ""
    return f"{row.target.name}: {row.ratio}{promised}."


def _at(value: float, full: float) -> str:
    return f"{PAD + BARS * value / full:.2f}"


def _bar(row: Row, y: float, full: float) -> Iterator[str]:
    ratio, promised = row.ratio, row.target.at_least
    assert ratio is not None
    top, kind = y + 20, "ours" if _is_ours(row) else "other"
    middle = top + THICK / 2
    yield f"<g><title>{escape(_said(row))}</title>"
    yield f'<text x="{PAD}" y="{y + 14}">{escape(row.target.name)}</text>'
    yield f'<rect class="track" x="{PAD}" y="{top}" width="{BARS}" height="{THICK}" rx="2"/>'
    length = BARS * ratio.median / full
    yield f'<rect class="{kind}" x="{PAD}" y="{top}" width="{length:.2f}" height="{THICK}" rx="2"/>'
    yield _upright("one", 1.0, full, top)
    least, most = _at(ratio.least, full), _at(ratio.most, full)
    ends = f"M{least} {middle - CAP}v{2 * CAP}M{most} {middle - CAP}v{2 * CAP}"
    yield f'<path class="spread" d="M{least} {middle}H{most}{ends}"/>'
    if promised:
        yield _upright("promise", promised, full, top)
    words = f' <tspan class="note">promised {promised:.1f}</tspan>' if promised else ""
    yield f'<text class="number" x="{PAD + BARS + 8}" y="{top + THICK}">{ratio.median:.2f}{words}</text></g>'


def _upright(kind: str, value: float, full: float, top: float) -> str:
    x = _at(value, full)
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="{top - CAP}" y2="{top + THICK + CAP}"/>'


def _is_ours(row: Row) -> bool:
    return row.target.server.needs_database
