"""Runs the store's, the worker's and the CLI's tests on the oldest Postgres that this machine's packages offer.

    python -m tests.oldest_postgres -n 3          the parts below; further arguments are pytest's

The server listens on the loopback interface, asks for a password and goes when this process goes. Tests that start a
server of their own start one of the same version. Exits with pytest's status; with 0, and one line that says why,
where no such Postgres can be had.
"""

import asyncio
import base64
import hashlib
import hmac
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from leasehold import embedded
from leasehold.embedded.binaries import SYSTEM_FOLDER, VARIABLE, is_complete
from leasehold.testing.server import SETTINGS, URL, roomy_folder

PARTS = ("tests/store", "tests/postgres", "tests/worker", "tests/cli")
OLDEST_SUPPORTED = 14
SERVER = {**SETTINGS, "max_connections": "300", "listen_addresses": "127.0.0.1"}


class NotAvailable(Exception):
    """No Postgres from this machine's packages can run here."""


def main(arguments: list[str]) -> int:
    parts = [] if any(each.startswith("tests") for each in arguments) else list(PARTS)
    try:
        binaries = oldest_postgres()
    except NotAvailable as reason:
        report(f"Skipped the tests on the oldest Postgres: {reason}")
        return 0
    os.environ[VARIABLE] = str(binaries)
    with server() as url:
        report(f"Testing on PostgreSQL {binaries.parent.name} from {binaries}.")
        chosen = ["-m", "not faults", "-k", "not dynamodb"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *chosen, *arguments, *parts], env={**os.environ, URL: url}
        ).returncode


def oldest_postgres() -> Path:
    """Returns the bin folder of the oldest supported version, installed if root may do that."""
    offered, present = offered_versions(), installed_versions()
    if not offered | present:
        raise NotAvailable("no package postgresql-NN is offered here, and none is installed.")
    oldest = min(offered | present)
    if oldest not in present:
        try:
            install(oldest)
        except NotAvailable as reason:
            if not present:
                raise
            report(f"{reason} The oldest one that is installed is tested instead.")
            oldest = min(present)
    return bin_folder(oldest)


def installed_versions() -> set[int]:
    folders = (folder for folder in SYSTEM_FOLDER.glob("*/bin") if is_complete(folder))
    return supported(folder.parent.name for folder in folders)


def offered_versions() -> set[int]:
    """Returns the versions that apt offers. Root updates apt's lists first if they are empty, as in a new image."""
    if not shutil.which("apt-cache"):
        return set()
    if not (found := _known_to_apt()) and os.geteuid() == 0:
        _apt_get("update", "-qq")
        found = _known_to_apt()
    return found


def install(version: int) -> None:
    package = f"postgresql-{version}"
    if os.geteuid() != 0:
        raise NotAvailable(f"{package} is not installed, and only root can install it: apt-get install {package}")
    report(f"Installing {package} …")
    for attempt in (1, 2):
        said = _apt_get("install", "-y", "-qq", "--no-install-recommends", package)
        if is_complete(bin_folder(version)):
            return
        if attempt == 1:  # the lists may be older than the packages that the mirror still has
            _apt_get("update", "-qq")
    raise NotAvailable(f"apt-get install {package} failed: {' '.join(said.split())[-300:] or 'it said nothing'}")


@contextmanager
def server() -> Iterator[str]:
    """Yields the URL of a server in a folder of its own, which also stops when this process is killed."""
    with tempfile.TemporaryDirectory(
        prefix="leasehold-oldest-", dir=roomy_folder(), ignore_cleanup_errors=True
    ) as folder:
        os.chmod(folder, 0o711)  # the account that runs postgres must pass through
        port = free_port()
        with embedded.postgres(Path(folder, "home"), settings={**SERVER, "port": str(port)}) as running:
            password = secrets.token_hex(16)
            asyncio.run(_set_password(running.url, password_hash(password)))
            yield f"postgresql://leasehold:{password}@127.0.0.1:{port}/postgres"


def password_hash(password: str) -> str:
    """Returns what the server keeps of a password, by one iteration instead of 4,096.

    Each test opens some connections, and asyncpg counts the iterations in Python.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client, server = (hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key"))
    stored = hashlib.sha256(client).digest()
    texts = [base64.b64encode(each).decode() for each in (salt, stored, server)]
    return "SCRAM-SHA-256$1:{}${}:{}".format(*texts)


async def _set_password(url: str, password: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        statement = await connection.fetchval("select format('alter role leasehold password %L', $1::text)", password)
        await connection.execute(statement)
    finally:
        await connection.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def supported(names: Iterator[str]) -> set[int]:
    return {int(name) for name in names if name.isdecimal() and int(name) >= OLDEST_SUPPORTED}


def bin_folder(version: int) -> Path:
    return SYSTEM_FOLDER / str(version) / "bin"


def report(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _known_to_apt() -> set[int]:
    done = subprocess.run(
        ["apt-cache", "search", "--names-only", r"^postgresql-[0-9]+$"], capture_output=True, text=True
    )
    return supported(match[1] for match in re.finditer(r"^postgresql-(\d+) ", done.stdout, re.MULTILINE))


def _apt_get(*arguments: str) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["apt-get", *arguments], capture_output=True, text=True, env=environment)
    return done.stdout + done.stderr


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then, too
    sys.exit(main(sys.argv[1:]))
