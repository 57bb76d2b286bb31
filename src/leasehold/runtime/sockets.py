"""Sockets on which a process listens."""

import socket

from leasehold.errors import InvalidInput


def bind(host: str, port: int, *, subject: str, fix: str, most: int) -> socket.socket:
    """Returns a listening socket. Raises InvalidInput if the address can't be used; port 0 takes a free one.

    `subject` names in an error what should be served there, `most` is how many connections may wait.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _unusable(host, port, error, subject, fix) from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(most)
    except OSError as error:
        bound.close()
        raise _unusable(host, port, error, subject, fix) from error
    return bound


def _unusable(host: str, port: int, error: Exception, subject: str, fix: str) -> InvalidInput:
    why = getattr(error, "strerror", None) or error
    return InvalidInput(f"{subject} can't listen on {host[:80]}, port {port}: {why}. Nothing was started.", fix=fix)


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
