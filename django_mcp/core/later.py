"""What many sites never use is imported when it is used."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


def later(path: str) -> Callable[..., Any]:
    """A function that stands for another one, whose module is imported with the first call.

    It goes where a function has to be given long before anybody calls it, like the receiver of a signal. Where there
    is nothing to be given, an ``import`` in a function does.

    Args:
        path: of the other one, like ``"django_mcp.tasks.revocation.on_user_saved"``. The test of the layers reads it
            like an ``import``, and another one looks whether it is there.
    """
    where, _, name = path.rpartition(".")
    module: ModuleType | None = None

    def stand_in(*args: Any, **keywords: Any) -> Any:
        nonlocal module
        if module is None:
            module = import_module(where)
        return getattr(module, name)(*args, **keywords)

    return stand_in
