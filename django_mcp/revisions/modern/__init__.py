"""Protocol 2026-07-28: each request stands alone and says in ``_meta`` what a handshake used to say."""
