"""Explains why a job that is due does not run: the state of its lane, and the reasons as sentences."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from leasehold.model.limits import Scope


@dataclass(frozen=True, slots=True)
class ScopeState:
    """A tenant or a definition as a claim sees it: its pause, and its limit if that many of its jobs run."""

    scope: Scope
    paused_because: str | None = None
    paused_until: datetime | None = None
    reached_cap: int | None = None


@dataclass(frozen=True, slots=True)
class LaneState:
    """A definition for one tenant. `workers` counts the live workers that serve it, `elsewhere` those that serve the
    definition for other tenants only.
    """

    active: bool
    workers: int
    scopes: tuple[ScopeState, ...] = ()
    elsewhere: int = 0


def waiting_reasons(lane: LaneState) -> list[str]:
    """Returns why nothing of the lane starts; empty if its jobs only wait for a free slot."""
    return list(_reasons(lane))


def _reasons(lane: LaneState) -> Iterator[str]:
    if not lane.active:
        yield "its definition is inactive"
    for state in lane.scopes:
        if state.paused_because is not None:
            until = f" until {state.paused_until:%Y-%m-%d %H:%M:%S %Z}" if state.paused_until else ""
            yield f"its {state.scope.kind} is paused{until}: {state.paused_because}"
        if state.reached_cap is not None:
            jobs = "1 job" if state.reached_cap == 1 else f"{state.reached_cap} jobs"
            yield f"its {state.scope.kind} runs {jobs}, which is its limit"
    if not lane.workers:
        yield f"no live worker serves it{' for this tenant' if lane.elsewhere else ''}"
