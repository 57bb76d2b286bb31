"""Three witnesses, one truth: what clients saw, every transition in the database, and the effects that it kept.

A run counts only if the danger was really there: with too few stale finishes or reclaimed leases it has shown
nothing, and is as red as a violation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.faults.chaos.history import Event
from tests.faults.chaos.witnesses import Fence, Final, Testimony, Transition

LEGAL = {
    ("", "queued"),
    ("queued", "running"),
    ("queued", "queued"),
    ("running", "queued"),
    ("running", "running"),
    ("running", ""),
    ("", "succeeded"),
    ("", "dead_letter"),
}
SHOWN = 10


@dataclass(frozen=True)
class Findings:
    violations: Mapping[str, list[str]]
    stale_refused: int
    reclaimed: int
    unknown_settled: int
    figures: Mapping[str, int] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.violations

    def shortfalls(self, *, stale: int, reclaimed: int) -> list[str]:
        """Why the run has shown nothing, if it has not."""
        short = []
        if self.stale_refused < stale:
            short.append(f"inconclusive: only {self.stale_refused} stale finishes were refused, {stale} are needed")
        if self.reclaimed < reclaimed:
            short.append(f"inconclusive: only {self.reclaimed} leases were reclaimed, {reclaimed} are needed")
        return short

    def as_text(self) -> str:
        lines = [f"{name:<34}{count:>9,}" for name, count in self.figures.items()]
        lines.append(f"{'violations':<34}{sum(map(len, self.violations.values())):>9,}")
        for rule, found in self.violations.items():
            lines.append(f"  {rule}: {len(found)}")
            lines += [f"    {each}" for each in found[:SHOWN]]
        return "\n".join(lines)


def check(said: Testimony) -> Findings:
    found: dict[str, list[str]] = defaultdict(list)
    for rule, what in _violations(said):
        found[rule].append(what)
    refused, stale, settled = _refusals(said)
    events = Counter(entry.event for entry in said.history)
    starts = Counter(entry.fence for entry in said.history if entry.event is Event.STARTED)
    statuses = Counter(final.status for final in said.finals.values())
    figures = {
        "jobs acknowledged": events[Event.ENQUEUED],
        "jobs succeeded": statuses["succeeded"],
        "jobs given up after all attempts": statuses["dead_letter"],
        "attempts claimed": sum(_is_claim(each) for edges in said.audit.values() for each in edges),
        "most attempts of one job": max((final.attempt for final in said.finals.values()), default=0),
        "handlers started": events[Event.STARTED],
        "handlers stopped": events[Event.STOPPED],
        "fences under which two runs began": sum(count > 1 for count in starts.values()),
        "registrations taken": events[Event.JOINED],
        "leases reclaimed": said.reclaimed,
        "finishes sent": events[Event.FINISHING],
        "finishes without an answer": events[Event.UNKNOWN],
        "of these known to be ours later": settled,
        "finishes refused": refused,
        "of these stale": stale,
        "effects": sum(map(len, said.effects.values())),
    }
    return Findings(dict(found), stale, said.reclaimed, settled, figures)


def _violations(said: Testimony) -> Iterator[tuple[str, str]]:
    acknowledged = {entry.job for entry in said.history if entry.event is Event.ENQUEUED}
    wanted = {entry.job for entry in said.history if entry.event is Event.ENQUEUING}
    there = said.finals.keys() | said.unfinished
    for job in acknowledged - there:
        yield "an acknowledged job is lost", job
    for job in there - wanted:
        yield "a job that nobody enqueued", job
    for job in said.unfinished:
        yield "a job is stuck", f"{job}: {said.audit.get(job, [])[-1:]}"
    yield from _wrong_edges(said)
    yield from _wrong_finishes(said)
    yield from _wrong_effects(said)
    yield from _wrong_counts(said)


def _wrong_edges(said: Testimony) -> Iterator[tuple[str, str]]:
    for job, edges in said.audit.items():
        for edge in edges:
            claims_one_more = edge.attempt == edge.attempt_was + (1 if _is_claim(edge) else 0)
            if (edge.was, edge.became) not in LEGAL or not claims_one_more:
                yield "an illegal transition", f"{job}: {edge}"


def _wrong_finishes(said: Testimony) -> Iterator[tuple[str, str]]:
    asked: dict[str, set[Fence]] = defaultdict(set)
    told: dict[str, set[Fence]] = defaultdict(set)
    claimed: dict[str, int] = defaultdict(int)
    for entry in said.history:
        if entry.event is Event.FINISHING:
            asked[entry.job].add(entry.fence)
        elif entry.event is Event.FINISHED and entry.status != "queued":
            told[entry.job].add(entry.fence)
        elif entry.event is Event.CLAIMED:
            claimed[entry.job] = max(claimed[entry.job], entry.attempt)
    for job, final in said.finals.items():
        edges = said.audit[job]
        if sum(edge.was == "" and edge.became != "queued" for edge in edges) != 1:
            yield "not exactly one finish was written", f"{job}: {edges}"
        claims = [(job, edge.attempt, edge.worker) for edge in edges if _is_claim(edge)]
        if not claims or final.fence != claims[-1]:
            yield "the finish is not the last claim's", f"{final.fence}, claims {claims}"
        if final.attempt < claimed[job]:
            yield "the finish is not the highest attempt's", f"{final.fence}, but {claimed[job]} was handed out"
        if len(told[job]) > 1 or told[job] - {final.fence}:
            yield "more than one finish was accepted", f"{job}: told {sorted(told[job])}, kept {final.fence}"
        if final.status == "succeeded" and final.fence not in asked[job]:
            yield "a finish that its claim never sent", f"{final.fence}, asked for {sorted(asked[job])}"
        if final.status == "succeeded" and _result_fence(final) != final.fence:
            yield "the result is another attempt's", f"{final.fence}, result {final.result}"


def _wrong_effects(said: Testimony) -> Iterator[tuple[str, str]]:
    for job in said.finals.keys() | said.effects.keys():
        final = said.finals.get(job)
        expected = [final.fence] if final is not None and final.status == "succeeded" else []
        if list(said.effects.get(job, ())) != expected:
            yield "effects are not exactly one per success", f"{job}: {said.effects.get(job)}, expected {expected}"


def _wrong_counts(said: Testimony) -> Iterator[tuple[str, str]]:
    for final in said.finals.values():
        executions = final.attempt - final.forgiven
        if executions > final.max_attempts:
            yield "more executions than allowed", str(final)
        if final.status == "dead_letter" and executions != final.max_attempts:
            yield "given up with attempts left", str(final)
        if final.status not in ("succeeded", "dead_letter"):
            yield "an end that no handler asked for", str(final)


def _refusals(said: Testimony) -> tuple[int, int, int]:
    """(refused, of these stale, unanswered ones that were written all the same)."""
    written = _written(said)
    refused = {entry.fence for entry in said.history if entry.event is Event.REFUSED}
    unanswered = {entry.fence for entry in said.history if entry.event is Event.UNKNOWN}
    return len(refused), len(refused - written), len(unanswered & written)


def _written(said: Testimony) -> set[Fence]:
    """Fences whose verdict was kept: the last one by the final row, earlier ones by their way back to the queue."""
    fences = {final.fence for final in said.finals.values()}
    told = {entry.fence for entry in said.history if entry.event is Event.FINISHED}
    return fences | told


def _is_claim(edge: Transition) -> bool:
    return (edge.was, edge.became) == ("queued", "running")


def _result_fence(final: Final) -> tuple[object, object, object]:
    result = final.result or {}
    return final.job, result.get("attempt"), result.get("worker")
