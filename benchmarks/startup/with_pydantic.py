"""The same bare site, in which something uses pydantic: it describes one type, as Django sites with ninja do."""

from pydantic import TypeAdapter

from benchmarks.startup.bare import *  # noqa: F403

TypeAdapter(dict[str, int]).json_schema()
