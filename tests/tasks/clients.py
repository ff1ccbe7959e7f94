"""A client that knows tasks: what a call gave it, it asks for."""

from collections.abc import Mapping
from typing import Any

from django_mcp.tasks.extension import NAME
from tests.conversation import EVERYTHING, Conversation, Outcome
from tests.exchange import eventually

Fields = dict[str, Any]
OVER = {"completed", "failed", "cancelled"}


def unaware() -> Fields:
    """Capabilities of a client that knows all but tasks."""
    return dict(EVERYTHING)


def knows_tasks(**others: Any) -> Fields:
    """Capabilities of one that knows tasks too."""
    return {**EVERYTHING, "extensions": {NAME: {}}, **others}


class TaskClient:
    """Speaks the newest version.

    Args:
        talk: its conversation.
        headers: of each request.
    """

    def __init__(self, talk: Conversation, **headers: str) -> None:
        self.talk = talk
        self.headers = headers

    def request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Outcome:
        return self.talk.request(method, params, headers={**self.headers, **options.pop("headers", {})}, **options)

    def call(self, name: str, /, *, meta: Mapping[str, Any] | None = None, answers: Any = (), **arguments: Any) -> str:
        """The id of the task of a call."""
        params = {"name": name, "arguments": arguments, **({"_meta": dict(meta)} if meta else {})}
        result = self.request("tools/call", params, answers=answers).result
        assert result["resultType"] == "task", result
        task_id: str = result["taskId"]
        return task_id

    def get(self, task_id: str) -> Fields:
        return self.request("tasks/get", {"taskId": task_id}).result

    def update(self, task_id: str, responses: Mapping[str, Any]) -> Fields:
        return self.request("tasks/update", {"taskId": task_id, "inputResponses": dict(responses)}).result

    def cancel(self, task_id: str) -> Fields:
        return self.request("tasks/cancel", {"taskId": task_id}).result

    def become(self, task_id: str, *statuses: str) -> Fields:
        """The task, once it is in one of *statuses*."""
        return eventually(lambda: self._if(task_id, statuses), f"the task does not become {' or '.join(statuses)}")

    def _if(self, task_id: str, statuses: tuple[str, ...]) -> Fields | None:
        found = self.get(task_id)
        assert found["status"] in statuses or found["status"] not in OVER, found
        return found if found["status"] in statuses else None

    def ended(self, task_id: str) -> Fields:
        """The result of a task, once it has one."""
        result: Fields = self.become(task_id, "completed")["result"]
        return result

    def text(self, task_id: str) -> str:
        """The text of that."""
        return "\n".join(block["text"] for block in self.ended(task_id)["content"] if block["type"] == "text")

    def asked(self, task_id: str) -> Fields:
        """The questions of a task, once it has some."""
        questions: Fields = self.become(task_id, "input_required")["inputRequests"]
        return questions

    def run(self, name: str, /, **arguments: Any) -> str:
        """The text that a call gives in the end."""
        return self.text(self.call(name, **arguments))
