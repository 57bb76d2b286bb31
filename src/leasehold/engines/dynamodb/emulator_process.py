"""The program of the emulator's process: serves ministack on the loopback address while clients need it.

It runs by its path (`python -I …/emulator_process.py HOME keep|forget`) and imports nothing of Leasehold. Each client
holds a shared `flock` on `clients.lock`, which the kernel releases even on kill -9. The process ends once it gets the
exclusive lock, and a regular end is when ministack writes its state.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

TICK = 0.1  # seconds until the process notices that the last client has ended


def main() -> None:
    """Detaches, and serves; says on standard output once that requests may be sent."""
    home, keep = Path(sys.argv[1]), sys.argv[2] == "keep"
    detach()
    lock = open_lock(home / "server.lock")
    if not became_the_server(lock):
        return
    listener = listen(home / "port")
    configure(home, keep, listener.getsockname()[1])
    publish(home, listener.getsockname()[1])
    asyncio.run(serve(home, lock, listener))


def detach() -> None:
    """Becomes a child of no client: a client that lives on would have to wait for its end."""
    if os.fork():
        os._exit(0)
    os.setsid()


def became_the_server(lock: int) -> bool:
    """Takes the lock; repeats it for a while, because a client that looks for a server holds it for a moment."""
    deadline = time.monotonic() + 2
    while not try_lock(lock):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def listen(remembered: Path) -> socket.socket:
    """Listens on the port of the last start if it is free, so that a URL that was copied stays valid."""
    with contextlib.suppress(OSError, ValueError):
        return listen_on(int(remembered.read_text()))
    listener = listen_on(0)
    remembered.write_text(str(listener.getsockname()[1]))
    return listener


def listen_on(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)  # connections wait here while it answers a request
    except BaseException:
        listener.close()
        raise
    return listener


def configure(home: Path, keep: bool, port: int) -> None:
    """Sets the options of ministack, which it reads while it is imported."""
    os.environ.update(
        BIND_HOST="127.0.0.1",
        GATEWAY_PORT=str(port),
        SERVICES="dynamodb,dynamodbstreams",
        LOG_LEVEL="WARNING",
        PERSIST_STATE="1" if keep else "0",
        STATE_DIR=str(home / "state"),
        SFTP_ENABLED="0",
        IOT_MTLS_ENABLED="0",
        # Without a socket it leaves the containers of another ministack alone, which it would remove at its start.
        DOCKER_HOST=f"unix://{home}/no-docker",
    )


def publish(home: Path, port: int) -> None:
    """Writes the address for clients, which trust it only while server.lock is held."""
    unfinished = home / "server.json.new"
    unfinished.write_text(json.dumps({"endpoint": f"http://127.0.0.1:{port}", "pid": os.getpid()}))
    unfinished.replace(home / "server.json")
    with contextlib.suppress(OSError):  # the client may have ended
        os.write(1, b"listening\n")
    os.dup2(2, 1)


async def serve(home: Path, lock: int, listener: socket.socket) -> None:
    from hypercorn.asyncio import serve as serve_app
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.keep_alive_timeout = 75
    config.loglevel = "WARNING"
    config.graceful_timeout = 1.0

    async def until_unused() -> None:
        await wait_until_unused(home, lock)

    await serve_app(app, config, shutdown_trigger=until_unused)


async def wait_until_unused(home: Path, lock: int) -> None:
    """Returns when the last client has ended, the home was deleted, or a signal asks for the end."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    clients = open_lock(home / "clients.lock")
    while not (asked.is_set() or was_replaced(home, lock) or try_lock(clients)):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), TICK)


def was_replaced(home: Path, lock: int) -> bool:
    try:
        return not os.path.samestat(os.fstat(lock), os.stat(home / "server.lock"))
    except FileNotFoundError:
        return True


if __name__ == "__main__":
    main()
