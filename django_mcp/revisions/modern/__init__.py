"""Protocol 2026-07-28: stateless requests; ``_meta`` replaces the handshake."""
