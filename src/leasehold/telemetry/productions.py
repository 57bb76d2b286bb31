"""The span of a producer's call, as the app and its API use it; and the one of an app that does not trace."""

from types import TracebackType
from typing import Protocol, Self


class Production(Protocol):
    """The span of one enqueue or emit, open while the caller waits for it. Its jobs get its `trace_context`."""

    @property
    def trace_context(self) -> str | None: ...

    def note(self, *, job: str | None = None, count: int | None = None) -> None:
        """Notes what the call has made: the id of a single job, or how many jobs there are."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Untraced:
    """Makes no span, and passes on a context that the request brought."""

    __slots__ = ("trace_context",)

    def __init__(self, trace_context: str | None = None) -> None:
        self.trace_context = trace_context

    def note(self, *, job: str | None = None, count: int | None = None) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


UNTRACED = Untraced()
