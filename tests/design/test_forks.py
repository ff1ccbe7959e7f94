"""What a forked process must not take over is registered with ``core/after_fork.py``."""

import ast
import importlib
import pkgutil
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import django_mcp

ROOT = Path(django_mcp.__file__).parent
LOCKS = {"Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event", "Barrier"}
TABLES = {"dict", "list", "set", "defaultdict", "deque", "OrderedDict", "Counter", "WeakSet"} | {
    *("WeakKeyDictionary", "WeakValueDictionary")
}
PRIVATE = re.compile("_[a-z][a-z_]*")
OF_ONE_CALL = {
    "core/deadline.py": "a running call",
    "core/execution.py: ToolExecution": "a running call",
    "management/commands/mcp_notify.py": "a command's loop, which does not fork",
    "tasks/channel.py": "a running task",
    "transports/stdio.py": "the one connection of a process",
}
"""Locks that end with what has them: a forked process does not go on with it."""
THE_SAME = {
    "auth/protected_resource.py: _caches": "caches of answers that depend on settings",
    "core/after_fork.py: _owners": "the registry itself",
    "core/after_fork.py: _tables": "the registry itself",
    "core/apps.py: _apps": "registered at start-up",
    "core/lists.py: _left_out": "what was found out of tools",
    "core/late_tools.py: _waiting": "registered at start-up",
    "core/rate_limited_log.py: _logged": "when something was logged",
    "core/redaction.py: _schemas": "a cache by tool",
    "core/server.py: _servers": "registered at start-up",
    "core/tool_search.py: _words_of": "a cache by tool",
    "core/execution.py: _slots": "tools with their slots, which are reset themselves",
    "approvals/tool_definitions.py: _cached": "a cache by tool",
    "model_resources/registry.py: _logged": "what was logged once",
    "oauth/validator.py: _verified": "a cache of hashes",
    "integrations/admin_site/tools.py: _late": "registered at start-up",
    "skills/declaration.py: _declared": "registered at start-up",
}
"""Tables that are right in a forked process."""
CLASSES = {"_LazySettings", "ApprovalsApp", "App", "MCPServer", "Policies", "Prepared", "Skills"}
"""Classes of objects of modules that are right in a forked process: what was read at start-up, and caches by thread."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith("migrations/"):
            yield name, ast.parse(path.read_text())


def called(node: ast.expr | None) -> str:
    """The name of what is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def locks(name: str, node: ast.AST, owner: str = "") -> Iterator[str]:
    """Where locks are made that stay what they are."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            methods = {method.name for method in child.body if isinstance(method, ast.FunctionDef)}
            if "after_fork" not in methods:
                yield from locks(name, child, child.name)
            continue
        if called(child if isinstance(child, ast.expr) else None) in LOCKS and ast.unparse(child).startswith(
            "threading."
        ):
            yield f"{name}: {owner}"
        yield from locks(name, child, owner)


def tables(name: str, body: list[ast.stmt]) -> Iterator[str]:
    """Tables of a module and of its classes that stay what they are."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from tables(name, statement.body)
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        is_table = isinstance(statement.value, ast.Dict | ast.List | ast.Set) or called(statement.value) in TABLES
        for target in targets:
            if is_table and isinstance(target, ast.Name) and PRIVATE.fullmatch(target.id):
                yield f"{name}: {target.id}"


def test_locks_are_free_in_a_forked_process() -> None:
    found = [where for name, tree in modules() for where in locks(name, tree)]
    wrong = [where for where in found if where not in OF_ONE_CALL and where.partition(":")[0] not in OF_ONE_CALL]
    assert wrong == [], "make it a FreshLock, or anew in after_fork()"
    assert {where for where in OF_ONE_CALL if not any(each.startswith(where) for each in found)} == set()


def test_tables_of_what_calls_hold_are_empty_in_a_forked_process() -> None:
    found = {where for name, tree in modules() for where in tables(name, tree.body)}
    assert found - THE_SAME.keys() == set(), "wrap it with clear_after_fork(), or say why not"
    assert THE_SAME.keys() - found == set()


HOLDS = (dict, list, set, deque, WeakKeyDictionary, WeakValueDictionary, WeakSet)


def test_objects_of_modules_that_hold_something_are_reset_in_a_forked_process() -> None:
    wrong = []
    for info in pkgutil.walk_packages(django_mcp.__path__, "django_mcp."):
        if ".migrations" in info.name or info.name == "django_mcp.tasks.job":  # which needs an extra
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            kind = type(value)
            if (
                not isinstance(value, type)
                and kind.__module__.startswith("django_mcp")
                and kind.__name__ not in CLASSES
            ):
                held = [key for key, kept in attributes(value).items() if isinstance(kept, HOLDS)]
                if held and not hasattr(value, "after_fork"):
                    wrong.append(f"{info.name}.{name}: {held}")
    assert wrong == []


def attributes(value: Any) -> dict[str, Any]:
    slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
    return {**getattr(value, "__dict__", {}), **{slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}}
