"""Every message the server sends in any test passes here: ``mcp-types`` says whether it is right.

It has one shape for all versions before 2026-07-28, so what came to be known between them is looked at by hand.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from mcp_types import _v2025_11_25 as v2025
from mcp_types import _v2026_07_28 as v2026
from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import BaseModel, Field, TypeAdapter

MODERN = "2026-07-28"
TIMESTAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
LEGACY = "2025-11-25"
CACHEABLE = {
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "skills/list",
    "skills/get",
    "resources/directory/read",
}


class SkillFile(BaseModel, extra="forbid"):
    """One file of a skill (Skills extension, Skill Entries)."""

    uri: str = Field(pattern="^skill://")
    digest: str = Field(pattern="^sha256:[0-9a-f]{64}$")
    size: int = Field(ge=0, strict=True)


class SkillEntry(BaseModel, extra="forbid"):
    """A skill."""

    uri: str = Field(pattern="^skill://.*/SKILL.md$")
    frontmatter: dict[str, Any]
    resources: list[SkillFile] = Field(min_length=1)


class SkillList(v2026.Result):
    """What ``skills/list`` gives."""

    skills: list[SkillEntry]
    next_cursor: str | None = Field(None, alias="nextCursor")


class GotSkill(v2026.Result):
    """What ``skills/get`` gives."""

    skill: SkillEntry


class Directory(v2026.Result):
    """What ``resources/directory/read`` gives."""

    resources: list[v2026.Resource]
    next_cursor: str | None = Field(None, alias="nextCursor")


class TaskShape(BaseModel, extra="forbid"):
    """What is said of a task in any state (Tasks extension, Tasks); the members that a state adds are seen to below."""

    task_id: str = Field(alias="taskId", min_length=1)
    status: Literal["working", "input_required", "completed", "cancelled", "failed"]
    status_message: str = Field("", alias="statusMessage")
    created: str = Field(alias="createdAt", pattern=TIMESTAMP)
    updated: str = Field(alias="lastUpdatedAt", pattern=TIMESTAMP)
    ttl_ms: int | None = Field(alias="ttlMs", strict=True, ge=0)
    poll_interval_ms: int = Field(1, alias="pollIntervalMs", strict=True, ge=1)


class Acknowledged(BaseModel, extra="forbid"):
    """What ``tasks/update`` and ``tasks/cancel`` give."""

    result_type: Literal["complete"] = Field(alias="resultType")
    meta: dict[str, Any] = Field(alias="_meta")


EXTENSIONS = {
    ("skills/list", MODERN): SkillList,
    ("skills/get", MODERN): GotSkill,
    ("resources/directory/read", MODERN): Directory,
}
TASKS = {
    ("tasks/create", LEGACY): v2025.CreateTaskResult,
    ("tasks/get", LEGACY): v2025.GetTaskResult,
    ("tasks/list", LEGACY): v2025.ListTasksResult,
    ("tasks/cancel", LEGACY): v2025.CancelTaskResult,
    ("tasks/result", LEGACY): v2025.CallToolResult,
}
"""The experimental tasks of 2025-11-25; the first is the answer to a ``tools/call`` that asks for one."""
RELATED = "io.modelcontextprotocol/related-task"
STATES = {"completed": "result", "failed": "error", "input_required": "inputRequests"}
"""State of a task -> the member it adds (Tasks extension, Task Status)."""
OF_TASKS = {"tasks/get", "tasks/update", "tasks/cancel"}
RESULTS = {**methods.SERVER_RESULTS, **EXTENSIONS, **TASKS}
INPUT_REQUESTS: TypeAdapter[Any] = TypeAdapter(v2026.InputRequests)

URI = re.compile(r"[a-zA-Z][\w+.-]*:([\w.~:/?#\[\]@!$&'()*+,;=-]|%[0-9a-fA-F]{2})*", re.ASCII)


def uris(value: Any) -> Iterator[str]:
    """What stands under ``uri``, ``src`` and ``websiteUrl`` anywhere; mcp-types does not look at formats."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key in {"structuredContent", "_meta", "inputSchema", "outputSchema"}:
                continue
            if key in {"uri", "src", "websiteUrl"} and isinstance(member, str):
                yield member
            yield from uris(member)
    elif isinstance(value, list):
        for member in value:
            yield from uris(member)


def check(message: dict[str, Any], method: str, version: str) -> None:
    """Raise unless *message* is a right answer to *method* in *version*."""
    if "error" in message:
        assert message.get("id", 0) is not None, "an error leaves an unreadable id out; it is never null"
        JSONRPCError.model_validate({"id": None, **message})
        assert message["error"]["message"]
        return
    JSONRPCResponse.model_validate(message)
    result = message["result"]
    if method == "server/discover":
        version = MODERN  # answered to every client, always in this shape
    method = _method_of(result, method, version)
    if version == MODERN and (method in OF_TASKS or result.get("resultType") == "task"):
        _check_of_tasks(result, method)
        method = ""
    else:
        methods.validate_server_result(method, version, result, surface=RESULTS)
    _check_legacy_tasks(method, version, result)
    for uri in uris(result):
        assert URI.fullmatch(uri), f"{uri!r} is no URI, which the specification's JSON Schema wants here"
    if version == MODERN:
        assert result["resultType"] in ({"complete", "input_required"} if method else {"complete", "task"})
        if result["resultType"] == "input_required":
            assert method in {"tools/call", "prompts/get", "resources/read"}
            assert result["inputRequests"]
            assert result["requestState"]
            for question in result["inputRequests"].values():
                check_question(question, version)
            method = ""
        server_info = result["_meta"]["io.modelcontextprotocol/serverInfo"]
        assert server_info["name"]
        assert server_info["version"]
        if method in CACHEABLE:
            assert type(result["ttlMs"]) is int
            assert result["ttlMs"] >= 0
            assert result["cacheScope"] in {"public", "private"}


def _method_of(result: dict[str, Any], method: str, version: str) -> str:
    """Under which name the shape of a result is known."""
    return "tasks/create" if method == "tools/call" and version == LEGACY and "task" in result else method


def _check_legacy_tasks(method: str, version: str, result: dict[str, Any]) -> None:
    """What the shapes of 2025-11-25 leave open about tasks."""
    if version != LEGACY:
        return
    assert (RELATED in result.get("_meta", {})) == (method == "tasks/result"), "nothing else needs to name its task"
    given = {"tasks/create": [result.get("task")], "tasks/get": [result], "tasks/cancel": [result]}
    for task in result["tasks"] if method == "tasks/list" else given.get(method, []):
        assert not {"ttlMs", "pollIntervalMs", "result", "error"} & set(task), "the extension has these"
        for moment in (task["createdAt"], task["lastUpdatedAt"]):
            assert datetime.fromisoformat(moment).tzinfo is not None


def _check_of_tasks(result: dict[str, Any], method: str) -> None:
    """What a method of the Tasks extension gives, or a task in place of a tool's result."""
    if method in {"tasks/update", "tasks/cancel"}:
        Acknowledged.model_validate(result)
        return
    assert (method, result["resultType"]) in {("tools/call", "task"), ("tasks/get", "complete")}
    fields = {key: value for key, value in result.items() if key not in {"resultType", "_meta"}}
    if method == "tasks/get":
        check_task(fields)
    else:
        TaskShape.model_validate(fields)


def check_task(fields: dict[str, Any]) -> None:
    """Raise unless *fields* are all there is to say of a task in its state (Tasks extension, ``DetailedTask``)."""
    added = STATES.get(fields["status"])
    TaskShape.model_validate({key: value for key, value in fields.items() if key != added})
    match added:
        case "result":
            result = {"resultType": "complete", **fields["result"]}
            methods.validate_server_result("tools/call", MODERN, result, surface=RESULTS)
        case "error":
            JSONRPCError.model_validate({"jsonrpc": "2.0", "id": 1, "error": fields["error"]})
        case "inputRequests":
            assert fields["inputRequests"]
            for question in fields["inputRequests"].values():
                check_question(question, MODERN)


def check_question(question: dict[str, Any], version: str) -> None:
    """Raise unless *question* is a right request to the client in *version*; in the newest, part of a result."""
    method, params = question["method"], question.get("params", {})
    assert (method, shapes_of(version)) in methods.SERVER_REQUESTS, f"{version} has no {method}"
    if version == MODERN:
        assert set(question) == {"method", "params"}, "an input request is no JSON-RPC message"
        INPUT_REQUESTS.validate_python({"key": question})
    else:
        JSONRPCRequest.model_validate(question)
        methods.parse_server_request(method, version, params)
    if method == "elicitation/create":
        _check_elicitation(params, version)
    if method == "sampling/createMessage":
        assert version >= "2025-11-25" or not {"tools", "toolChoice"} & set(params), "tools are new in 2025-11-25"
        for message in params["messages"]:
            assert version >= "2025-11-25" or isinstance(message["content"], dict), "several blocks are, too"


def _check_elicitation(params: dict[str, Any], version: str) -> None:
    is_url = params.get("mode") == "url"
    assert ("elicitationId" in params) == (is_url and version == "2025-11-25"), "2025-11-25 alone has elicitationId"
    assert version >= "2025-11-25" or "mode" not in params, "2025-06-18 has no modes"
    assert ("url" in params) == is_url
    assert ("requestedSchema" in params) != is_url
    if is_url:
        assert URI.fullmatch(params["url"])


def check_notification(message: dict[str, Any], version: str) -> None:
    """Raise unless *message* is a right notification in *version*."""
    JSONRPCNotification.model_validate(message)
    assert "id" not in message
    if message["method"] == "notifications/tasks" and version == MODERN:
        check_task({key: value for key, value in message["params"].items() if key != "_meta"})
        return
    methods.parse_server_notification(message["method"], version, message.get("params"))
    for uri in uris(message):
        assert URI.fullmatch(uri), f"{uri!r} is no URI"


def check_any(message: dict[str, Any], method: str, version: str) -> None:
    """Raise unless *message* is a right message on the way to the answer of *method* in *version*."""
    if "method" not in message:
        check(message, method, version)
    elif "id" in message:
        assert version != MODERN, "this version has no requests to clients"
        check_question(message, version)
    else:
        check_notification(message, version)


def shapes_of(version: str) -> str:
    """Under which version ``mcp-types`` lists requests to the client: in the newest they are no requests any more."""
    return "2025-11-25" if version == MODERN else version
