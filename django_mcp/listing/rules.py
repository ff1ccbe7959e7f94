"""The rules of directories of connectors, as data: what each would refuse, and what it advises.

Each rule names its source, a page of the directory's own documentation, as quoted in November 2026. What a directory
asks in its form, such as a logo, test accounts and test cases, is not among them.
"""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.auth.protected_resource import has_metadata, url_of
from django_mcp.conf import settings
from django_mcp.core.apps import App
from django_mcp.core.server import MCPServer
from django_mcp.integrations.requests import METHODS, SAFE
from django_mcp.listing.documents import MAX_DESCRIPTION, MAX_TITLE, NAME, registry_name
from django_mcp.primitives.base import translate
from django_mcp.primitives.compatibility import breaks, problems
from django_mcp.version import __version__

DIRECTORIES = {
    "claude": "Claude's connectors directory",
    "chatgpt": "ChatGPT's plugin directory",
    "copilot": "Microsoft Copilot Studio and Microsoft 365",
    "registry": "the MCP registry",
}

CRITERIA = "claude.com/docs/connectors/building/review-criteria"
CONNECTOR_AUTH = "claude.com/docs/connectors/building/authentication"
POLICY = "support.claude.com/en/articles/13145358-anthropic-software-directory-policy"
GUIDE = "support.claude.com/en/articles/12922490-remote-mcp-server-submission-guide"
CLAUDE_CODE = "code.claude.com/docs/en/mcp"
SUBMISSION = "developers.openai.com/plugins/deploy/submission"
OPENAI_AUTH = "developers.openai.com/plugins/build/auth"
OPENAI_TOOLS = "developers.openai.com/plugins/plan/tools"
OPENAI_FORM = "developers.openai.com/apps-sdk/schemas/chatgpt-app-submission.v1.json"
OPENAI_APPS = "developers.openai.com/apps-sdk/reference"
CODEX = "developers.openai.com/codex/mcp"
COPILOT = "learn.microsoft.com/microsoft-copilot-studio/mcp-troubleshooting"
COPILOT_HINTS = "github.com/Azure/data-api-builder/issues/3798"
COPILOT_SERVER = "learn.microsoft.com/microsoft-copilot-studio/mcp-add-existing-server-to-agent"
APP_MANIFEST = "learn.microsoft.com/microsoft-365/extensibility/schema/root"
REGISTRY_SCHEMA = "static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
REGISTRY_REMOTE = "modelcontextprotocol.io/registry/remote-servers"
REGISTRY_VERSION = "modelcontextprotocol.io/registry/versioning"
SPECIFICATION = "modelcontextprotocol.io/specification/2026-07-28/server/tools"
OWN = "docs/checks.md"
"""For advice that no directory states: this project's own documentation."""

MAX_INSTRUCTIONS = 2048
"""Characters of the instructions that Claude Code keeps ("2 KB")."""
FIRST_INSTRUCTIONS = 512
"""Characters of the instructions that Codex reads when it chooses a server."""
MAX_DISPLAY_NAME = 30
MAX_TOOLS = 128
MAX_VERSION = 255
HINTS = ("readOnlyHint", "destructiveHint", "openWorldHint")

_LOCAL = re.compile(r"[^.]+|.+\.(localhost|local|internal|test|invalid)")
"""Host names that have no public address (RFC 6761, RFC 6762)."""
_RANGE = re.compile(r"[\^~<>=*|]|\.x\b|\blatest\b|\s-\s")


class Rule(NamedTuple):
    """A rule of directories.

    Attributes:
        id: names the rule in JSON.
        source: directory -> the page of its documentation.
        refuses: True if the directory refuses what breaks the rule; False if it is advice.
        what: the rule, as a sentence.
        correction: how to keep it.
        find: yields the tools or values of an endpoint that break it. May query the database.
    """

    id: str
    source: Mapping[str, str]
    refuses: bool
    what: str
    correction: str
    find: Callable[[MCPServer], Iterator[str]]


class Finding(NamedTuple):
    """A rule that an endpoint breaks, and the tools or values that do."""

    rule: Rule
    where: Collection[str]


def findings(directory: str, server: MCPServer) -> list[Finding]:
    """Return what a directory would refuse or advises, refusals first. May query the database."""
    found = [Finding(rule, list(rule.find(server))) for rule in RULES if directory in rule.source]
    return sorted((finding for finding in found if finding.where), key=lambda finding: not finding.rule.refuses)


# What the rules look at


class ToolDefinition(NamedTuple):
    """A tool with its definition in the site's language."""

    name: str
    definition: Mapping[str, Any]


def tool_definitions(server: MCPServer) -> Iterator[ToolDefinition]:
    """Yield the tools of an endpoint whose definition can be made. May query the database."""
    for tool in server.tools.values():
        if tool.find_failure() is None:
            yield ToolDefinition(tool.name, translate(tool.definition, django_settings.LANGUAGE_CODE))


def repeated_titles(server: MCPServer) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for tool in tool_definitions(server):
        if title := tool.definition.get("title"):
            found[title].append(tool.name)
    return {title: names for title, names in found.items() if len(names) > 1}


def nested_schemas(schema: Any, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(schema, list):
        for part in schema:
            yield from nested_schemas(part, where)
    if not isinstance(schema, Mapping):
        return
    yield where, schema
    for key, value in schema.items():
        if key in {"properties", "$defs", "patternProperties"} and isinstance(value, Mapping):
            for name, part in value.items():
                yield from nested_schemas(part, f"{where}.{name}")
        elif key in {"items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not"}:
            yield from nested_schemas(value, where)


def wrong_schemas(
    server: MCPServer, is_wrong: Callable[[Mapping[str, Any]], bool], *, keys: Collection[str]
) -> Iterator[str]:
    for tool in tool_definitions(server):
        for key in keys:
            places = (
                place for place, schema in nested_schemas(tool.definition.get(key), tool.name) if is_wrong(schema)
            )
            yield from dict.fromkeys(places)


# The rules


def _without_title(server: MCPServer) -> Iterator[str]:
    return (tool.name for tool in tool_definitions(server) if not tool.definition.get("title"))


def _without_description(server: MCPServer) -> Iterator[str]:
    return (tool.name for tool in tool_definitions(server) if not tool.definition.get("description"))


def _without_fitting_hint(server: MCPServer) -> Iterator[str]:
    for tool in tool_definitions(server):
        hints = tool.definition.get("annotations", {})
        if not hints.get("readOnlyHint") and "destructiveHint" not in hints:
            yield tool.name


def _without_read_only_hint(server: MCPServer) -> Iterator[str]:
    return (
        tool.name for tool in tool_definitions(server) if "readOnlyHint" not in tool.definition.get("annotations", {})
    )


def _writing_without_destructive_hint(server: MCPServer) -> Iterator[str]:
    for tool in tool_definitions(server):
        hints = tool.definition.get("annotations", {})
        if not hints.get("readOnlyHint") and hints.get("destructiveHint") is False:
            yield tool.name


def _without_all_hints(server: MCPServer) -> Iterator[str]:
    for tool in tool_definitions(server):
        if missing := [hint for hint in HINTS if hint not in tool.definition.get("annotations", {})]:
            yield f"{tool.name}: {', '.join(missing)}"


def _apps_without_domain(server: MCPServer) -> Iterator[str]:
    for resource in server.resources.values():
        if isinstance(resource, App) and "domain" not in resource.definition["_meta"]["ui"]:
            yield resource.uri


def _of_reads_and_writes(server: MCPServer) -> Iterator[str]:
    def is_mixed(schema: Mapping[str, Any]) -> bool:
        methods = {str(value).upper() for value in schema.get("enum", ())} & METHODS
        return bool(methods & SAFE) and bool(methods - SAFE)

    return wrong_schemas(server, is_mixed, keys=["inputSchema"])


def _same_titles(server: MCPServer) -> Iterator[str]:
    return (f"{title!r}: {', '.join(names)}" for title, names in repeated_titles(server).items())


def _not_public(server: MCPServer) -> Iterator[str]:
    url = url_of(server)
    if not url:
        yield "DJANGO_MCP['BASE_URL'] is not set"
    elif urlsplit(url).scheme != "https" or _is_local(urlsplit(url).hostname or ""):
        yield url


def _is_local(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(_LOCAL.fullmatch(host))


def _without_oauth(server: MCPServer) -> Iterator[str]:
    if not has_metadata(server) and not _is_open(server):
        yield _authentication(server)


def _without_copilots_authentication(server: MCPServer) -> Iterator[str]:
    if not has_metadata(server) and not _is_open(server) and not takes_keys(server):
        yield _authentication(server)


def _is_open(server: MCPServer) -> bool:
    return any(isinstance(authenticator, AllowAny) for authenticator in authenticators(server))


def _authentication(server: MCPServer) -> str:
    return ", ".join(type(authenticator).__name__ for authenticator in authenticators(server)) or "no authentication"


def _without_privacy_policy(server: MCPServer) -> Iterator[str]:  # noqa: ARG001
    url = settings.PRIVACY_POLICY_URL
    if not url:
        yield "DJANGO_MCP['PRIVACY_POLICY_URL'] is not set"
    elif urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        yield url


def instructions_over(most: int) -> Callable[[MCPServer], Iterator[str]]:
    """Return a ``find`` for instructions of more than *most* characters."""

    def find(server: MCPServer) -> Iterator[str]:
        if (length := len(str(server.instructions or ""))) > most:
            yield f"{length:,} characters; the first {most:,} end with {str(server.instructions)[most - 40 : most]!r}"

    return find


def _long_title(server: MCPServer) -> Iterator[str]:
    title = str(server.implementation.get("title") or server.implementation["name"])
    if len(title) > MAX_DISPLAY_NAME:
        yield f"{title!r}, {len(title)} characters"


def _with_problems(server: MCPServer) -> Iterator[str]:
    return (f"{tool.name}: {problem}" for tool in tool_definitions(server) for problem in problems(tool.definition))


def _with_references(server: MCPServer) -> Iterator[str]:
    return wrong_schemas(server, breaks("reference"), keys=["inputSchema", "outputSchema"])


def _of_several_types(server: MCPServer) -> Iterator[str]:
    return wrong_schemas(server, breaks("type-list"), keys=["inputSchema"])


def _above_a_number(server: MCPServer) -> Iterator[str]:
    return wrong_schemas(server, breaks("exclusive"), keys=["inputSchema"])


def _too_many(server: MCPServer) -> Iterator[str]:
    is_searched = server.search_above and len(server.tools) > server.search_above
    if len(server.tools) > MAX_TOOLS and not is_searched:
        yield f"{len(server.tools)} tools"


def _without_server_description(server: MCPServer) -> Iterator[str]:
    if not server.implementation.get("description"):
        yield "no description"


def _description_not_fit(server: MCPServer) -> Iterator[str]:
    if (length := len(server.implementation.get("description", ""))) == 0:
        yield "no description"
    elif length > MAX_DESCRIPTION:
        yield f"{length} characters"


def _registry_title(server: MCPServer) -> Iterator[str]:
    if (length := len(str(server.implementation.get("title", "")))) > MAX_TITLE:
        yield f"{length} characters"


def _registry_name(server: MCPServer) -> Iterator[str]:
    try:
        name = registry_name(server)
    except ImproperlyConfigured:
        return  # another rule says that BASE_URL is missing
    if not NAME.fullmatch(name):
        yield repr(name)


def _version(server: MCPServer) -> Iterator[str]:
    version = str(server.implementation["version"])
    if _RANGE.search(version) or len(version) > MAX_VERSION:
        yield repr(version)


def _version_of_the_package(server: MCPServer) -> Iterator[str]:
    if server.implementation["version"] == __version__:
        yield repr(__version__)


RULES = (
    Rule(
        "public-url",
        {"claude": GUIDE, "chatgpt": SUBMISSION, "copilot": COPILOT_SERVER, "registry": REGISTRY_REMOTE},
        refuses=True,
        what="The endpoint needs a public https address.",
        correction="Set DJANGO_MCP['BASE_URL'] to the address of the deployed site, such as 'https://travel.example.com'.",
        find=_not_public,
    ),
    Rule(
        "authentication",
        {"claude": CONNECTOR_AUTH, "chatgpt": OPENAI_AUTH},
        refuses=True,
        what="The endpoint must use OAuth, or no authentication.",
        correction="Add 'django_mcp.OAuth2Authentication' to the authentication of the endpoint.",
        find=_without_oauth,
    ),
    Rule(
        "authentication",
        {"copilot": COPILOT_SERVER},
        refuses=True,
        what="The endpoint must use OAuth, API keys, or no authentication.",
        correction="Add 'django_mcp.OAuth2Authentication' to the authentication of the endpoint.",
        find=_without_copilots_authentication,
    ),
    Rule(
        "privacy-policy",
        {"claude": POLICY, "chatgpt": SUBMISSION, "copilot": APP_MANIFEST},
        refuses=True,
        what="The site needs a privacy policy at an https address.",
        correction="Set DJANGO_MCP['PRIVACY_POLICY_URL'], such as 'https://travel.example.com/privacy/'.",
        find=_without_privacy_policy,
    ),
    Rule(
        "tool-title",
        {"claude": CRITERIA},
        refuses=True,
        what="Every tool needs a title.",
        correction="Set title='…' where the tool is declared: @tool, form_tool, view_tool, or the ModelResource.",
        find=_without_title,
    ),
    Rule(
        "tool-description",
        {"claude": CRITERIA, "chatgpt": OPENAI_TOOLS},
        refuses=True,
        what="Every tool needs a description of what it does and when to use it.",
        correction="Write a docstring, or description='…'.",
        find=_without_description,
    ),
    Rule(
        "tool-hints",
        {"claude": CRITERIA},
        refuses=True,
        what="Every tool needs readOnlyHint or destructiveHint.",
        correction="Set read_only=True if the tool only reads, else destructive=True, or False if it only adds.",
        find=_without_fitting_hint,
    ),
    Rule(
        "tool-hints",
        {"chatgpt": SUBMISSION},
        refuses=True,
        what="Every tool needs readOnlyHint, destructiveHint and openWorldHint.",
        correction=(
            "Set read_only, destructive and open_world where the tool is declared. read_only=True implies "
            "destructive=False."
        ),
        find=_without_all_hints,
    ),
    Rule(
        "tool-hints",
        {"copilot": COPILOT_HINTS},
        refuses=False,  # by a report; Microsoft's own pages do not say it
        what="Microsoft 365 is reported to leave out tools without readOnlyHint.",
        correction="Set read_only=True if the tool only reads, else False.",
        find=_without_read_only_hint,
    ),
    Rule(
        "app-domain",
        {"chatgpt": OPENAI_APPS},
        refuses=False,
        what="The submission of an app with pages asks for an origin of their own for each page.",
        correction="Set domain= of ui(…) to an https origin. For app=True, give ui(…) with our template instead.",
        find=_apps_without_domain,
    ),
    Rule(
        "tool-methods",
        {"claude": CRITERIA},
        refuses=True,
        what="One tool must not take both reading and writing HTTP methods.",
        correction="Write one tool that reads, and others that write.",
        find=_of_reads_and_writes,
    ),
    Rule(
        "schema-reference",
        {"copilot": COPILOT},
        refuses=True,
        what="Copilot Studio leaves out tools with a $ref in their schema.",
        correction="Inline the target of the $ref in input_schema.",
        find=_with_references,
    ),
    Rule(
        "schema-types",
        {"copilot": COPILOT},
        refuses=True,
        what="Copilot Studio cuts the input schema of a tool where a value has several types.",
        correction="Give each value one type, as in value: float in place of value: float | str.",
        find=_of_several_types,
    ),
    Rule(
        "schema-minimum",
        {"copilot": COPILOT},
        refuses=True,
        what="Copilot Studio fails on a number as exclusiveMinimum.",
        correction="Use a minimum: Field(ge=1) in place of Field(gt=0).",
        find=_above_a_number,
    ),
    Rule(
        "tool-count",
        {"copilot": "docs/clients/copilot-studio.md"},
        refuses=False,
        what=f"An agent takes at most {MAX_TOOLS} tools.",
        correction="Set search_tools of the MCPServer, or split the endpoint.",
        find=_too_many,
    ),
    Rule(
        "server-name",
        {"registry": REGISTRY_SCHEMA},
        refuses=True,
        what="The name must be in reverse-DNS form with one slash, of 3 to 200 letters, digits, '.', '_' or '-'.",
        correction="Set DJANGO_MCP['REGISTRY_NAME'] or registry_name of the MCPServer: 'com.example.travel/booking'.",
        find=_registry_name,
    ),
    Rule(
        "server-description",
        {"registry": REGISTRY_SCHEMA},
        refuses=True,
        what=f"The endpoint needs a description of at most {MAX_DESCRIPTION} characters.",
        correction="Set DJANGO_MCP['DESCRIPTION'] or description of the MCPServer.",
        find=_description_not_fit,
    ),
    Rule(
        "server-title",
        {"registry": REGISTRY_SCHEMA},
        refuses=True,
        what=f"The title has at most {MAX_TITLE} characters.",
        correction="Shorten DJANGO_MCP['TITLE'] or title of the MCPServer.",
        find=_registry_title,
    ),
    Rule(
        "server-version",
        {"registry": REGISTRY_SCHEMA},
        refuses=True,
        what="The version must be a single version, not a range and not 'latest'.",
        correction="Set DJANGO_MCP['VERSION'] or version of the MCPServer, such as '1.0.2'.",
        find=_version,
    ),
    Rule(
        "server-version",
        {"registry": REGISTRY_VERSION},
        refuses=False,
        what="The version should be that of your site; each publication needs a new one.",
        correction="Set DJANGO_MCP['VERSION'] or version of the MCPServer, such as '1.0.2'.",
        find=_version_of_the_package,
    ),
    Rule(
        "tool-destructive",
        {"claude": CRITERIA},
        refuses=False,
        what="Reviewers ask for destructiveHint on tools that change data; in MCP, adding is not destructive.",
        correction="Check that these tools only add. If one changes or deletes, set destructive=True.",
        find=_writing_without_destructive_hint,
    ),
    Rule(
        "same-title",
        dict.fromkeys(("claude", "chatgpt", "copilot"), SPECIFICATION),
        refuses=False,
        what="Clients show the title of a tool: two tools with one title look alike.",
        correction="Give each tool its own title.",
        find=_same_titles,
    ),
    Rule(
        "schema",
        dict.fromkeys(("claude", "chatgpt", "copilot"), OWN),
        refuses=False,
        what="Some clients leave out tools whose definition they cannot read (django_mcp.W027).",
        correction="Change the type, name or schema that it comes from; 'manage.py mcp_inspect' shows it.",
        find=_with_problems,
    ),
    Rule(
        "instructions",
        {"claude": CLAUDE_CODE},
        refuses=False,
        what=f"Claude Code keeps the first {MAX_INSTRUCTIONS:,} characters of the instructions.",
        correction="Shorten DJANGO_MCP['INSTRUCTIONS'] or instructions of the MCPServer.",
        find=instructions_over(MAX_INSTRUCTIONS),
    ),
    Rule(
        "instructions",
        {"chatgpt": CODEX},
        refuses=False,
        what=f"The first {FIRST_INSTRUCTIONS} characters of the instructions should be enough to choose the server.",
        correction="Put the purpose and the limits of the endpoint first.",
        find=instructions_over(FIRST_INSTRUCTIONS),
    ),
    Rule(
        "server-title",
        {"chatgpt": OPENAI_FORM, "copilot": APP_MANIFEST},
        refuses=False,
        what=f"The directory shows a name of at most {MAX_DISPLAY_NAME} characters.",
        correction="Shorten the title, or enter a shorter name in the form.",
        find=_long_title,
    ),
    Rule(
        "server-description",
        {"copilot": COPILOT_SERVER},
        refuses=False,
        what="Agents choose a server by its description.",
        correction="Set DJANGO_MCP['DESCRIPTION'] or description of the MCPServer.",
        find=_without_server_description,
    ),
)
