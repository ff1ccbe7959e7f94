"""A row as Markdown, for those who read instead of computing."""

from typing import Any

from django_mcp.exposure.exposed import Exposed


def to_markdown(exposed: Exposed, row: dict[str, Any]) -> str:
    """A heading, a line for each value, and a section for each that has several lines."""
    title = row.get(exposed.resource.title_field or "") or row[exposed.lookup_name]
    lines, sections = [f"# {_line(title)}", ""], []
    for name, value in row.items():
        heading = name.replace("__", " ").replace("_", " ")
        if isinstance(value, str) and "\n" in value:
            sections += ["", f"## {heading}", "", value.rstrip()]
        elif value not in (None, "", []):
            lines.append(f"* {heading}: {_line(value)}")
    return "\n".join([*lines, *sections, ""])


def _line(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case {"uri": str(uri), **others}:
            return f"[{others.get('title') or others.get('name') or uri}]({uri})"
        case list():
            return "; ".join(map(_line, value))
        case dict():
            return "; ".join(f"{key}: {_line(each)}" for key, each in value.items())
    return " ".join(str(value).split())
