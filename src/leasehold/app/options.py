"""The options of a tenant handle, `tenant.options(…)`: checked when they are given, and read as fields of a job."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from leasehold.errors import InvalidInput
from leasehold.model.dedupe import Always, Dedupe, OnConflict, WhileActive, Within
from leasehold.model.duration import read_duration
from leasehold.model.event import event_id
from leasehold.model.job import NewJob, job_id

_TYPES: Mapping[str, tuple[type, ...]] = {
    "delay": (str, timedelta, int, float),
    "at": (datetime,),
    "priority": (int,),
    "max_attempts": (int,),
    "deadline": (datetime,),
    "dedupe_key": (str,),
    "dedupe": (WhileActive, Within, Always),
    "on_conflict": (str,),
    "correlation_id": (str,),
    "created_by": (str,),
    "id": (str, UUID),
}
# Options that a later one replaces.
_OTHER = {"delay": ("at",), "at": ("delay",)}
_OF_EVENTS = frozenset({"correlation_id", "created_by", "id"})


def merge_options(before: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the earlier options with the chosen ones. Raises InvalidInput for a wrong type or two due times."""
    _require_types(chosen)
    if "delay" in chosen and "at" in chosen:
        raise InvalidInput(
            f"delay={chosen['delay']} and at={chosen['at']} can't both be when it is due. Nothing was enqueued.",
            fix="Leave one out.",
        )
    kept = {name: value for name, value in before.items() if chosen.keys().isdisjoint(_OTHER.get(name, ()))}
    return {**kept, **chosen}


def job_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options as fields of a job. Raises InvalidInput for values that a job can't have."""
    try:
        return _fields_of(options)
    except InvalidInput as error:
        why = error.happened.partition("can't be enqueued: ")[2] or error.happened
        raise InvalidInput(
            f"these options can't be used: {why}", fix="Nothing was enqueued. Correct the values."
        ) from error


def event_fields(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the options as fields of an event. Raises InvalidInput for options of jobs."""
    if unfit := sorted(options.keys() - _OF_EVENTS):
        raise InvalidInput(
            f"{unfit[0]}=… is an option of jobs, and this is an event. Nothing was emitted.",
            fix="Leave it out. Triggers decide about the jobs of an event.",
        )
    return {**options, "id": event_id(options["id"])} if "id" in options else options


def require_at_most_one_with_an_id(jobs: Iterable[NewJob], options: Mapping[str, Any]) -> Iterable[NewJob]:
    if "id" in options and len(jobs := list(islice(jobs, 2))) > 1:
        raise InvalidInput(
            f"several jobs can't all have the id {options['id']}. Nothing was enqueued.",
            fix="Enqueue them one by one, or leave the id out.",
        )
    return jobs


def _fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options as fields of a job."""
    fields = dict(options)
    key, mode = fields.pop("dedupe_key", None), fields.pop("dedupe", None)
    on_conflict = _on_conflict(fields.pop("on_conflict", None), deduped=key is not None or mode is not None)
    if key is not None or mode is not None:
        fields["dedupe"] = Dedupe(key, mode or WhileActive(), on_conflict)
    if "delay" in fields:
        fields["delay"] = read_duration(fields["delay"])
    if "id" in fields:
        fields["id"] = job_id(fields["id"])
    NewJob(definition="", **fields)
    return fields


def _on_conflict(choice: str | None, *, deduped: bool) -> OnConflict:
    if choice is None:
        return OnConflict.RETURN
    if choice not in set(OnConflict):
        raise InvalidInput(
            f"on_conflict={choice!r:.80} is none of {', '.join(OnConflict)}.",
            fix="Nothing was enqueued. Correct the value.",
        )
    if not deduped:
        raise InvalidInput(
            f"on_conflict={choice!r} says what to do when a dedupe key is held, and there is none.",
            fix="Nothing was enqueued. Say dedupe_key=… or dedupe=… with it, or before it.",
        )
    return OnConflict(choice)


def _require_types(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if not isinstance(value, _TYPES[name]):
            raise InvalidInput(
                f"{name}={value!r:.80} is a {type(value).__name__}. Nothing was enqueued.",
                fix=f"{name} is {' or '.join(kind.__name__ for kind in _TYPES[name])}.",
            )
