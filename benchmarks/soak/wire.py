"""HTTP/1.1 as a client sees it that may be cut off at any moment: each request on a connection of its own.

Standard library only, and nothing is retried here: whoever asks decides what a broken connection means.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from benchmarks.process import HOST

LIMIT = 4 * 1024 * 1024
"""Bytes that one line of an answer may have."""


class Broken(Exception):
    """The connection could not be made, or ended before the answer did."""


class Event(NamedTuple):
    """One event of a stream, with the last id and the data that it had."""

    id: str
    data: str

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message in it."""
        found: dict[str, Any] = json.loads(self.data)
        return found


@dataclass
class Reply:
    """The answer to one request; its body is still to be read.

    Attributes:
        headers: by lower-case name.
    """

    status: int
    headers: Mapping[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def is_stream(self) -> bool:
        """Whether events follow."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def close(self) -> None:
        """Drop the connection, whatever may still come."""
        self.writer.transport.abort()

    async def body(self) -> bytes:
        """All of it; the connection is closed then.

        Raises:
            Broken: it was cut off.
        """
        async with self:
            return b"".join([part async for part in self._parts()])

    async def events(self) -> AsyncIterator[Event]:
        """Those with data, and the first of a stream that has an id only, to the end of the stream.

        Raises:
            Broken: it was cut off.
        """
        found: dict[str, str] = {}
        buffer = b""
        async for part in self._parts():
            *lines, buffer = (buffer + part).split(b"\n")
            for line in lines:
                name, _, value = line.decode().rstrip("\r").partition(":")
                if name:
                    found[name] = value.strip()
                elif found:
                    if "data" in found or "id" in found:
                        yield Event(found.get("id", ""), found.get("data", ""))
                    found = {}

    async def _parts(self) -> AsyncIterator[bytes]:
        try:
            if (length := self.headers.get("content-length")) is not None:
                yield await self.reader.readexactly(int(length))
                return
            if self.headers.get("transfer-encoding", "") != "chunked":  # 204 and the like
                return
            while size := int(await self.reader.readline() or b"x", 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
        except (OSError, EOFError, ValueError) as error:
            raise Broken(str(error) or type(error).__name__) from error


async def send(port: int, verb: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Reply:
    """Send a request and read the head of its answer.

    Raises:
        Broken: nobody listens, or the connection ended before the head did.
    """
    try:
        reader, writer = await asyncio.open_connection(HOST, port, limit=LIMIT)
    except OSError as error:
        raise Broken(f"no connection: {error}") from error
    try:
        own = {"Host": f"{HOST}:{port}", "Content-Length": str(len(body))} if body else {"Host": f"{HOST}:{port}"}
        lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**own, **headers}.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        status_line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        named = (field.partition(":") for field in fields if field)
        found = {name.strip().lower(): value.strip() for name, _, value in named}
        return Reply(int(status_line.split(" ", 2)[1]), found, reader, writer)
    except (OSError, EOFError) as error:
        writer.transport.abort()
        raise Broken(str(error) or type(error).__name__) from error
    except BaseException:  # it was cancelled, or took too long
        writer.transport.abort()
        raise
