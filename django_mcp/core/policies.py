"""What people decided about tools: to allow them, to ask somebody for each call, or to block them.

Here is what a decision means for a caller. Where decisions are kept, and how they come here, is for others to know
(``policies``): an endpoint has a ``Policies`` that is replaced as a whole when something changes.
"""

import enum
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from django_mcp.core.concurrency import Runner, free_pool
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.principal import Principal
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InternalError

logger = logging.getLogger("django_mcp")


class Decision(enum.IntEnum):
    """The strictest last."""

    ALLOW = 0
    ASK = 1
    BLOCK = 2


class Rule(NamedTuple):
    """A decision, and whom it is for.

    Attributes:
        decision: about a tool.
        group: name of the Django group whose users it is for; None for everybody.
        client_id: the OAuth client it is for; None for all.
        version: what is another one when somebody decides anew.
    """

    decision: Decision
    group: str | None = None
    client_id: str | None = None
    version: str = ""

    @property
    def is_for_everybody(self) -> bool:
        """Whether it depends on nobody."""
        return self.group is None and self.client_id is None


class Policies:
    """Those of one endpoint.

    Args:
        rules: key of a tool -> what was decided about it, and what it says of itself. A tool without rules is allowed.

    Attributes:
        rules: the same.
        blocking: keys of tools that are blocked for somebody.
        asking: keys of tools of which calls may have to be approved.
    """

    __slots__ = ("asking", "blocking", "rules")

    def __init__(self, rules: Mapping[str, Sequence[Rule]]) -> None:
        self.rules = rules
        self.blocking = self._with(Decision.BLOCK)
        self.asking = self._with(Decision.ASK)

    def _with(self, decision: Decision) -> frozenset[str]:
        return frozenset(key for key, rules in self.rules.items() if any(each.decision is decision for each in rules))

    def may_block(self, primitive: Primitive) -> bool:
        """Whether it is blocked for somebody."""
        return primitive.key in self.blocking and isinstance(primitive, Tool)

    def needs_groups(self, tool: Tool) -> bool:
        """Whether what was decided about it depends on groups."""
        return any(each.group is not None for each in self.rules.get(tool.key, ()))

    def of(self, tool: Tool, principal: Principal, groups: Collection[str]) -> Rule:
        """What counts for a caller: the strictest of what was decided for them, else what was for everybody."""
        rules = self.rules.get(tool.key, ())
        own = [each for each in rules if not each.is_for_everybody and _is_for(each, principal, groups)]
        return _strictest(own) or _strictest(each for each in rules if each.is_for_everybody) or ALLOWED


ALLOWED = Rule(Decision.ALLOW)
NONE = Policies({})


def _is_for(rule: Rule, principal: Principal, groups: Collection[str]) -> bool:
    return (rule.group is None or rule.group in groups) and (
        rule.client_id is None or rule.client_id == principal.client_id
    )


def _strictest(rules: Iterable[Rule]) -> Rule | None:
    return max(rules, key=lambda rule: rule.decision, default=None)


class ApprovalGrant:
    """Leave to run one call that had to be approved. It is used up in the moment in which the tool runs.

    Attributes:
        public_id: of the ``Approval``.
    """

    public_id = ""

    def use(self) -> None:
        """Use it up, in a step of its own that is committed before the tool runs. Blocks.

        Raises:
            ToolError: somebody was faster, or it is good no longer.
        """
        raise NotImplementedError

    def require_same(self, argument: str, rows: Any) -> None:
        """See that an argument still addresses the rows for which the call was approved.

        Args:
            argument: name of the argument.
            rows: as ``Tool.rows_of`` gives them for it.

        Raises:
            ToolError: it addresses others.
        """

    def ended(self, outcome: str) -> None:
        """Note what came of the run: ``"ok"`` or ``"error"``. Blocks."""

    def around(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of *work*, which is run once the grant is used up."""
        self.use()
        try:
            fields = work()
        except Exception:
            self.ended("error")
            raise
        self.ended("error" if fields.get("isError") else "ok")
        return fields


class PolicyCache:
    """Where decisions come from.

    Attributes:
        reload: updates the ``Policies`` of every endpoint. Blocks. None if the site has no policies.
        due: when they are to be brought up to date, by the monotonic clock; 0 for before the next call.
        is_read: they were, at least once.
    """

    def __init__(self) -> None:
        self.reload: Callable[[], float] | None = None
        self.due = NEVER
        self.is_read = False
        self._expired = 0
        self._retry = self._say_again = 0.0
        self._is_missing = False
        self._lock = threading.Lock()

    @property
    def is_due(self) -> bool:
        """Whether somebody may have decided something that is not known here."""
        return self.due <= monotonic()

    def expire(self) -> None:
        """Look again before the next call, even where somebody looks just now."""
        self._expired += 1
        self._retry = 0.0
        self.due = NEVER if self.reload is None else 0.0

    async def refresh(self, runner: Runner) -> None:
        """Bring them up to date, where that is due."""
        if self.is_due:
            await (runner if runner.is_inline else free_pool()).sync(self.bring_up_to_date)

    def bring_up_to_date(self) -> None:
        """Look at what was decided. Blocks; of threads that come together, one looks for all of them.

        Raises:
            InternalError: that is not known, and was not before.
        """
        with self._lock:
            if self.reload is not None and self.due <= monotonic():
                if self._retry > monotonic():  # nobody is let through meanwhile, but not everybody has to try
                    raise unknown(is_missing=self._is_missing)
                self._look(self.reload)

    def _look(self, reload: Callable[[], float]) -> None:
        expired = self._expired
        try:
            due = monotonic() + reload()
        except Exception as error:
            if not self.is_read:
                if self._say_again <= monotonic():
                    self._say_again = monotonic() + SAY_SECONDS
                    logger.exception("the policies of tools cannot be read; were all migrations run?")
                self._retry, self._is_missing = monotonic() + RETRY_SECONDS, is_unmigrated(error)
                raise unknown(is_missing=self._is_missing) from None
            logger.warning("the policies of tools cannot be read, so those known before count: %s", error)
            self.due = monotonic() + RETRY_SECONDS
        else:
            self.is_read = True
            self.due = due if self._expired == expired else 0.0


def unknown(*, is_missing: bool = False) -> InternalError:
    """Nobody knows what was decided, so nothing is run."""
    return InternalError(NOT_MIGRATED if is_missing else "Internal server error.")


NEVER = float("inf")
RETRY_SECONDS = 0.5
"""After how long the database is asked again that could not be read."""
SAY_SECONDS = 10.0
"""How often the log says so."""

policy_cache = PolicyCache()
