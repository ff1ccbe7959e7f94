"""Conversion of results and requests to older versions, whose clients validate strictly.

Members that a version does not know are removed from lists and ``initialize``. Unknown content blocks become the
closest known kind. Structured content is an object here: other values are wrapped as ``{"result": …}``, and so is the
output schema.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.primitives.schema import wrapped

_NEW_IN: Mapping[str, frozenset[str]] = {
    "2025-11-25": frozenset({"icons", "websiteUrl"}),
    "2025-06-18": frozenset({"title", "outputSchema", "structuredContent"}),
}
"""Members by the version that introduced them."""

_ENTRIES = ("tools", "resources", "resourceTemplates", "prompts")


def _unknown_to(version: str) -> frozenset[str]:
    return frozenset().union(*(members for since, members in _NEW_IN.items() if since > version))


_UNKNOWN: Mapping[str, frozenset[str]] = {
    version: _unknown_to(version) for version in ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
}


def shape(fields: dict[str, Any], method: str, version: str) -> dict[str, Any]:
    """Return a result's fields for a client of *version*."""
    if "structuredContent" in fields:  # an object (2025-11-25, Tools, Structured Content)
        if not isinstance(fields["structuredContent"], dict):
            fields = {**fields, "structuredContent": {"result": fields["structuredContent"]}}
    elif method == "tools/list":
        fields = {**fields, "tools": [_with_object_schema(tool) for tool in fields["tools"]]}
    unknown = _UNKNOWN[version]
    return _known(fields, method, version, unknown) if unknown else fields


def _known(fields: dict[str, Any], method: str, version: str, unknown: frozenset[str]) -> dict[str, Any]:
    match method:
        case "initialize":
            # serverInfo.description is new in 2025-11-25; entries of lists always had one.
            info = _without(fields["serverInfo"], unknown | {"description"})
            return {**_without(fields, unknown), "serverInfo": info}
        case "tools/call":
            known = _without(fields, unknown)
            return {**known, "content": [_block(block, version) for block in fields["content"]]}
        case "prompts/get":
            messages = [{**message, "content": _block(message["content"], version)} for message in fields["messages"]]
            return {**fields, "messages": messages}
    for member in _ENTRIES:
        if member in fields:
            if member == "tools" and version < "2025-03-26":  # resources had annotations from the beginning
                unknown |= {"annotations"}
            return {**fields, member: [_without(entry, unknown) for entry in fields[member]]}
    return fields


def _with_object_schema(tool: dict[str, Any]) -> dict[str, Any]:
    # 2025-11-25, Tools, Output Schema: the type must be object.
    schema = tool.get("outputSchema")
    return tool if schema is None or schema.get("type") == "object" else {**tool, "outputSchema": wrapped(schema)}


def question(request: Mapping[str, Any], request_id: str, version: str) -> dict[str, Any]:
    """Return a request to the client, ``{"method": …, "params": …}``, in the form of *version*."""
    params = dict(request["params"])
    if "requestedSchema" in params and version < "2025-11-25":
        schema = params["requestedSchema"]
        properties = {name: _choice(field) for name, field in schema["properties"].items()}
        params["requestedSchema"] = {**schema, "properties": properties}
    if params.get("mode") == "url" and version >= "2025-11-25":
        params["elicitationId"] = request_id  # required there, gone in the next version
    return {"method": request["method"], "params": params}


def _choice(field: Mapping[str, Any]) -> dict[str, Any]:
    if "oneOf" not in field:
        return dict(field)
    choices = field["oneOf"]
    names = {"enum": [choice["const"] for choice in choices], "enumNames": [choice["title"] for choice in choices]}
    return {**_without(field, frozenset({"oneOf"})), **names}


def _without(fields: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in unknown}


def _link_as_text(block: Mapping[str, Any]) -> dict[str, Any]:
    described = f": {block['description']}" if block.get("description") else ""
    return {"type": "text", "text": f"{block.get('title') or block['name']} <{block['uri']}>{described}"}


def _sound_as_resource(block: Mapping[str, Any]) -> dict[str, Any]:
    contents = {"uri": "attachment:sound", "mimeType": block["mimeType"], "blob": block["data"]}
    return {"type": "resource", "resource": contents}


_BLOCKS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "resource_link": ("2025-06-18", _link_as_text),
    "audio": ("2025-03-26", _sound_as_resource),
}
"""Version that introduced a kind of block, and its replacement before."""


def _block(block: dict[str, Any], version: str) -> dict[str, Any]:
    since, instead = _BLOCKS.get(block["type"], ("", None))
    return instead(block) if instead is not None and version < since else block
