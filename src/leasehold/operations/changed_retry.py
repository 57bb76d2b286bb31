"""Retries a job with another payload: a new job, which the correlation id links to the first one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from leasehold.config import process_redactor
from leasehold.errors import LeaseholdError, PayloadInvalid
from leasehold.model.audit import Actor
from leasehold.model.job import EnqueueResult, JobRecord
from leasehold.model.payload import SHOWN_PATH
from leasehold.model.redaction import REDACTED
from leasehold.model.secret_fields import SHOWN
from leasehold.model.secret_forms import SHORTEST_VALUE
from leasehold.operations import audit, views
from leasehold.operations.catalog import Catalog
from leasehold.operations.enqueue import CodeDefinition, Target, enqueue_key

# Messages quote values, and cut long ones: a part of a secret is not found by its whole value.
_CUTS = ("…", "...")


async def enqueue_changed(
    catalog: Catalog,
    before: JobRecord,
    payload: Any,
    actor: Actor,
    code: Callable[[str], CodeDefinition | None],
) -> EnqueueResult:
    """Enqueues a job of the same definition, due now. Fields that a view has redacted keep their values.

    Raises PayloadInvalid, also for an encrypted field that was not given again, or a redacted one that was moved.
    """
    if not isinstance(payload, dict):
        raise PayloadInvalid(
            "the payload is not an object. Nothing was enqueued.", fix='Write an object, like {"name": "june"}.'
        )
    kept: list[str] = []
    restored = restore_redacted(payload, views.payload(before), before.payload, kept)
    if left := next(_places_of(restored, SHOWN), None):
        raise PayloadInvalid(
            f"{left} is stored encrypted and can't be shown or copied. Nothing was enqueued.",
            fix="Write its value again.",
        )
    require_restored(restored, before.payload)
    fields = {
        "priority": before.priority,
        "correlation_id": before.correlation_id or before.id,
        "created_by": actor.name,
        "source_ref": f"changed {before.id}",
    }
    try:
        placed = await enqueue_key(Target(before.tenant, fields, code), before.definition, restored, catalog)
    except LeaseholdError as error:
        error.happened = _without_values(error.happened, kept)
        error.args = (error.happened,)
        raise error from None  # its cause has the values, too
    subject, made = f"job {before.id}", {"new_job": placed.id, "created": placed.created}
    await audit.record(catalog.store, actor, "job.retry_changed", subject, None, made, before.tenant)
    return placed


def restore_redacted(sent: Any, shown: Any, stored: Any, kept: list[str] | None = None) -> Any:
    """Returns the document that was sent, with stored values where it still has what a view shows instead.

    `kept` gets these values, as text.
    """
    kept = [] if kept is None else kept
    if isinstance(sent, dict) and isinstance(shown, Mapping) and isinstance(stored, Mapping):
        return {
            name: restore_redacted(value, shown.get(name), stored.get(name), kept) for name, value in sent.items()
        }
    if isinstance(sent, list) and isinstance(shown, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [restore_redacted(*each, kept) for each in zip(sent, shown, stored, strict=True)]
    if isinstance(sent, str) and REDACTED in sent and sent == shown:
        kept.append(str(stored))
        return stored
    return sent


def require_restored(restored: Any, stored: Any) -> None:
    """Raises PayloadInvalid for a text that still has `[redacted]` in it, unless the stored one has it, too.

    It would replace the value that a view has hidden.
    """
    if left := next(_redacted_places(restored, stored, "payload"), None):
        raise PayloadInvalid(
            f"{left[:SHOWN_PATH]} has {REDACTED}, which stands for a value that is not stored at this place: it was "
            "moved or changed. Nothing was saved.",
            fix="Write the value itself, or leave the field as it was.",
        )


def _redacted_places(value: Any, stored: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        known = stored if isinstance(stored, Mapping) else {}
        for name, item in value.items():
            if REDACTED in name and name not in known:
                yield f"{place}.{name}"
            yield from _redacted_places(item, known.get(name), f"{place}.{name}")
    elif isinstance(value, list):
        items = stored if isinstance(stored, list) and len(stored) == len(value) else [None] * len(value)
        for number, (item, before) in enumerate(zip(value, items, strict=True)):
            yield from _redacted_places(item, before, f"{place}[{number}]")
    elif isinstance(value, str) and REDACTED in value and value != stored:
        yield place


def _without_values(text: str, kept: Sequence[str]) -> str:
    """Returns the text of an error without values that were restored; another text if it may have a part of them."""
    redacted = process_redactor().with_values(*kept).text(text)
    is_short = any(len(each) < SHORTEST_VALUE and each in text for each in kept if each)
    if is_short or (kept and any(cut in redacted for cut in _CUTS)):
        return "the payload can't be used, and the reason may quote a redacted value. Nothing was enqueued."
    return redacted


def _places_of(value: Any, text: str, place: str = "payload") -> Iterator[str]:
    if value == text:
        yield place
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _places_of(item, text, f"{place}.{name}")
