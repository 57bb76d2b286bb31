"""Listeners of the event stream: what one may implement, and the fan-out to several.

    class Failures(Listener):
        wants = (JobEnded,)

        def __call__(self, event: Event) -> None: ...

    app.observe(Failures())          # a plain function gets all events

An event is made only if some listener wants its type. Claims and ends, which come with every job, can be taken in
batches instead, without an event for each: a batch of 500 jobs then costs a listener one call.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, suppress
from typing import Any, get_args

from leasehold.model.job import Claim, TenantId
from leasehold.model.outcome import Outcome, Verdict
from leasehold.telemetry.events import Event, JobClaimed, JobEnded, LoopLag, Polled, WakeReceived
from leasehold.telemetry.productions import Production

log = logging.getLogger("leasehold")

# Seconds for which the end of a process waits for its listeners.
CLOSE_TIMEOUT = 5.0

ALL_EVENTS: frozenset[type[Any]] = frozenset(get_args(Event))

FREQUENT_EVENTS: frozenset[type[Any]] = frozenset({JobClaimed, LoopLag, Polled, WakeReceived})
"""Events that come with each look of a worker at its queue, or twice a second. Few people want to read them."""

Observer = Callable[[Event], object]
"""Called in the thread where the event happens, on a worker's event loop or in a producer, so it must be quick."""
AttemptEnd = tuple[Claim, Verdict, float | None, Outcome]
"""An attempt whose verdict is written: claim, verdict, how many seconds its handler ran, and its outcome.

A plain tuple: a named one would take a sixth of what all listeners together may cost for a job.
"""
Around = Callable[[Claim], AbstractContextManager[Any] | None]


def ignore_events(event: Event) -> None:
    """Ignores events; a worker with this observer creates none."""


class Listener:
    """A listener that chooses its events, takes them in batches, or acts around each call of a handler.

    It overrides what it needs. An exception of a listener is logged once, and disturbs no job and no other listener.
    """

    wants: Collection[type[Any]] | None = None
    """The types of the events that it is called with; None: all."""

    def __call__(self, event: Event) -> object:
        """Takes one event."""

    def on_claims(self, claims: Sequence[Claim]) -> None:
        """Takes the jobs of one claim, in place of a JobClaimed event for each."""

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        """Takes attempts whose verdicts were written together, in place of a JobEnded event for each."""

    def on_reclaims(self, ends: Sequence[AttemptEnd]) -> None:
        """Takes attempts of workers that are gone, whose verdicts this process has written, with all facts."""

    def on_wake(self, channel: str) -> None:
        """Takes a notification of a worker, in place of a WakeReceived event."""

    def on_poll(self, reason: str, claimed: int) -> None:
        """Takes a look of a worker at its queue, in place of a Polled event."""

    def around(self, claim: Claim) -> AbstractContextManager[Any] | None:
        """Returns a context manager that is open while the handler runs, in the context of its task; None: nothing.

        Called just before the handler starts. Threads and tasks that the handler starts see its context variables.
        """
        return None

    def close(self) -> None:
        """Sends what it has not sent yet. Called in a thread of its own when a worker, scheduler or API server ends.

        The process waits for at most 5 s, one of handlers for 3 s. Events may follow: an app may be opened once more.
        """


class Tracing(Listener):
    """A listener that makes spans. Of several, an app uses the one that was added last. Its verbs must not raise."""

    def produce(self, verb: str, name: str | None, tenant: TenantId, parent: str | None = None) -> Production:
        """Begins the span of a call: `verb` is enqueue or emit, `name` that of a definition or an event.

        `parent` is the context of a request that has no span in this process.
        """
        raise NotImplementedError

    def span_of(self, claim: Claim) -> str | None:
        """Returns the traceparent of the attempt's span. The worker writes it with an end that is not a success."""
        raise NotImplementedError

    def begin_crashed(self, claim: Claim) -> str | None:
        """Begins the span of an attempt whose worker is gone, and returns its traceparent."""
        raise NotImplementedError

    def drop(self, claims: Iterable[Claim]) -> None:
        """Forgets spans of attempts whose worker is gone, and whose verdicts others have written."""
        raise NotImplementedError

    def attach(self, trace_context: str | None) -> None:
        """Makes the span that this text names the current one, for the process of a handler.

        None: makes the context in which handlers start that `around` returns nothing for.
        """
        raise NotImplementedError


DIRECT: Mapping[str, frozenset[type[Any]]] = {
    "on_claims": frozenset({JobClaimed}),
    "on_ends": frozenset({JobEnded}),
    "on_reclaims": frozenset(),
    "on_wake": frozenset({WakeReceived}),
    "on_poll": frozenset({Polled}),
    "around": frozenset(),
}
"""The methods that a listener may override, and the types of the events that it does not get then."""


class Listeners:
    """The listeners of an app or a worker. Calls each with what it wants, and guards the caller against its errors.

    `on_claims`, `on_ends`, `on_reclaims`, `on_wake`, `on_poll` and `around` are empty if no listener has them.
    """

    def __init__(self, listeners: Iterable[Observer] = ()) -> None:
        self._listeners: tuple[Observer, ...] = ()
        self._by_type: dict[type[Any], tuple[Observer, ...]] = {}
        self._complained: set[int] = set()
        self.on_claims: tuple[Callable[[Sequence[Claim]], None], ...] = ()
        self.on_ends: tuple[Callable[[Sequence[AttemptEnd]], None], ...] = ()
        self.on_reclaims: tuple[Callable[[Sequence[AttemptEnd]], None], ...] = ()
        self.on_wake: tuple[Callable[[str], None], ...] = ()
        self.on_poll: tuple[Callable[[str, int], None], ...] = ()
        self.around: tuple[Around, ...] = ()
        self.tracing: Tracing | None = None
        for each in listeners:
            self.add(each)

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._listeners)

    def add(self, listener: Observer) -> None:
        """Adds a listener, or all of another `Listeners`. Workers that run already don't hear of it."""
        if listener is ignore_events:
            return
        if isinstance(listener, Listeners):
            for each in listener._listeners:
                self.add(each)
            return
        self._listeners += (listener,)
        wanted = getattr(listener, "wants", None)
        taken = self._add_direct(listener) if isinstance(listener, Listener) else frozenset()
        for kind in (ALL_EVENTS if wanted is None else frozenset(wanted)) - taken:
            self._by_type[kind] = (*self._by_type.get(kind, ()), listener)

    def _add_direct(self, listener: Listener) -> frozenset[type[Any]]:
        """Notes what a listener takes otherwise than by events. Returns the types of the events that it gets so."""
        own, taken = type(listener), set[type[Any]]()
        for name, replaced in DIRECT.items():
            if getattr(own, name) is not getattr(Listener, name):
                setattr(self, name, (*getattr(self, name), getattr(listener, name)))
                taken |= replaced
        if isinstance(listener, Tracing):
            self.tracing = listener
        return frozenset(taken)

    def with_listener(self, listener: Observer) -> "Listeners":
        """Returns these listeners and one more."""
        return Listeners((*self._listeners, listener))

    def wants(self, kind: type[Any]) -> bool:
        """Returns whether an event of this type has to be made."""
        return kind in self._by_type

    def tell(self, event: Event) -> None:
        """Calls each listener that wants the event, in the order in which they were added."""
        for listener in self._by_type.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                self._complain(listener, event.event)

    __call__ = tell

    def tell_directly(self, takers: Iterable[Callable[..., None]], what: str, *facts: Any) -> None:
        """Calls methods of listeners with what they take in place of events."""
        for take in takers:
            try:
                take(*facts)
            except Exception:
                self._complain(getattr(take, "__self__", take), what)

    def managers_around(self, claim: Claim) -> Sequence[AbstractContextManager[None]]:
        """Returns what listeners put around the handler of this claim; for most jobs, nothing."""
        managers: tuple[_Guarded, ...] = ()
        for make in self.around:
            try:
                if (manager := make(claim)) is not None:
                    managers += (_Guarded(manager, self._complain),)
            except Exception:
                self._complain(getattr(make, "__self__", make), "the start of a handler")
        return managers

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Closes all listeners, each in a thread, and waits for them together for at most so many seconds."""
        closings = self.begin_to_close()
        wait(closings, timeout)
        warn_of_late(closings, timeout)

    def begin_to_close(self) -> dict["Future[None]", Observer]:
        """Begins to close all listeners, each in a thread. Returns them by their ends."""
        return {_begin_to_close(each): each for each in self._listeners if _has_close(each)}

    def _complain(self, listener: object, what: str) -> None:
        """Logs the error that is being handled, once for each listener."""
        if id(listener) not in self._complained:
            self._complained.add(id(listener))
            log.exception(
                "the listener %s raised at %s; it is told on, further errors of it are not logged",
                getattr(listener, "__qualname__", type(listener).__qualname__),
                what,
            )


def _has_close(listener: Observer) -> bool:
    return isinstance(listener, Listener) and type(listener).close is not Listener.close


def warn_of_late(closings: "Mapping[Future[None], Observer]", timeout: float) -> None:
    """Logs which listeners are not closed yet."""
    for closed, listener in closings.items():
        if not closed.done():
            log.warning(
                "the listener %s was not closed within %g s; what it has not sent when the process ends is lost",
                type(listener).__qualname__,
                timeout,
            )


def _begin_to_close(listener: Any) -> "Future[None]":
    """Calls `close` in a thread that does not keep the process alive, as those of an executor do."""
    closed: Future[None] = Future()
    closed.set_running_or_notify_cancel()  # from now on it can't be canceled

    def close() -> None:
        try:
            listener.close()
        except Exception:
            log.exception("the listener %s raised when it was closed", type(listener).__qualname__)
        closed.set_result(None)

    with suppress(RuntimeError):  # the system has refused the thread
        threading.Thread(target=close, name="leasehold-close", daemon=True).start()
    return closed


class _Guarded:
    """A context manager of a listener whose errors reach neither the handler nor the worker."""

    def __init__(self, manager: AbstractContextManager[Any], complain: Callable[[object, str], None]) -> None:
        self._manager = manager
        self._complain = complain
        self._is_open = False

    def __enter__(self) -> None:
        try:
            self._manager.__enter__()
            self._is_open = True
        except Exception:
            self._complain(self._manager, "the start of a handler")

    def __exit__(self, *error: Any) -> None:
        if self._is_open:
            try:
                self._manager.__exit__(*error)
            except Exception:
                self._complain(self._manager, "the end of a handler")
