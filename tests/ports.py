"""Ports for servers that tests start."""

import random
import socket


def free_port() -> int:
    """A port nobody listens on, below those that the system gives to outgoing connections."""
    for port in random.SystemRandom().sample(range(20_000, 32_768), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    msg = "none of a hundred ports is free"
    raise RuntimeError(msg)
