"""What a model is told where a limit stopped its call: what the limit is, and how to ask for less."""

from django_mcp.primitives.output import OutputTooLarge
from django_mcp.primitives.tool import Tool

NARROWING = (
    *("limit", "page_size", "per_page", "max_results", "top", "first", "count", "size"),
    *("fields", "columns", "include", "page", "offset", "cursor"),
    *("query", "search", "words", "filter", "filters", "since", "until", "after", "before", "start", "end"),
)
"""Names that arguments have by which less can be asked for, the likeliest first."""
MOST_NAMED = 4


def ask_for_less(tool: Tool) -> str:
    """How, naming the tool's own arguments where it has such."""
    properties = tool.definition["inputSchema"].get("properties", {})
    names = [f"`{name}`" for name in NARROWING if name in properties][:MOST_NAMED]
    if not names:
        return "Ask for less: something narrower, or one part at a time."
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"Ask for less, with {listed}."


def too_large(error: OutputTooLarge, tool: Tool) -> str:
    """For a result that is longer than it may be."""
    result = f"This result has {error.size:,} {error.unit}; the limit is {error.limit:,}, so it was not sent."
    return f"{result}{'' if tool.read_only else _undone(tool)} {ask_for_less(tool)}"


def took_too_long(seconds: float, tool: Tool) -> str:
    """For a call that was stopped."""
    return f"The tool took longer than {seconds:g} s and was stopped.{_undone(tool)} {ask_for_less(tool)}"


def busy(tool: Tool) -> str:
    """For a call that found others under way."""
    most = tool.concurrency_limit
    calls = "another call" if most == 1 else f"{most} other calls"
    return f"The tool is busy with {calls}, the most it takes at a time. Try again in a few seconds."


def _undone(tool: Tool) -> str:
    if tool.read_only:
        return ""
    if tool.atomic and not tool.function.is_async:
        return " What it had not finished writing to the database was rolled back."
    return " What it had done by then may stay: look before you call it again."
