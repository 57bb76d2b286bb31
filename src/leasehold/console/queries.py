"""The words of the search box: `status:failed definition:report created:<2h`. No I/O."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.model.duration import read_duration
from leasehold.model.job import Source, TenantId, tenant_id
from leasehold.model.status import DisplayState
from leasehold.operations.lookup import as_filters, read_states
from leasehold.operations.traits import read_traits
from leasehold.store import Filter

NAMES = {
    "status": "one or several states, as in status:failed,dead-letter",
    "definition": "the key of a definition; several with commas",
    "source": "manual, event, schedule or system",
    "correlation": "the correlation id of a job",
    "error": "an error group, as the page of dead letters links to it",
    "worker": "the id of a worker that runs the job, or ran it last",
    "dedupe": "the dedupe key of a job",
    "priority": "priority:5, priority:<50, priority:>10 or priority:1..9",
    "duration": "duration:>5m, duration:<10s or duration:1m..5m",
    "payload": "a field of the payload, as in payload.provider_id:p_9 or payload.owner.name:ada",
    "created": "created:<2h in the last two hours, created:>7d before, created:2026-11-01..2026-11-03",
    "tenant": "one tenant, in the list of all",
}
_OTHER_NAMES = {
    "state": "status",
    "definition_key": "definition",
    "correlation_id": "correlation",
    "queued": "created",
    "error_group": "error",
    "dedupe_key": "dedupe",
    "took": "duration",
}
LONGEST = 2000
MOST_WORDS = 20
_TOKEN = re.compile(r'(?:([A-Za-z_]+(?:\.[^\s:"]+)?):)?(?:"([^"]*)"|(\S+))')
PAYLOAD = "payload"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query, as it was typed; `problem` says why it can't be used."""

    name: str
    value: str
    problem: str | None = None

    def __str__(self) -> str:
        value = f'"{self.value}"' if " " in self.value or not self.value else self.value
        return f"{self.name}:{value}" if self.name else value


@dataclass(slots=True)
class Query:
    """A query of the search box. `text` holds words that are not a filter: they may be the id of a job."""

    words: list[Word] = field(default_factory=list)
    states: frozenset[DisplayState] = frozenset()
    definitions: tuple[str, ...] = ()
    source: Source | None = None
    correlation: str | None = None
    error: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    tenant: TenantId | None = None
    traits: dict[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def problems(self) -> Sequence[Word]:
        return [word for word in self.words if word.problem is not None]

    def filters(self) -> tuple[Filter, ...]:
        return as_filters(
            self.states,
            definitions=self.definitions,
            source=self.source,
            correlation_id=self.correlation,
            error_group=self.error,
            created_after=self.created_after,
            created_before=self.created_before,
            traits=read_traits(self.traits),
        )

    def without(self, *removed: Word) -> str:
        """Returns the text of the query without some of its words."""
        return " ".join(str(word) for word in self.words if word not in removed)

    def with_status(self, status: str | None) -> str:
        """Returns the text of the query with another state; for None, with any."""
        others = [str(word) for word in self.words if word.name != "status"]
        return " ".join([*([f"status:{status}"] if status else []), *others])


def read_query(text: str, now: datetime, *, all_tenants: bool = False, payloads: bool = True) -> Query:
    """Reads a query. Words that can't be used have a problem; the others still count.

    Without `payloads`, its reader may not see them, and so can't find jobs by them.
    """
    query = Query()
    for number, (name, value) in enumerate(_words(text[:LONGEST])):
        if number == MOST_WORDS:
            problem = f"a search has at most {MOST_WORDS} words; this one and those after it were left out"
            query.words.append(Word(name, value, problem))
            break
        try:
            topic, _, path = name.partition(".")
            if topic == PAYLOAD:
                _payload(query, path, value, readable=payloads)
            else:
                _READERS[name](query, value, now)
            if name == "tenant" and not all_tenants:
                raise ValueError("this list has the jobs of one tenant")
            query.words.append(Word(name, value))
        except KeyError:
            query.words.append(Word(name, value, _unknown(name)))
        except ValueError as error:
            query.words.append(Word(name, value, str(error)))
        except LeaseholdError as error:
            query.words.append(Word(name, value, error.happened))
    return query


def _words(text: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(text):
        name, quoted, plain = found.groups("")
        topic, dot, path = name.partition(".")
        spelled = topic.lower()
        yield _OTHER_NAMES.get(spelled, spelled) + dot + path, quoted or plain


def _unknown(name: str) -> str:
    near = get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}:?" if near else f"there are {', '.join(f'{each}:' for each in NAMES)}"
    return f"{name}: is not a filter; {hint}"


def _status(query: Query, value: str, _: datetime) -> None:
    query.states |= read_states(each for each in value.split(",") if each)


def _definition(query: Query, value: str, _: datetime) -> None:
    found = tuple(each for each in value.split(",") if each)
    Filter(definitions=found)
    query.definitions += found


def _source(query: Query, value: str, _: datetime) -> None:
    if query.source is not None:
        raise ValueError("only one source can be looked for")
    try:
        query.source = Source(value.lower())
    except ValueError as error:
        raise ValueError(f"{value[:40]} is not a source; there are {', '.join(Source)}") from error


def _correlation(query: Query, value: str, _: datetime) -> None:
    Filter(correlation_id=value)
    query.correlation = value


def _error(query: Query, value: str, _: datetime) -> None:
    Filter(error_group=value)
    query.error = value


def _created(query: Query, value: str, now: datetime) -> None:
    if value.startswith("<"):
        query.created_after = now - read_duration(value[1:])
    elif value.startswith(">"):
        query.created_before = now - read_duration(value[1:])
    else:
        begin, dots, end = value.partition("..")
        if not dots:
            raise ValueError("write created:<2h, created:>7d or created:2026-11-01..2026-11-03")
        query.created_after = _moment(begin) if begin else None
        query.created_before = _moment(end) if end else None


def _trait(name: str) -> Callable[[Query, str, datetime], None]:
    def read(query: Query, value: str, _: datetime) -> None:
        if name in query.traits:
            raise ValueError(f"only one {name.replace('_', ' ')} can be looked for")
        read_traits({name: value})
        query.traits[name] = value

    return read


def _payload(query: Query, path: str, value: str, *, readable: bool) -> None:
    if not path:
        raise ValueError("write the name of a field, as in payload.provider_id:p_9")
    if not readable:
        raise ValueError("your role does not read payloads, so it can't find jobs by them")
    _trait(PAYLOAD)(query, f"{path}={value}", datetime.min)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text[:40]} is not a date or a time, like 2026-11-01 or 2026-11-01T14:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _tenant(query: Query, value: str, _: datetime) -> None:
    query.tenant = tenant_id(value)


def _text(query: Query, value: str, _: datetime) -> None:
    if query.text:
        raise ValueError("write filters as name:value, or the id of one job")
    query.text = value


_READERS: dict[str, Any] = {
    "status": _status,
    "definition": _definition,
    "source": _source,
    "correlation": _correlation,
    "error": _error,
    "worker": _trait("worker"),
    "dedupe": _trait("dedupe_key"),
    "priority": _trait("priority"),
    "duration": _trait("duration"),
    "created": _created,
    "tenant": _tenant,
    "": _text,
}
