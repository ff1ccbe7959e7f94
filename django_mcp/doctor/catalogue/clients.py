"""What clients may miss: credentials, headers, the protocol, and where tokens come from."""

from collections.abc import Mapping

CLIENTS: Mapping[str, tuple[str, str, str]] = {
    # Credentials
    "credential.none": (
        "hint",
        "The endpoint wants a credential and none was given, so only what everybody sees was looked at.",
        "Give one: `--as USERNAME` makes an API key for a moment, `--key KEY` uses one.",
    ),
    "credential.refused": (
        "error",
        "The endpoint read the credential and refuses it: {evidence}.",
        "See `manage.py mcp_key list`: it may have expired, be revoked, or be for another endpoint.",
    ),
    "credential.scopes": (
        "error",
        "The credential lacks scopes: {evidence}.",
        "Give one that has them: `manage.py mcp_key create --scope …`",
    ),
    "headers.authorization": (
        "error",
        "Authorization does not reach the endpoint: with a credential in it the answer is that there is none.",
        (
            "nginx: `proxy_set_header Authorization $http_authorization;`; Apache: `CGIPassAuth On`, mod_wsgi: "
            "`WSGIPassAuthorization On`."
        ),
    ),
    "headers.protocol-version": (
        "error",
        "MCP-Protocol-Version does not reach the endpoint.",
        "Let the proxy pass it: nginx `proxy_set_header MCP-Protocol-Version $http_mcp_protocol_version;`",
    ),
    "headers.mcp-method": (
        "error",
        "Mcp-Method does not reach the endpoint.",
        "Let the proxy pass it: nginx `proxy_set_header Mcp-Method $http_mcp_method;`",
    ),
    "headers.session-answer": (
        "error",
        "Mcp-Session-Id is lost on its way to the client: the endpoint opened a session, and its answer names none.",
        "Let the proxy pass it: nginx without `proxy_hide_header Mcp-Session-Id;`",
    ),
    "headers.session-request": (
        "error",
        "Mcp-Session-Id does not reach the endpoint: a session that does not exist was not noticed.",
        "Let the proxy pass it: nginx `proxy_set_header Mcp-Session-Id $http_mcp_session_id;`",
    ),
    "headers.last-event-id": (
        "warning",
        "Last-Event-ID does not reach the endpoint: clients that lost a stream miss what was said meanwhile.",
        "Let the proxy pass it: nginx `proxy_set_header Last-Event-ID $http_last_event_id;`",
    ),
    # The protocol
    "modern.error": (
        "error",
        "{method} of 2026-07-28 is answered with {evidence}.",
        "Look into the log of the server.",
    ),
    "legacy.error": (
        "error",
        "{method} of {version} is answered with {evidence}.",
        "Look into the log of the server.",
    ),
    "session.none": (
        "warning",
        "The endpoint opens no session: clients of older versions cannot be asked, nor subscribe.",
        "Look into its log for “no session could be opened”, and run `manage.py migrate`.",
    ),
    "session.lost": (
        "error",
        "The session that was just opened is not known in the next request (404).",
        "All workers need one database; see `DATABASES` of each.",
    ),
    # Where tokens come from
    "challenge.missing": (
        "error",
        "A 401 has no WWW-Authenticate: clients do not know where to log in.",
        "Let the proxy pass it: nginx without `proxy_hide_header WWW-Authenticate;` and `proxy_intercept_errors`.",
    ),
    "challenge.no-metadata": (
        "error",
        "WWW-Authenticate of the 401 has no resource_metadata: {challenge}.",
        "Restart the server with the settings that this command has, or see which proxy writes the header anew.",
    ),
    "challenge.origin": (
        "error",
        "The endpoint takes {theirs} for its public address, and clients reach it at {ours}.",
        "`DJANGO_MCP['BASE_URL'] = '{ours}'`, if that is its public address; else give the URL that clients use.",
    ),
    "metadata.not-found": (
        "error",
        "The metadata that the 401 names is not there: {url} is answered with {status}.",
        "`path('', include('django_mcp.urls'))` at the root of the URLconf, and have the proxy pass `/.well-known/`.",
    ),
    "metadata.broken": (
        "error",
        "What is at {url} is no JSON object.",
        "Have the proxy pass `/.well-known/oauth-protected-resource` to the server.",
    ),
    "metadata.resource": (
        "error",
        "The metadata is for {theirs}, and clients compare that with the URL they were given, {ours}.",
        "Give clients {theirs}, or correct `DJANGO_MCP['BASE_URL']`.",
    ),
    "metadata.no-issuer": (
        "error",
        "The metadata names no authorization server.",
        "Restart the server: its settings should have `django_mcp.OAuth` or `django_mcp.ExternalTokens`.",
    ),
    "issuer.not-found": (
        "error",
        "The authorization server {issuer} has no metadata where clients look: {evidence}.",
        "Have the proxy pass `/.well-known/oauth-authorization-server`; another server has to follow RFC 8414.",
    ),
    "issuer.mismatch": (
        "error",
        "The metadata of {issuer} says that it is {theirs}; clients refuse that (RFC 8414, section 3.3).",
        "Write the issuer as its own metadata has it, slash for slash.",
    ),
    "issuer.no-s256": (
        "error",
        "The authorization server {issuer} does not say that it takes PKCE with S256; clients refuse that.",
        "Turn PKCE on there: `code_challenge_methods_supported` has to have `S256`.",
    ),
    "issuer.http": (
        "error",
        "{name} of {issuer} is {url}, which is not https.",
        "`DJANGO_MCP['BASE_URL'] = 'https://…'`",
    ),
    # Pages
    "origin.unchecked": (
        "warning",
        "A request from a page of {origin} was answered: Origin does not reach the endpoint.",
        'Let the proxy pass it (nginx: without `proxy_set_header Origin "";`): it protects from DNS rebinding.',
    ),
    "cors.refused": (
        "error",
        "Pages of {origin} are refused, though this site's settings allow them.",
        "Restart the server with `DJANGO_MCP['ALLOWED_ORIGINS'] = ['{origin}']`.",
    ),
    "cors.preflight": (
        "error",
        "The preflight of a page of {origin} is answered with {status} and {evidence}.",
        "Let the proxy pass OPTIONS to the endpoint, without a login and without an answer of its own.",
    ),
    "cors.exposed": (
        "error",
        "Pages of {origin} cannot read Mcp-Session-Id: Access-Control-Expose-Headers is {evidence}.",
        "Take CORS headers out of the proxy: the endpoint sends its own.",
    ),
    "cors.twice": (
        "error",
        "Access-Control-Allow-Origin is there twice, which browsers refuse: {evidence}.",
        "Take `add_header Access-Control-Allow-Origin` out of the proxy: the endpoint sends its own.",
    ),
}
