# SPDX-License-Identifier: Apache-2.0
"""A proxy before an HTTP server that counts, shapes and spoils.

    with Proxy("127.0.0.1", port) as p:
        p.rate_bps = 20e6                   # both directions together
        p.hole = True                       # nothing gets through, nobody is told
        p.spoil = lambda request: Answer(503) if request.method == "PUT" else None

`spoil` sees each request's head and says what is done with it; None lets it pass.  It runs in the
proxy's thread.
"""

import asyncio
import collections
import contextlib
import dataclasses
import threading
import time

PIECE = 64 * 1024
HEAD_MOST = 64 * 1024


# ---- what can be done to a request ----


@dataclasses.dataclass(frozen=True)
class Answer:
    """The server is not asked; this is what the client hears."""

    status: int
    body: bytes = b""
    headers: tuple = ()


@dataclasses.dataclass(frozen=True)
class Cut:
    """The answer's body ends after so many bytes; without its length where `sized` is false."""

    after: int
    sized: bool = True


@dataclasses.dataclass(frozen=True)
class Stalled:
    """The answer stands still for ever after so many bytes of its body; before its head where None."""

    after: int | None = None


@dataclasses.dataclass(frozen=True)
class Late:
    """The server hears of it so much later."""

    seconds: float


@dataclasses.dataclass(frozen=True)
class Lost:
    """The server does it, the client never hears."""


@dataclasses.dataclass(frozen=True)
class Refused:
    """The connection ends before the server is asked."""


def denied(code="AccessDenied", status=403):
    """As S3 says it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>spoilt</Message></Error>"
    return Answer(status, body.encode(), (("Content-Type", "application/xml"),))


# ---- HTTP, as much as is needed ----


@dataclasses.dataclass
class Head:
    first: str
    fields: list  # of (name, value)

    @classmethod
    def parse(cls, raw):
        lines = raw.decode("latin-1").split("\r\n")
        fields = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:] if line]
        return cls(lines[0], fields)

    def get(self, name, default=None):
        for field, value in self.fields:
            if field.lower() == name:
                return value
        return default

    def without(self, *names):
        return Head(self.first, [f for f in self.fields if f[0].lower() not in names])

    def raw(self):
        lines = [self.first] + [f"{name}: {value}" for name, value in self.fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Request:
    """A request's head, as `spoil` sees it."""

    def __init__(self, head):
        self.head = head
        self.method, self.target, _ = head.first.split(" ", 2)
        self.path, _, self.query = self.target.partition("?")
        self.length = int(head.get("content-length", 0))


def answers_without_body(request, head):
    status = int(head.first.split(" ")[1])
    return request.method == "HEAD" or status in (204, 304) or status < 200


class Proxy:
    def __init__(self, host, port):
        self.upstream = (host, port)
        self.endpoint = None
        # The test sets these at any time.
        self.rate_bps = None
        self.delay_s = 0
        self.spoil = None
        # What went through.
        self.requests = collections.Counter()
        self.up_bytes = 0
        self.down_bytes = 0
        self._loop = asyncio.new_event_loop()
        self._open = None
        self._next_at = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    # ---- the test's side ----

    def __enter__(self):
        self._thread.start()
        server = self._call(self._start())
        self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    @property
    def hole(self):
        return not self._open.is_set()

    @hole.setter
    def hole(self, closed):
        change = self._open.clear if closed else self._open.set
        self._loop.call_soon_threadsafe(change)

    # ---- the proxy's thread ----

    async def _start(self):
        self._open = asyncio.Event()
        self._open.set()
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_MOST)

    async def _stop(self):
        others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader, writer):
        """One connection of a client's; each of its requests goes to the server by a new one."""
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            while await self._exchange(reader, writer):
                pass
        writer.close()

    async def _exchange(self, reader, writer):
        raw = await reader.readuntil(b"\r\n\r\n")
        request = Request(Head.parse(raw[:-4]))
        await self._open.wait()
        self.requests[request.method] += 1
        fault = self.spoil(request) if self.spoil else None
        if isinstance(fault, Refused):
            return False
        if isinstance(fault, Late):
            await asyncio.sleep(fault.seconds)
        if request.head.get("expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if isinstance(fault, Answer):
            return await self._answer(request, reader, writer, fault)
        if isinstance(fault, Stalled):
            return await self._stall(request, reader, writer, fault)
        up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=HEAD_MOST)
        try:
            up_writer.write(request.head.without("expect").raw())
            await self._copy(reader, up_writer, request.length, up=True)
            return await self._reply(request, up_reader, writer, fault)
        finally:
            up_writer.close()

    async def _answer(self, request, reader, writer, fault):
        await self._copy(reader, None, request.length, up=True)
        fields = [*fault.headers, ("Content-Length", str(len(fault.body)))]
        body = b"" if request.method == "HEAD" else fault.body
        writer.write(Head(f"HTTP/1.1 {fault.status} Spoilt", fields).raw() + body)
        await writer.drain()
        return True

    async def _stall(self, request, reader, writer, fault):
        """Until the client goes away."""
        if fault.after is not None:
            up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=HEAD_MOST)
            up_writer.write(request.head.raw())
            await self._reply(request, up_reader, writer, Cut(fault.after))
            up_writer.close()
        await reader.read()
        return False

    async def _reply(self, request, reader, writer, fault):
        raw = await reader.readuntil(b"\r\n\r\n")
        head = Head.parse(raw[:-4])
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._open.wait()
        if isinstance(fault, Lost):
            return False
        cut = fault if isinstance(fault, Cut) else None
        if cut and not cut.sized:
            head = head.without("content-length")
            head.fields.append(("Connection", "close"))
        writer.write(head.raw())
        if answers_without_body(request, head):
            await writer.drain()
            return True
        length = (
            head.get("content-length") if not cut else Head.parse(raw[:-4]).get("content-length")
        )
        if length is None:  # chunked, or until the connection ends: passed on as it comes
            await self._copy(reader, writer, None)
            return False
        await self._copy(reader, writer, min(int(length), cut.after) if cut else int(length))
        return cut is None

    async def _copy(self, reader, writer, length, up=False):
        """So many bytes; None: until the end."""
        left = length
        while left is None or left > 0:
            piece = await reader.read(PIECE if left is None else min(PIECE, left))
            if not piece:
                if left is None:
                    break
                raise ConnectionError("ended early")
            if left is not None:
                left -= len(piece)
            await self._pace(len(piece))
            await self._open.wait()
            if up:
                self.up_bytes += len(piece)
            else:
                self.down_bytes += len(piece)
            if writer:
                writer.write(piece)
                await writer.drain()

    async def _pace(self, size):
        if not self.rate_bps:
            return
        now = time.monotonic()
        self._next_at = max(now, self._next_at) + size / self.rate_bps
        await asyncio.sleep(self._next_at - now)
