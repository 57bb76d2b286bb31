"""Redacts what Python code prints on standard output and standard error."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from leasehold.runtime.redacted_logs import redactor_here


class RedactedStream:
    """A text stream that redacts each write, as `print` makes one for each of its arguments."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(redactor_here().text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def redact_prints() -> None:
    """Redacts later prints of this process. The output of its child processes is not redacted."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, RedactedStream):
            setattr(sys, name, cast(TextIO, RedactedStream(stream)))
