"""Names in a declaration that look like misspelt ones of ``ModelResource``: Python would say nothing of them."""

import difflib
from collections.abc import Iterator
from typing import Any

from django_mcp.exposure.declaration import ModelResource

_CUTOFF = 0.85
_OWN_PACKAGE = __name__.partition(".")[0]


def misspelt(resource: ModelResource) -> Iterator[tuple[str, str]]:
    """Names that nobody reads, each with the one that may have been meant."""
    kinds: list[Any] = [each for each in type(resource).__mro__ if each is not object]
    ours = [each for each in kinds if each.__module__.partition(".")[0] == _OWN_PACKAGE]
    known = {name for each in ours for name in vars(each) if not name.startswith("_")} | vars(resource).keys()
    shown = {each for each in (*resource.fields, *(resource.list_fields or ())) if isinstance(each, str)}
    declared = dict.fromkeys(name for each in kinds if each not in ours for name in vars(each))
    for name in declared:
        if name.startswith("_") or name in known or name in shown:
            continue
        if close := difflib.get_close_matches(name, sorted(known), n=1, cutoff=_CUTOFF):
            yield name, close[0]
