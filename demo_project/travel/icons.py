"""Icons of tools and resources."""

from urllib.parse import quote

from django_mcp import Icon


def drawing(shapes: str) -> Icon:
    """Return an icon from SVG shapes in a 24 by 24 square."""
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'>{shapes}</svg>"
    return Icon(f"data:image/svg+xml,{quote(svg)}", mime_type="image/svg+xml", sizes=["any"])


PLANE = drawing(
    "<path fill='#0b6b63' d='M21 16v-2l-8-5V3.5a1.5 1.5 0 0 0-3 0V9l-8 5v2l8-2.5V19l-2 1.5V22l3.5-1 3.5 1v-1.5L13 19"
    "v-5.5z'/>"
)
SUN = drawing(
    "<circle cx='12' cy='12' r='5' fill='#d98e04'/>"
    "<path stroke='#d98e04' stroke-width='2' d='M12 1v4m0 14v4M1 12h4m14 0h4'/>"
)
BED = drawing("<path stroke='#0b6b63' stroke-width='2' fill='none' d='M2 20V5m0 11h20v4m0-4v-3a3 3 0 0 0-3-3H2'/>")
