"""The administrator at the command line, as the audit log names it."""

import getpass
import socket

from leasehold.model.audit import Actor


def cli_actor() -> Actor:
    """Returns the account and the host that run this command: cli:anna@build-7."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        user = "unknown"
    return Actor(f"cli:{user}@{socket.gethostname()}")
