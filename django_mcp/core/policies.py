"""Tool policies: decisions to allow, require approval or block, and the cache that keeps them current.

``approvals`` stores and loads them. The ``Policies`` of an endpoint are replaced as a whole on each change.
"""

import enum
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from django_mcp.core.after_fork import reset_after_fork
from django_mcp.core.concurrency import Runner
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.principal import Principal
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InternalError

logger = logging.getLogger("django_mcp")


OTHER_PERSON = "other_person"
"""Member of a preview of the package that the requester may not approve, whatever the tool says."""


class Decision(enum.IntEnum):
    """A tool policy, the strictest last."""

    ALLOW = 0
    ASK = 1
    BLOCK = 2


class Rule(NamedTuple):
    """A decision and the callers it applies to.

    Attributes:
        decision: the decision.
        group: name of a Django group; None for all users.
        client_id: an OAuth client; None for all.
        version: changes with each new decision.
    """

    decision: Decision
    group: str | None = None
    client_id: str | None = None
    version: str = ""

    @property
    def is_for_everybody(self) -> bool:
        return self.group is None and self.client_id is None


class Limit(NamedTuple):
    """The tools that a client is limited to.

    Attributes:
        rule: blocks all others.
        tools: keys of the tools, to which the other rules apply.
    """

    rule: Rule
    tools: frozenset[str]


class Policies:
    """The policies of one endpoint.

    Attributes:
        rules: key of a tool -> its rules, its own ``policy`` included. A tool without rules is allowed.
        limits: id of a client -> its limit.
        blocking: keys of tools that are blocked for some callers.
        asking: keys of tools that may require approval.
    """

    __slots__ = ("asking", "blocking", "limits", "rules")

    def __init__(self, rules: Mapping[str, Sequence[Rule]], limits: Mapping[str, Limit]) -> None:
        self.rules = rules
        self.limits = limits
        self.blocking = self._with(Decision.BLOCK)
        self.asking = self._with(Decision.ASK)

    def _with(self, decision: Decision) -> frozenset[str]:
        return frozenset(key for key, rules in self.rules.items() if any(rule.decision is decision for rule in rules))

    def may_block(self, primitive: Primitive) -> bool:
        return primitive.key in self.blocking and isinstance(primitive, Tool)

    def ask_everybody(self, tool: Tool) -> bool:
        rules = self.rules.get(tool.key, ()) if tool.key in self.asking else ()
        is_general = any(rule.decision is Decision.ASK and rule.is_for_everybody for rule in rules)
        return is_general and not any(rule.decision is Decision.ALLOW for rule in rules)

    def limits_tools(self, principal: Principal) -> bool:
        return principal.read_only or principal.client_id in self.limits

    def limit_on(self, primitive: Primitive, principal: Principal) -> Rule | None:
        """Return the rule that blocks a tool, as the caller's client or credential is limited to others, or None."""
        if principal.read_only and isinstance(primitive, Tool) and primitive.kind == "tool" and not primitive.read_only:
            return READ_ONLY
        limit = self.limits.get(principal.client_id) if principal.client_id else None
        if limit is None or not isinstance(primitive, Tool) or primitive.kind != "tool":
            return None
        # The tool that shows a form goes with the one that takes it.
        return limit.rule if limit.tools.isdisjoint((primitive.key, primitive.opens)) else None

    def needs_groups(self, tool: Tool) -> bool:
        return any(rule.group is not None for rule in self.rules.get(tool.key, ()))

    def of(self, tool: Tool, principal: Principal, groups: Collection[str]) -> Rule:
        """Return the strictest rule that names the caller's group or client, else the strictest general one."""
        limit = self.limit_on(tool, principal)
        if limit is not None:
            return limit
        rules = self.rules.get(tool.key, ())
        own = [rule for rule in rules if not rule.is_for_everybody and _is_for(rule, principal, groups)]
        return _strictest(own) or _strictest(rule for rule in rules if rule.is_for_everybody) or ALLOWED


ALLOWED = Rule(Decision.ALLOW)
READ_ONLY = Rule(Decision.BLOCK, version="read-only")
NONE = Policies({}, {})


def _is_for(rule: Rule, principal: Principal, groups: Collection[str]) -> bool:
    return (rule.group is None or rule.group in groups) and (
        rule.client_id is None or rule.client_id == principal.client_id
    )


def _strictest(rules: Iterable[Rule]) -> Rule | None:
    return max(rules, key=lambda rule: rule.decision, default=None)


class ApprovalGrant:
    """Permission to run one approved call, used up when the tool starts.

    Attributes:
        public_id: of the ``Approval``.
    """

    public_id = ""

    def use(self) -> None:
        """Use up the grant, committed before the tool runs. Blocks.

        Raises:
            ToolError: it was already used, or is no longer valid.
        """
        raise NotImplementedError

    def require_same(self, argument: str, rows: Any) -> None:
        """Raise ``ToolError`` if an argument now identifies other rows than when the call was approved.

        *rows* has the shape of ``Tool.rows_of``.
        """

    def ended(self, outcome: str) -> None:
        """Record the outcome, ``"ok"`` or ``"error"``. Blocks."""

    def around(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Use up the grant and return the result of *work*."""
        self.use()
        try:
            fields = work()
        except InputRequired:  # the next round is under the same approval
            raise
        except BaseException:  # cancelled or out of time, too
            self.ended("error")
            raise
        self.ended("error" if fields.get("isError") else "ok")
        return fields


class PolicyCache:
    """The loader of the policies of all endpoints.

    Attributes:
        reload: updates all ``Policies`` and returns the seconds until the next reload. Blocks. None without policies.
        find_unmatched: returns a sentence about each policy of an endpoint that matches nobody. Blocks.
        due: monotonic time of the next reload; 0 for before the next call.
        is_read: True after the first successful reload.
    """

    def __init__(self) -> None:
        self.reload: Callable[[], float] | None = None
        self.find_unmatched: Callable[[Any], list[str]] = lambda _server: []
        self.due = NEVER
        self.is_read = False
        self._expired = 0
        self._retry = self._say_again = 0.0
        self._is_missing = False
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        # A thread of the parent process may hold the old lock, and would never release it here.
        self._lock = threading.Lock()

    @property
    def is_due(self) -> bool:
        return self.due <= monotonic()

    def expire(self) -> None:
        """Reload before the next call, even if a reload is in progress."""
        # Counted, so that a reload in progress knows that what it has read may be out of date (_read).
        self._expired += 1
        self._retry = 0.0
        self.due = NEVER if self.reload is None else 0.0

    async def refresh(self, runner: Runner) -> None:
        if self.is_due:
            await runner.own.sync(self.reload_if_due)

    def reload_if_due(self) -> None:
        """Reload the policies if due. Blocks; of concurrent threads, one reloads.

        Raises:
            InternalError: they cannot be read, and never were.
        """
        # Looked at again under the lock: threads that waited for a reload find it done.
        with self._lock:
            if self.reload is not None and self.due <= monotonic():
                if self._retry > monotonic():  # reject calls, without a query for each
                    raise policies_unavailable(is_missing=self._is_missing)
                self._read(self.reload)

    def _read(self, reload: Callable[[], float]) -> None:
        expired = self._expired
        try:
            due = monotonic() + reload()
        except Exception as error:
            is_logged = self._say_again <= monotonic()
            if is_logged:
                self._say_again = monotonic() + LOG_SECONDS
            if not self.is_read:
                if is_logged:
                    logger.exception("tool policies cannot be read; check that all migrations were run")
                self._retry, self._is_missing = monotonic() + RETRY_SECONDS, is_unmigrated(error)
                raise policies_unavailable(is_missing=self._is_missing) from None
            if is_logged:
                logger.warning("tool policies cannot be read, so the last known ones still apply: %s", error)
            self.due = monotonic() + RETRY_SECONDS
        else:
            self.is_read = True
            # If expire() was called during the read, the policies just read may be out of date.
            self.due = due if self._expired == expired else 0.0


def policies_unavailable(*, is_missing: bool = False) -> InternalError:
    return InternalError(NOT_MIGRATED if is_missing else "Internal server error.")


NEVER = float("inf")
RETRY_SECONDS = 0.5
"""Delay after a failed reload."""
LOG_SECONDS = 10.0
"""Interval between log records about it."""

policy_cache = PolicyCache()
