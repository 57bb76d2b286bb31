"""Tells guards until when their worker's lease holds, by a file that both share.

A worker that stands still, or whose loop is blocked, can't stop its commands, while another worker may get their
jobs. So each guard ends its program by itself when the lease is over. The moment is on the machine's monotonic clock.
"""

import marshal
import os

from leasehold.commands.guarded import make_unnamed_file


class LeaseFile:
    """A file without a name, whose content is the moment at which the lease ends."""

    def __init__(self, ends: float) -> None:
        self.descriptor = make_unnamed_file(marshal.dumps(ends))

    def write(self, ends: float) -> None:
        os.pwrite(self.descriptor, marshal.dumps(ends), 0)

    def close(self) -> None:
        """Closes the file here. Guards have it open for themselves, and end their programs at its last moment."""
        os.close(self.descriptor)
