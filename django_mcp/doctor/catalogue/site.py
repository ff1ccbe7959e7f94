"""What may be wrong with streams, measures and the site itself."""

from collections.abc import Mapping

SITE: Mapping[str, tuple[str, str, str]] = {
    # Streams
    "streams.wsgi": (
        "hint",
        "The server is WSGI: it answers each request at once, and clients hear of no changes.",
        "Serve the site by ASGI to offer streams: `uvicorn mysite.asgi:application`.",
    ),
    "streams.error": (
        "error",
        "A stream is answered with {evidence}.",
        "Look into the log of the server.",
    ),
    "streams.buffered": (
        "error",
        "A stream was opened and nothing came within {seconds} s: a proxy keeps events back.",
        "nginx: `proxy_buffering off;` and `proxy_http_version 1.1;`, and no `proxy_ignore_headers X-Accel-Buffering;`",
    ),
    "streams.compressed": (
        "warning",
        "A proxy compresses event streams ({encoding}), which keeps events back.",
        "nginx: take `text/event-stream` out of `gzip_types`; others: compress no `text/event-stream`.",
    ),
    "streams.cacheable": (
        "warning",
        "Event streams come with Cache-Control {value}: caches may keep them.",
        "Let the proxy pass `Cache-Control: no-store` of the endpoint (nginx: no `expires`, no `add_header`).",
    ),
    "streams.cut": (
        "error",
        "A stream in which nothing happened was cut off after {seconds} s.",
        "nginx: `proxy_read_timeout 300s;`; or `DJANGO_MCP['KEEP_ALIVE_SECONDS']` below the proxy's limit.",
    ),
    "streams.silent": (
        "warning",
        "No sign of life came on a stream within {seconds} s, and the endpoint sends one every {every} s.",
        "A proxy keeps small pieces back. nginx: `proxy_buffering off;`, and `gzip off;` for the endpoint.",
    ),
    # Clock, sizes, connections
    "clock.off": (
        "warning",
        "The clock of {whose} is {seconds} s {way} of this machine's: tokens and questions expire {when}.",
        "Set the clocks by NTP: `timedatectl set-ntp true`.",
    ),
    "size.proxy": (
        "error",
        "A body of {sent} bytes is refused ({status}) before it reaches the endpoint, which takes {limit}.",
        "nginx: `client_max_body_size {megabytes}m;`, or `DJANGO_MCP['MAX_BODY_BYTES']` as low as the proxy's limit.",
    ),
    "size.endpoint": (
        "warning",
        "The running endpoint refuses a body of {sent} bytes, though its limit is {limit} in the settings here.",
        "Restart the server, so that it has the settings that this command has.",
    ),
    "size.broken": (
        "error",
        "The connection broke while a body of {sent} bytes was sent; the endpoint takes {limit}.",
        "See which proxy takes less: nginx `client_max_body_size`, Apache `LimitRequestBody`, a firewall's limit.",
    ),
    "connection.closed": (
        "hint",
        "The connection is closed after each answer, so that each call begins with a handshake.",
        "nginx: `keepalive_timeout 75s;`; gunicorn: a worker class that keeps connections (`--threads 8`).",
    ),
    # Inside
    "migrations.pending": (
        "error",
        "Migrations are not applied to the database {alias}: {names}.",
        "`python manage.py migrate`",
    ),
    "check.error": ("error", "{id}: {message}", "{hint}"),
    "check.warning": ("warning", "{id}: {message}", "{hint}"),
    "settings.debug": (
        "warning",
        "DEBUG is on at a public address: errors show settings and code to everybody.",
        "`DEBUG = False`",
    ),
    "database.unreachable": (
        "error",
        "The database {alias} does not answer: {why}.",
        "Start it, or correct `DATABASES`.",
    ),
    "database.sqlite": (
        "hint",
        "The database is SQLite: one writer at a time, and one machine.",
        "Use PostgreSQL for several workers; with one, a write-ahead log: `'init_command': 'PRAGMA journal_mode=WAL'`.",
    ),
    "cache.unreachable": (
        "warning",
        "The default cache does not keep what is written: {why}.",
        "Correct `CACHES['default']`: rate limits are counted there, and let everybody through meanwhile.",
    ),
    "cache.local": (
        "hint",
        "RATE_LIMIT is counted by each process for itself: the default cache is in memory.",
        "`CACHES = {{'default': {{'BACKEND': 'django.core.cache.backends.redis.RedisCache', 'LOCATION': 'redis://…'}}}}`",
    ),
    "layer.none": (
        "hint",
        (
            "No channel layer is shared by processes: with several workers, what happens at another one is heard up to "
            "{seconds} s later, and each worker with streams asks the database that often. Nothing is lost."
        ),
        (
            "`CHANNEL_LAYERS = {{'default': {{'BACKEND': 'channels_redis.core.RedisChannelLayer', 'CONFIG': {{'hosts': "
            "['redis://…']}}}}}}`"
        ),
    ),
    "layer.unreachable": (
        "warning",
        "The channel layer does not answer: {why}. Streams hear of changes up to {seconds} s later.",
        "Start Redis, or correct `CHANNEL_LAYERS['default']['CONFIG']['hosts']`.",
    ),
    # The same site
    "deployment.other": (
        "error",
        "The running server does not use this process's database: {evidence}.",
        "Run this with the environment of that deployment, or correct the URL or `DJANGO_MCP['BASE_URL']`.",
    ),
    "bell.slow": (
        "warning",
        "An open stream heard only after {seconds} s what happened in this process: the layer does not cross.",
        "Give the server and this process the same `CHANNEL_LAYERS` (host, database number and `prefix`).",
    ),
    "bell.unheard": (
        "error",
        "An open stream did not hear within {seconds} s what happened in this process.",
        "See whether the server's log says that the log of streams cannot be read; restart it.",
    ),
}
