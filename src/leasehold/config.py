"""Settings: one frozen object, read from the environment by default."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leasehold.errors import EmbeddedError, InvalidInput
from leasehold.model.duration import read_duration
from leasehold.model.keyring import Keyring
from leasehold.model.redaction import Redactor, environment_values

VERSION = version("leasehold")
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = timedelta(milliseconds=100), timedelta(days=1)

MOST_LOG_LINES = 1_000_000
LONGEST_TOKEN = 4096
LAST_PORT = 65535


class LogFormat(StrEnum):
    """JSON: one object per line, for machines. TEXT: the same lines for people."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Settings:
    """Each can be set by an environment variable of its name: LEASEHOLD_URL, LEASEHOLD_SCHEMA and so on.

    url       the database; without one the embedded Postgres is used
    schema    the schema in it
    home      where the embedded Postgres keeps its data
    notify    whether workers listen for wakes; off, they poll
    fallback  how often a worker claims without a wake, as in 30s or 2m; default 60s with wakes, 2s without

    listen_url         a direct URL of the same database, only for the listener, if url leads through a pooler
    statement_timeout  how long one statement may take before a call raises Unreachable; default 30s
    log_lines          how many lines of one job wait in a worker to be written; further ones are dropped and counted
    embedded           whether the embedded Postgres may be used if url is not set; off: raises EmbeddedError
    secret_key         encrypts secret fields; with several, which have commas between them, the first encrypts
    redact_patterns    whether texts that look like keys and tokens are redacted; known secrets always are
    redact             regular expressions of texts to redact as well, with spaces between them
    token              the token for a server, if url names one, or of commands
    token_file         a file with that token; it is read again when the server refuses the token
    plain_http         whether the token is sent to another machine without TLS
    log_format         json or text: a log line for each event of a job; without it only problems and failures

    metrics_port         where workers, schedulers and servers have metrics and probes; without one they have none
    metrics_host         the address for it; default 127.0.0.1
    metrics_tenants      how many tenants have metrics of their own; all others are one, `other`
    metrics_definitions  how many definitions have
    """

    url: str | None = None
    schema: str = "leasehold"
    home: Path = Path(".leasehold")
    notify: bool = True
    fallback: timedelta | None = None
    listen_url: str | None = None
    statement_timeout: timedelta = timedelta(seconds=30)
    embedded: bool = True
    log_lines: int = 1000
    secret_key: str | None = field(default=None, repr=False)
    redact_patterns: bool = True
    redact: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    plain_http: bool = False
    log_format: LogFormat | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    metrics_tenants: int = 50
    metrics_definitions: int = 200

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        given = {each.name: environment.get(f"LEASEHOLD_{each.name.upper()}") for each in fields(cls)}
        return cls(**{name: _read(name, text) for name, text in given.items() if text})

    def require_embedded(self, missing: str = "LEASEHOLD_URL") -> None:
        """Raises EmbeddedError if the embedded Postgres is forbidden; callers without a URL call it first."""
        if not self.embedded:
            raise EmbeddedError(
                f"{missing} is not set, and LEASEHOLD_EMBEDDED=off forbids the embedded Postgres. "
                "Nothing was started.",
                fix=f"Set {missing}, or unset LEASEHOLD_EMBEDDED to use a database of this folder.",
            )


@cache
def process_redactor() -> Redactor:
    """Returns the redactor of this process. It knows the secrets of the environment as it was at the first call."""
    wanted = {name: text for name, text in os.environ.items() if name.startswith("LEASEHOLD_REDACT")}
    try:
        settings = Settings.from_environment(wanted)
    except InvalidInput:  # is reported where all settings are read
        settings = Settings()
    return Redactor(environment_values(os.environ), patterns=settings.redact_patterns, own_patterns=settings.redact)


def keyring() -> Keyring:
    """Returns the keys of LEASEHOLD_SECRET_KEY, as it is now. Raises InvalidInput for a text that is not keys."""
    return _read_keyring(os.environ.get("LEASEHOLD_SECRET_KEY", ""))


def api_token(named: Path | None = None) -> str:
    """Returns the token of the file, LEASEHOLD_TOKEN_FILE or LEASEHOLD_TOKEN, as it is now. Raises InvalidInput."""
    place = "LEASEHOLD_TOKEN"
    token = os.environ.get("LEASEHOLD_TOKEN", "").strip()
    if file := named or os.environ.get("LEASEHOLD_TOKEN_FILE"):
        place = str(file)
        try:
            token = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"the token file {file} can't be read: {error!s:.200}. Nothing was opened.",
                fix="Name a file that has the token and nothing else.",
            ) from error
    if not token or not token.isascii() or not token.isprintable() or " " in token or len(token) > LONGEST_TOKEN:
        raise InvalidInput(
            f"{place} {'is not set' if not token else 'does not hold a token'}, and every server needs one. "
            "Nothing was opened.",
            fix="Make one: leasehold token create NAME --role …, for a worker with --role worker; then set "
            "LEASEHOLD_TOKEN, or use --token-file.",
        )
    return token


def allows_plain_http() -> bool:
    """Returns LEASEHOLD_PLAIN_HTTP as it is now."""
    text = os.environ.get("LEASEHOLD_PLAIN_HTTP")
    return bool(text) and _read("plain_http", text or "")


def read_log_format() -> LogFormat | None:
    """Returns LEASEHOLD_LOG_FORMAT as it is now. Raises InvalidInput for another word than json or text."""
    text = os.environ.get("LEASEHOLD_LOG_FORMAT")
    return _read("log_format", text) if text else None


_read_keyring = lru_cache(8)(Keyring.read)


def _read(name: str, text: str) -> Any:
    try:
        return _READERS[name](text)
    except InvalidInput as error:
        raise InvalidInput(
            f"LEASEHOLD_{name.upper()}: {error.happened} Nothing was opened.", fix="Correct it, or unset it."
        ) from error


def read_timeout(text: str) -> timedelta:
    """Returns a duration that the database accepts as a time limit."""
    timeout = read_duration(text)
    if not SHORTEST_TIMEOUT <= timeout <= LONGEST_TIMEOUT:
        raise InvalidInput(
            f"{text[:60]!r} is not between 100ms and 1d.", fix="Write a duration between them. Nothing was changed."
        )
    return timeout


def read_patterns(text: str) -> tuple[str, ...]:
    """Returns regular expressions, which have spaces between them. Raises InvalidInput for one that is none."""
    patterns = tuple(text.split())
    Redactor(patterns=False, own_patterns=patterns)
    return patterns


def read_count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:10]) <= MOST_LOG_LINES:
        raise InvalidInput(
            f"{text[:60]!r} is not a number from 1 to {MOST_LOG_LINES:,}.",
            fix="Write such a number. Nothing was changed.",
        )
    return int(text)


def read_port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text[:6]) > LAST_PORT:
        raise InvalidInput(
            f"{text[:60]!r} is not a port: a number from 0 to {LAST_PORT}; 0 takes a free one.",
            fix="Write such a number. Nothing was changed.",
        )
    return int(text)


def read_switch(text: str) -> bool:
    if text.strip().lower() not in _SWITCH:
        raise InvalidInput(f"{text!r} is neither on nor off.", fix="Write on or off. Nothing was changed.")
    return _SWITCH[text.strip().lower()]


def read_format(text: str) -> LogFormat:
    if text.strip().lower() not in set(LogFormat):
        raise InvalidInput(f"{text[:60]!r} is neither json nor text.", fix="Write json or text. Nothing was changed.")
    return LogFormat(text.strip().lower())


_SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
_READERS: Mapping[str, Callable[[str], Any]] = {
    "url": str,
    "schema": str,
    "home": Path,
    "notify": read_switch,
    "fallback": read_duration,
    "listen_url": str,
    "statement_timeout": read_timeout,
    "log_lines": read_count,
    "embedded": read_switch,
    "secret_key": str,
    "redact_patterns": read_switch,
    "redact": read_patterns,
    "token": str,
    "token_file": Path,
    "plain_http": read_switch,
    "log_format": read_format,
    "metrics_port": read_port,
    "metrics_host": str,
    "metrics_tenants": read_count,
    "metrics_definitions": read_count,
}
