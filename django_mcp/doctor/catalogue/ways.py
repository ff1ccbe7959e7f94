"""What may be wrong on the way to the endpoint."""

from collections.abc import Mapping

WAYS: Mapping[str, tuple[str, str, str]] = {
    # Reaching it
    "reach.dns": (
        "error",
        "No address is known for the name {host}: {why}.",
        "Correct the host in the URL or in `DJANGO_MCP['BASE_URL']`, or add a DNS record for it.",
    ),
    "reach.refused": (
        "error",
        "Nothing listens at {host}:{port}: the connection was refused.",
        "Start the server or the proxy before it, or correct the port.",
    ),
    "reach.timeout": (
        "error",
        "{host}:{port} did not answer within {seconds} s.",
        "See whether a firewall drops connections or the server hangs; `--timeout` waits longer.",
    ),
    "reach.broken": (
        "error",
        "The connection to {host}:{port} broke before there was a whole answer: {why}.",
        "Look into the log of the proxy and of the server: one of them closes connections.",
    ),
    "tls.name": (
        "error",
        "The TLS certificate is for {names}, not for {host}.",
        "Give the proxy a certificate with {host} in it: `certbot --nginx -d {host}`.",
    ),
    "tls.expired": (
        "error",
        "The TLS certificate of {host} is not valid at this time: {why}.",
        "Renew it: `certbot renew`, and reload the proxy.",
    ),
    "tls.expiring": (
        "warning",
        "The TLS certificate of {host} expires in {days} days.",
        "Renew it: `certbot renew`, and see why that did not happen by itself.",
    ),
    "tls.untrusted": (
        "error",
        "The TLS certificate of {host} is by nobody whom this machine trusts: {why}.",
        "Send the whole chain (nginx: `ssl_certificate fullchain.pem`), or `--insecure` for an authority of your own.",
    ),
    "tls.failed": (
        "error",
        "{host}:{port} does not speak TLS as it should: {why}.",
        "Correct scheme and port of the URL, or turn TLS on (nginx: `listen 443 ssl`).",
    ),
    "tls.unverified": ("hint", "The TLS certificate was not verified.", "Leave out `--insecure`: clients verify it."),
    # What answers there
    "redirect.slash": (
        "error",
        "A POST is redirected with {status} to {location}, and clients lose its body and Authorization.",
        (
            "Serve both forms, as `django_mcp.urls` does, and take the proxy's redirect away; until then clients need "
            "{location}. `APPEND_SLASH` never redirects what `django_mcp.urls` has."
        ),
    ),
    "redirect.https": (
        "error",
        "A POST is redirected with {status} to {location}, and clients lose its body and Authorization.",
        (
            "Give clients the https address: `DJANGO_MCP['BASE_URL'] = '{origin}'`. If TLS ends in a proxy: "
            "`SECURE_PROXY_SSL_HEADER = ('HTTP_X_FORWARDED_PROTO', 'https')` and `proxy_set_header X-Forwarded-Proto "
            "$scheme;`"
        ),
    ),
    "redirect.host": (
        "error",
        "A POST is redirected with {status} to another host, {location}, and clients lose its body and Authorization.",
        "Give clients that address: `DJANGO_MCP['BASE_URL'] = '{origin}'`, or take the redirect away (`PREPEND_WWW`).",
    ),
    "redirect.elsewhere": (
        "error",
        "A POST is redirected with {status} to {location}, and clients lose its body and Authorization.",
        "Give clients that address, if it is the endpoint's, or take the redirect away.",
    ),
    "answer.login": (
        "error",
        "A login page is before the endpoint: {evidence}.",
        (
            "Let the proxy pass {path} without a login (nginx: `auth_request off;`, oauth2-proxy: "
            "`--skip-auth-route`). In Django `django_mcp.urls` is exempt from LoginRequiredMiddleware: exempt it in "
            "your own middleware too."
        ),
    ),
    "answer.proxy-auth": (
        "error",
        "Something before the endpoint wants a login of its own: {status}, WWW-Authenticate {challenge}.",
        "Take it away for {path} (nginx: `auth_basic off;`): Authorization belongs to the endpoint.",
    ),
    "answer.csrf": (
        "error",
        "Django's CSRF protection answers with 403.",
        (
            "Serve the endpoint by `django_mcp.urls` or `mcp_application`, which are exempt from it; a view around it "
            "has to be `csrf_exempt`."
        ),
    ),
    "answer.not-found": (
        "error",
        "{url} is a page that is not found (404).",
        "The endpoint's path is {path} here: give that, or add `path('', include('django_mcp.urls'))` to the URLconf.",
    ),
    "answer.method": (
        "error",
        "{url} takes no POST (405): it is not the endpoint, or a proxy lets no POST through.",
        "The endpoint's path is {path} here; nginx: `proxy_pass` for it, and no `limit_except GET`.",
    ),
    "answer.bad-gateway": (
        "error",
        "The proxy reaches no server (502).",
        "Start the server, and see that `proxy_pass` names its address.",
    ),
    "answer.gateway-timeout": (
        "error",
        "The proxy waited in vain for the server (504).",
        "See whether the server hangs; nginx: `proxy_read_timeout 300s;`",
    ),
    "answer.unavailable": (
        "error",
        "The answer is 503: {evidence}.",
        "End the maintenance; if the endpoint itself says so, its database is away or `QUEUE_LIMIT` is reached.",
    ),
    "answer.failed": (
        "error",
        "The answer is {status}: {evidence}.",
        "Look into the log of the server: it has the traceback.",
    ),
    "answer.other": (
        "error",
        "What answers is no MCP endpoint: {status}, {kind}.",
        "The endpoint's path is {path} here: give that as the URL, and pass it to the server.",
    ),
    "host.refused": (
        "error",
        "The endpoint refuses the host {host}.",
        "`ALLOWED_HOSTS = [..., '{host}']`",
    ),
    "host.rewritten": (
        "error",
        "A proxy changes the Host header: the endpoint saw {seen} and refuses it, and clients say {host}.",
        "nginx: `proxy_set_header Host $http_host;`",
    ),
}
