"""How a connection is opened: its settings, time limits, TCP keepalives, and the one of several hosts that writes."""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    Raw = asyncpg.Connection[asyncpg.Record]
else:
    Raw = asyncpg.Connection

# Startup settings of every direct connection of ours, against what a database or a role presets by ALTER … SET.
# A connection that a handler gets has none of them.
DIRECT_SESSION = {
    "leasehold_session.kind": "direct",
    # As in our functions that have one of their own. A session throws away the plans of a helper that is called under
    # another path than before: jobs with a key and jobs without one, in turn, would plan it at each call.
    "search_path": "pg_catalog, pg_temp",
    # Locks first, then a snapshot: above READ COMMITTED the snapshot would be the older of the two.
    "default_transaction_isolation": "read committed",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    # A listener's advisory lock ends with its session: the server must notice that a machine is gone.
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
FIRST_WITH_TRANSACTION_TIMEOUT = 17
# Seconds that closing a connection may take.
CLOSING = 0.5
# The driver would wait a minute for a host that never answers, and so would every producer.
CONNECTING = 10.0
# The server gives a statement up first: then its session can be used again.
LATER_THAN_THE_SERVER = 1.0
# A peer that vanished is noticed after about 30 s: idle by probes, with data under way by TCP_USER_TIMEOUT.
_KEEPALIVE = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPALIVE": 15,  # the same, as macOS calls it
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}


# The arrays of Postgres's own types that our statements use, and the types of their elements, by their fixed ids.
_ARRAYS = {
    "bool": (1000, 16),
    "int2": (1005, 21),
    "int4": (1007, 23),
    "int8": (1016, 20),
    "float4": (1021, 700),
    "float8": (1022, 701),
    "timestamptz": (1185, 1184),
    "interval": (1187, 1186),
    "uuid": (2951, 2950),
}
_UNUSED = dict.fromkeys(("basetype", "range_subtype", "attrtypoids", "attrnames"))
KNOWN_TYPES = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "elemtype": element,
        "elemdelim": ",",
        **_UNUSED,
    }
    for name, (array, element) in _ARRAYS.items()
]


class OwnConnection(Raw):
    """A connection with TCP keepalives. `begin` is the text that begins a transaction of ours on it.

    It knows the types of our statements. asyncpg knows no arrays but those of text, and would ask the server for each
    by three statements, on each connection: a quarter of all that the server did for a short-lived store.
    """

    __slots__ = ("begin",)
    begin: str

    def __init__(self, protocol: Any, transport: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(protocol, transport, *arguments, **options)
        self.begin = "begin"
        with suppress(AttributeError, KeyError, TypeError):  # of another release; asyncpg then asks the server
            protocol.get_settings().register_data_types(KNOWN_TYPES)
        keep_alive(transport.get_extra_info("socket"))


def keep_alive(connected: Any) -> None:
    """Turns keepalives on, as far as the system has them; a unix socket needs none."""
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connected.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                same.setsockopt(socket.IPPROTO_TCP, option, value)


def options_for(
    url: str, settings: Mapping[str, str], *, pooled: bool, limit: float | None, timeout: float = CONNECTING
) -> dict[str, Any]:
    """Returns the driver's options for a connection of ours. A statement may take `limit` seconds."""
    options: dict[str, Any] = {
        "connection_class": OwnConnection,
        "server_settings": {"application_name": "leasehold"},
        "timeout": timeout,
        "command_timeout": None if limit is None else limit + LATER_THAN_THE_SERVER,
    }
    if has_several_hosts(url):
        options["target_session_attrs"] = "read-write"
    if pooled:
        options["statement_cache_size"] = 0
    else:
        options["server_settings"] |= {"statement_timeout": str(milliseconds(limit))} | dict(settings)
    return options


def milliseconds(limit: float | None) -> int:
    """Returns the limit as Postgres takes it: 0 means that there is none."""
    return 0 if limit is None else max(1, round(1000 * limit))


def has_several_hosts(url: str) -> bool:
    """Returns whether the URL has several hosts, and neither URL nor environment says how to choose."""
    parts = urlsplit(url)
    given = parse_qs(parts.query)
    chosen = "target_session_attrs" in given or "PGTARGETSESSIONATTRS" in os.environ
    return not chosen and any("," in hosts for hosts in (parts.netloc.rpartition("@")[2], *given.get("host", ())))


def require_readable(url: str) -> None:
    """Raises InvalidInput for a URL that the driver would refuse by a bare ValueError, or read 99999 in as 34463."""
    try:
        parts = urlsplit(url)
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError as error:
        raise InvalidInput(
            f"the URL of the database can't be read ({str(error).partition(' as ')[0]}). Nothing was opened.",
            fix="Write LEASEHOLD_URL as postgresql://user:password@host:port/database, with what is special in it "
            "percent-encoded.",
        ) from error


class Transaction:
    """A transaction of ours: like the driver's, but a caller that gives up sends no ROLLBACK, which may hang too.

    It begins in one round trip, also behind a pooler, where its limits are set together with BEGIN; and so is what
    `first` sets, a statement without parameters.
    """

    __slots__ = ("_begin", "_connection")

    def __init__(self, connection: OwnConnection, first: str | None = None) -> None:
        self._connection = connection
        self._begin = connection.begin if first is None else f"{connection.begin};{first}"

    async def __aenter__(self) -> None:
        try:
            await self._connection.execute(self._begin)
        except BaseException:
            self._connection.terminate()
            raise

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self._connection.execute("commit")
        elif not isinstance(error, Exception) or isinstance(error, TimeoutError):
            self._connection.terminate()
        elif not self._connection.is_closed():
            await self._connection.execute("rollback")


async def close_connection(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Closes the connection, and drops it if that fails or takes too long."""
    try:
        await connection.close(timeout=CLOSING)
    except asyncio.CancelledError:
        connection.terminate()
        raise
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        connection.terminate()
