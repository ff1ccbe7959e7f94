"""Reading HTTP/1.1 answers: as much of it as servers use, and an error for the rest."""

from functools import lru_cache
from typing import NamedTuple


class Head(NamedTuple):
    """What matters in the head of an answer."""

    status: int
    length: int | None  # None for a body in chunks
    closes: bool


@lru_cache(maxsize=256)  # heads repeat, but for the date
def parse_head(head: bytes) -> Head:
    """Read status, length of the body, and whether the server announces that it will close.

    Raises:
        ValueError: this is no head of an answer whose end can be known.
    """
    status_line, *lines = head.split(b"\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    version, status = status_line.split(b" ", 2)[:2]
    length = fields.get(b"content-length")
    if length is None and fields.get(b"transfer-encoding", b"").lower() != b"chunked":
        raise ValueError("neither Content-Length nor chunks")
    closes = fields.get(b"connection", b"").lower() == b"close" or version != b"HTTP/1.1"
    return Head(int(status), None if length is None else int(length), closes)


def join_chunks(data: bytes) -> tuple[bytes, int] | None:
    """Return a chunked body and where it ends in the data, or None while some of it is missing.

    Raises:
        ValueError: these are no chunks.
    """
    chunks = []
    at = 0
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end], 16)
        at = line_end + 2 + size + 2
        if at > len(data):
            break
        if not size:
            return b"".join(chunks), at
        chunks.append(data[line_end + 2 : at - 2])
    return None
