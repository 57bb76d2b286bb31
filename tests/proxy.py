"""A network between a worker and its database, and all that can go wrong with one.

cut       every connection is aborted; new ones are taken
refuse    as cut, and new ones are aborted at once, until heal
hold      a black hole: bytes are taken and go nowhere, connections are accepted and never answered, until heal
strand    connections that are open now (all, or those that ever sent certain bytes) are held for ever, heal or not;
          new ones work: a forgetful NAT, a moved server
delay     seconds that each piece of data takes
swallow   the reply to the next message with these bytes never arrives: it is done, and its connection aborted
lose      the next message with these bytes never arrives: it is not done, and its connection aborted
stop      the next message with these bytes, of a connection that has sent those before, never arrives, nor does
          anything that follows on it; `stopped` is set
heal      everything flows, held bytes first, as TCP would have it
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

PIECE = 65536


@dataclass(eq=False)
class _Connection:
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    stranded: bool = False
    reply_is_lost: bool = False
    sent: bytearray = field(default_factory=bytearray)

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Proxy:
    """`url` leads through it. Listens on loopback only."""

    def __init__(self, database_url: str) -> None:
        self._given = urlsplit(database_url)
        endpoint = parse_qs(self._given.query).get("endpoint")
        self._target = urlsplit(endpoint[0]) if endpoint else self._given
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._to_swallow: bytes | None = None
        self._to_lose: bytes | None = None
        self._to_stop: tuple[bytes, bytes] | None = None
        self.stopped = asyncio.Event()
        self.delay = 0.0
        self.accepted = 0
        self.swallowed = 0
        self.lost = 0
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = self._url_through(port)
        try:
            yield self
        finally:
            server.close()
            self.cut()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _url_through(self, port: int) -> str:
        if self._target is not self._given:  # a table, whose URL names the endpoint of its server
            return self._given.geturl().replace(self._target.netloc, f"127.0.0.1:{port}")
        user, path = self._target.netloc.rpartition("@")[0] or "postgres", self._target.path
        return f"postgresql://{user}@127.0.0.1:{port}{path}?sslmode=disable"

    def cut(self) -> None:
        for connection in self._connections:
            connection.abort()

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def hold(self) -> None:
        self._flowing.clear()

    def strand(self, having_sent: bytes = b"") -> int:
        chosen = [connection for connection in self._connections if having_sent in connection.sent]
        for connection in chosen:
            connection.stranded = True
        return len(chosen)

    def swallow(self, message_with: bytes) -> None:
        self._to_swallow = message_with

    def lose(self, message_with: bytes) -> None:
        self._to_lose = message_with

    def stop(self, message_with: bytes, having_sent: bytes) -> None:
        self._to_stop = (message_with, having_sent)

    def heal(self) -> None:
        self._refusing, self.delay = False, 0.0
        self._to_swallow = self._to_lose = self._to_stop = None
        self._flowing.set()

    @property
    def stranded(self) -> int:
        """How many of the dead the client still keeps open."""
        return sum(connection.stranded for connection in self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.CancelledError):
            try:
                await self._serve(reader, writer)
            finally:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            return
        await self._flowing.wait()
        server_reader, server_writer = await self._connect()
        if self._refusing:  # since it connected
            server_writer.transport.abort()
            return
        connection = _Connection((writer, server_writer))
        self._connections.add(connection)
        there = asyncio.create_task(self._pump(connection, reader, server_writer, from_client=True))
        back = asyncio.create_task(self._pump(connection, server_reader, writer, from_client=False))
        try:
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection.abort()
            self._connections.discard(connection)
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        given = parse_qs(self._target.query)
        if folder := given.get("host"):
            return await asyncio.open_unix_connection(f"{folder[0]}/.s.PGSQL.{given.get('port', ['5432'])[0]}")
        return await asyncio.open_connection(self._target.hostname, self._target.port or 5432)

    async def _pump(
        self,
        connection: _Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        from_client: bool,
    ) -> None:
        while data := await reader.read(PIECE):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._flowing.wait()
            if from_client and self._is_to_stop(connection, data):
                connection.stranded = True
                self.stopped.set()
            if connection.stranded:
                continue  # lost on the way; but that the client closes is seen
            if from_client:
                connection.sent += data
            if from_client and self._to_lose is not None and self._to_lose in data:
                self._to_lose = None
                self.lost += 1
                return
            if from_client and self._to_swallow is not None and self._to_swallow in data:
                self._to_swallow, connection.reply_is_lost = None, True
            elif connection.reply_is_lost and not from_client:
                self.swallowed += 1
                return
            writer.write(data)
            await writer.drain()

    def _is_to_stop(self, connection: _Connection, data: bytes) -> bool:
        if self._to_stop is None:
            return False
        message, before = self._to_stop
        return message in data and before in connection.sent
