"""Ways in which a setting's value can be weaker than the safe one. Each takes the value and the safe one."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.utils.module_loading import import_string

Weaker = Callable[[Any, Any], bool]


def differs(value: Any, safe: Any) -> bool:
    """Whether it is another value; the order of a list is none."""
    if isinstance(value, list | tuple) and isinstance(safe, list | tuple):
        return any(each not in safe for each in value) or any(each not in value for each in safe)
    return bool(value != safe)


def is_off(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """Whether a switch is off."""
    return not value


def adds(value: Any, safe: Any) -> bool:
    """Whether a list has more in it."""
    return not isinstance(value, list | tuple | set) or any(each not in safe for each in value)


def lacks(value: Any, safe: Any) -> bool:
    """Whether something is missing."""
    return not isinstance(value, Mapping) or any(each not in value for each in safe)


def lasts(longest: int) -> Weaker:
    """Whether it lives longer than so many seconds, or for ever."""

    def weaker(value: Any, safe: Any) -> bool:  # noqa: ARG001
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        return isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= longest

    return weaker


def is_positive(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """Whether it is anything but 0."""
    return bool(value != 0)


def is_no_subclass(value: Any, safe: Any) -> bool:
    """Whether a class is neither the safe one nor made from it."""
    try:
        given = import_string(value) if isinstance(value, str) else value
        wanted = import_string(safe) if isinstance(safe, str) else safe
    except Exception:  # noqa: BLE001 - whatever importing it raises, it is not usable
        return True
    return not isinstance(given, type) or not issubclass(given, wanted)


def is_no_validator(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """Whether a validator does not hold clients to our rules."""
    from django_mcp.oauth.validator import MCPValidatorMixin  # noqa: PLC0415 - needs the toolkit

    return is_no_subclass(value, MCPValidatorMixin)


def has_no_such_class(value: Any, safe: Any) -> bool:
    """Whether none of the classes is one of the safe ones."""
    given = value if isinstance(value, list | tuple) else [value]
    return any(all(is_no_subclass(each, wanted) for each in given) for wanted in safe)


def never(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """For what a site may choose."""
    return False
