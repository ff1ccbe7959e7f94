"""Areas that can be told apart in grey: each kind has its own pattern, in the colour of its class."""

from django.utils.safestring import SafeString

from django_mcp.admin.plots.markup import NOTHING, tag

SIZE = 6
"""Of a pattern's tile, in pixels."""

STRIPES: dict[str, tuple[tuple[float, float, float, float], ...]] = {
    "error": ((0, 0, 2, SIZE),),
    "refused": ((0, 0, SIZE, 2),),
    "waiting": ((0, 0, 2, SIZE), (0, 0, SIZE, 2)),
    "other": ((2, 2, 2, 2),),
}
"""What is left out of a tile, as x, y, width and height; other kinds are full."""
TURNED = {"error": "rotate(45)", "waiting": "rotate(45)"}


def patterns(key: str, kinds: list[str]) -> SafeString:
    """The definitions for one plot."""
    return tag("defs", *(_pattern(key, kind) for kind in kinds if kind in STRIPES))


def _pattern(key: str, kind: str) -> SafeString:
    holes = [tag("rect", x=x, y=y, width=w, height=h, class_="mcp-hole") for x, y, w, h in STRIPES[kind]]
    return tag(
        "pattern",
        tag("rect", width=SIZE, height=SIZE, class_=f"mcp-{kind}"),
        *holes,
        id=f"{key}-{kind}",
        width=SIZE,
        height=SIZE,
        patternUnits="userSpaceOnUse",
        patternTransform=TURNED.get(kind, "rotate(0)"),
    )


def filled(key: str, kind: str) -> dict[str, str]:
    """The attributes of an area of that kind."""
    return {"fill": f"url(#{key}-{kind})"} if kind in STRIPES else {"class_": f"mcp-{kind}"}


def swatch(key: str, kind: str) -> SafeString:
    """The same as a small square, for a legend beside the plot that has the definitions."""
    square = tag("rect", x=0.5, y=0.5, width=13, height=13, **filled(key, kind))
    edge = tag("rect", x=0.5, y=0.5, width=13, height=13, class_=f"mcp-edge mcp-edge-{kind}")
    return tag("svg", square, edge or NOTHING, class_="mcp-swatch", width=14, height=14, aria_hidden="true")
