"""What clients publish of themselves, and what they send to register.

Retyped from the reference (sections 9, 10 and 16) and, where it names only what is special about a document, from
reports of September 2026: ChatGPT's from django-oauth-toolkit's issues 1845 and 1857, the list of grants of Claude's
from anthropics/claude-ai-mcp 487, VS Code's and Claude Code's from projects that fetched them. Names and links that
nobody looks at are ours.
"""

from typing import Any

CODE_AND_REFRESH = ["authorization_code", "refresh_token"]
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"

# Client ID metadata documents. The reference: it lists a jwt-bearer grant as well.
CLAUDE: dict[str, Any] = {
    "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "client_name": "Claude",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
    "grant_types": [*CODE_AND_REFRESH, "urn:ietf:params:oauth:grant-type:jwt-bearer"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}

# The reference: its redirect URIs are loopback without a port.
CLAUDE_CODE: dict[str, Any] = {
    "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": CODE_AND_REFRESH,
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}

# The reference: it lists the device grant as well.
VS_CODE: dict[str, Any] = {
    "client_name": "Visual Studio Code",
    "logo_uri": "https://code.visualstudio.com/assets/branding/code-stable.png",
    "grant_types": [*CODE_AND_REFRESH, DEVICE],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
    "application_type": "native",
    "client_id": "https://vscode.dev/oauth/client-metadata.json",
    "client_uri": "https://vscode.dev/product",
    "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
}

# The reference: its method is private_key_jwt, though it also offers none.
CHATGPT: dict[str, Any] = {
    "client_id": "https://chatgpt.com/oauth/client.json",
    "client_uri": "https://chatgpt.com/",
    "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "grant_types": CODE_AND_REFRESH,
    "response_types": ["code"],
    "client_name": "ChatGPT",
    "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
}

DOCUMENTS = {"Claude": CLAUDE, "Claude Code": CLAUDE_CODE, "VS Code": VS_CODE, "ChatGPT": CHATGPT}

# Registrations (RFC 7591).
CURSOR_REDIRECTS = [
    "http://localhost:8787/callback",
    "https://www.cursor.com/agents/mcp/oauth/callback",
    "cursor://anysphere.cursor-mcp/oauth/callback",
]
_PUBLIC = {"response_types": ["code"], "token_endpoint_auth_method": "none"}
_NATIVE = {"grant_types": CODE_AND_REFRESH, **_PUBLIC}

REGISTRATIONS: dict[str, dict[str, Any]] = {
    "Cursor": {"client_name": "Cursor", "redirect_uris": CURSOR_REDIRECTS, **_NATIVE},
    "Cursor with one": {"client_name": "Cursor", "redirect_uris": CURSOR_REDIRECTS[2:], **_NATIVE},
    "Cursor as web": {
        "client_name": "Cursor",
        "redirect_uris": CURSOR_REDIRECTS[2:],
        "application_type": "web",
        **_NATIVE,
    },
    "VS Code": {
        "client_name": "Visual Studio Code",
        "client_uri": "https://code.visualstudio.com",
        "grant_types": [*CODE_AND_REFRESH, DEVICE],
        "redirect_uris": [
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
        ],
        "application_type": "native",
        **_PUBLIC,
    },
    "Gemini CLI": {
        "client_name": "Gemini CLI MCP Client",
        "redirect_uris": ["http://localhost:43567/oauth/callback"],
        **_NATIVE,
    },
    "mcp-remote": {
        "client_name": "MCP CLI Proxy",
        "client_uri": "https://github.com/modelcontextprotocol/mcp-cli",
        "redirect_uris": ["http://localhost:3334/oauth/callback"],
        "software_id": "2e6dc280-f3c3-4e01-99a7-8181dbd1d23d",
        "software_version": "1.0.0",
        "scope": "openid email profile",
        **_NATIVE,
    },
    "MCP Inspector": {
        "client_name": "MCP Inspector",
        "client_uri": "https://github.com/modelcontextprotocol/inspector",
        "redirect_uris": ["http://localhost:6274/oauth/callback"],
        "scope": "",
        **_NATIVE,
    },
    "Claude": {
        "client_name": "Claude",
        "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
        "scope": "mcp",
        **_NATIVE,
    },
}

# The reference: it sends no authentication method, which makes it confidential.
PYTHON_SDK: dict[str, Any] = {
    "client_name": "MCP client",
    "redirect_uris": ["http://localhost:3030/callback"],
    "grant_types": CODE_AND_REFRESH,
    "response_types": ["code"],
}
