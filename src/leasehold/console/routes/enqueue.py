"""The form that enqueues a job, made of the schema of its definition."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from leasehold.api import shown
from leasehold.api.strict_json import read_json
from leasehold.console import schema_form
from leasehold.console.copies import as_command, as_curl
from leasehold.console.job_rows import href_of as href_of_job
from leasehold.console.job_rows import row_of
from leasehold.console.pages import Pages, Visit
from leasehold.console.rendering import written
from leasehold.console.routes.definitions import href_of, key_of
from leasehold.console.schema_form import FormReader, Node
from leasehold.console.schema_parts import Kind
from leasehold.errors import InvalidInput, LeaseholdError, NoTenant, PayloadInvalid
from leasehold.model.access import Permission
from leasehold.model.dedupe import Dedupe, WhileActive
from leasehold.model.definition import Registered
from leasehold.model.duration import read_duration
from leasehold.model.job import JobRecord, NewJob, TenantId, job_id, tenant_id
from leasehold.model.payload import encode
from leasehold.model.secret_fields import SHOWN
from leasehold.operations import admin, jobs, views
from leasehold.operations.enqueue import Target, enqueue_key
from leasehold.operations.reports import report_enqueue
from leasehold.operations.statuses import statuses_of

pages = Pages()
OPTIONS = {"tenant": "Tenant", "at": "Run at", "priority": "Priority", "dedupe_key": "Dedupe key"}


@dataclass
class _Form:
    """The form as it was sent: the payload, from widgets or from JSON, the options, and their problems."""

    known: Registered
    sent: Mapping[str, str]
    payload: Any
    text: str
    is_json: bool
    problems: dict[str, str]

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.known.definition.schema or {}


@pages.add("GET", "/definitions/{key}/enqueue", Permission.JOBS_ENQUEUE)
async def form(visit: Visit) -> Response:
    """Shows the form; `job` shows the one that was enqueued by it, to readers of jobs with its state and payload."""
    known = await _known(visit)
    if made := visit.request.query_params.get("job"):
        return await _show_enqueued(visit, known, made)
    empty = _Form(known, {}, {}, "{}", _is_only_json(known), {})
    return await _show(visit, empty, None)


@pages.add("POST", "/definitions/{key}/enqueue", Permission.JOBS_ENQUEUE)
async def enqueue(visit: Visit) -> Response:
    """Enqueues the job, or changes the shape of the form: to JSON and back, one item more or less."""
    found = _read(visit, await _known(visit))
    action = visit.form.get("do", "enqueue")
    if action != "enqueue":
        return await _show(visit, _reshape(found, action), None)
    if not found.problems and isinstance(found.payload, dict):
        found.problems |= {
            schema_form.pointer_of(path): text
            for path, text in found.known.definition.problems_by_place(found.payload)
        }
    options = _options(visit, found)
    if found.problems:
        return await _show(visit, found, None, refused=True)
    try:
        owner = _owner(visit)
        made = await _enqueue(visit, found, owner, options)
    except LeaseholdError as error:
        return await _show(visit, found, error)
    whose = {"tenant": owner} if visit.area.tenant is None else {}
    path = href_of(visit, key_of(visit)).removeprefix(visit.area.base)
    return visit.go(f"{path}/enqueue", job=made.id, new="yes" if made.created else "no", **whose)


async def _enqueue(visit: Visit, found: _Form, owner: TenantId, options: Mapping[str, Any]) -> Any:
    if not isinstance(found.payload, dict):
        raise InvalidInput("the payload is not an object. Nothing was enqueued.", fix='Write {"name": "june"}.')
    key = found.known.definition.key
    fields = {**options, "created_by": visit.principal.name, "source_ref": visit.context.request_id}
    if (repeatable := visit.context.repeatable_id(owner, "enqueue", visit.form.get("key") or None)) is not None:
        fields["id"] = job_id(repeatable)
    NewJob(definition=key, **fields)
    target = Target(owner, fields, visit.context.guard.backend.code)
    placed = await visit.context.call(lambda catalog: enqueue_key(target, key, found.payload, catalog))
    report_enqueue(visit.context.guard.backend.listeners, owner, key, placed)
    return placed


async def _known(visit: Visit) -> Registered:
    key = key_of(visit)
    return await visit.context.ask(lambda store: admin.definition(store, key))


def _owner(visit: Visit) -> TenantId:
    if visit.area.tenant is not None:
        return visit.area.tenant
    if not (named := visit.form.get("tenant", "").strip()):
        raise NoTenant("a job is of a tenant. Nothing was enqueued.", fix="Name it.")
    return tenant_id(named)


# -------------------------------------------------------------------------------------------------------- the form


def _is_only_json(known: Registered) -> bool:
    """Returns whether the schema makes no form: there is none, or it has no fields."""
    return schema_form.build(known.definition.schema or {}, {}).kind is Kind.JSON


def _read(visit: Visit, known: Registered) -> _Form:
    sent = visit.form
    if sent.get("mode") == "json":
        text, problems = sent.get("payload", ""), {}
        try:
            payload = read_json((text.strip() or "{}").encode(), visit.context.guard.limits.depth)
        except LeaseholdError as error:
            payload, problems = schema_form.Raw(text), {"": f"This is not JSON: {error.happened}"}
        return _Form(known, sent, payload, text, True, problems)
    reading = FormReader(known.definition.schema or {}, sent)
    payload = reading.value()
    return _Form(known, sent, payload, "", False, reading.problems)


def _reshape(found: _Form, action: str) -> _Form:
    if found.problems and action in ("json", "form"):
        return found  # what can't be read can't be shown in another way
    if action == "json":
        found.text, found.is_json = schema_form.as_text(found.payload), True
    elif action == "form":
        found.is_json = _is_only_json(found.known)
    elif not found.is_json:
        found.payload = schema_form.reshape(found.schema, found.payload, action)
    return found


def _options(visit: Visit, found: _Form) -> dict[str, Any]:
    """Reads when the job is due, its priority and its dedupe key; problems are bound to these fields."""
    sent: Mapping[str, str] = visit.form
    given: dict[str, Any] = {}
    for name, reader in _READERS.items():
        if text := sent.get(name, "").strip():
            try:
                given |= reader(text)
            except LeaseholdError as error:
                found.problems[name] = error.happened
    return given


def _when(text: str) -> dict[str, Any]:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return {"delay": read_duration(text.removeprefix("in "))}
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{text} has no zone, and so names no moment.", fix=f"Write {text}Z for UTC. Nothing was enqueued."
        )
    return {"at": moment}


def _priority(text: str) -> dict[str, Any]:
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 9):
        raise InvalidInput(
            f"{text!r:.40} is not a whole number.", fix="Write one, like 100; lower runs first. Nothing was enqueued."
        )
    NewJob(definition="any", priority=int(text))
    return {"priority": int(text)}


def _dedupe(text: str) -> dict[str, Any]:
    return {"dedupe": Dedupe(text, WhileActive())}


_READERS = {"at": _when, "priority": _priority, "dedupe_key": _dedupe}


async def _show(visit: Visit, found: _Form, problem: LeaseholdError | None, *, refused: bool = False) -> Response:
    nodes = None if found.is_json else schema_form.build(found.schema, found.payload, found.problems, found.sent)
    key = found.known.definition.key
    facts = {
        "known": found.known,
        "key": key,
        "back": href_of(visit, key),
        "target": f"{href_of(visit, key)}/enqueue",
        "root_node": nodes,
        "can_be_form": not _is_only_json(found.known),
        "is_json": found.is_json,
        "text": found.text,
        "options": {name: found.sent.get(name, "") for name in OPTIONS},
        "problems": found.problems,
        "summary": _summary(found, nodes) if refused else [],
        "problem": problem,
        "request_key": visit.form.get("key") or visit.context.request_id,
        "copies": _copies_of(visit, found),
        "all_tenants": visit.area.tenant is None,
    }
    status = 422 if refused else 200 if problem is None else statuses_of(problem).http
    return await visit.show("enqueue.html", "definitions", facts, status=status)


def _summary(found: _Form, nodes: Node | None) -> list[tuple[str, str, str]]:
    """Returns (id of the control, its title, the problem) of each field that can't be used."""
    lines = [(name, OPTIONS[name], text) for name, text in found.problems.items() if name in OPTIONS]
    if nodes is None:
        said = (name for name in found.problems if name not in OPTIONS)
        return [("payload", f"Payload {name}".strip(), found.problems[name]) for name in said] + lines
    bound = [(each.id, title_of(each), each.problem) for each in nodes.walk() if each.problem]
    return bound + lines


def title_of(node: Node) -> str:
    return node.name.removeprefix("/").replace("/", " › ").replace("~1", "/").replace("~0", "~") or "Payload"


# ------------------------------------------------------------------------------------------------------------- result


async def _show_enqueued(visit: Visit, known: Registered, made: str) -> Response:
    named = visit.request.query_params.get("tenant")
    owner, job = visit.area.tenant or tenant_id(named or ""), job_id(made)
    facts: dict[str, Any] = {
        "known": known,
        "key": known.definition.key,
        "job": job,
        "is_new": visit.request.query_params.get("new") != "no",
        "again": f"{href_of(visit, known.definition.key)}/enqueue",
        "back": href_of(visit, known.definition.key),
        "row": None,
        "copies": None,
    }
    if visit.may(Permission.JOBS_READ):
        record = await visit.context.ask(lambda store: jobs.get(store, owner, job))
        facts |= {
            "row": row_of(visit, record),
            "href": href_of_job(visit.area, record),
            "copies": _copies_of_job(visit, known, record),
        }
    return await visit.show("enqueued.html", "definitions", facts)


def _copies_of_job(visit: Visit, known: Registered, record: JobRecord) -> dict[str, str] | None:
    payload = shown.job(visit.context, record)["payload"]
    if payload is None:
        return None  # the reader may not see it
    is_usual = record.priority == known.definition.priority
    options = {"priority": None if is_usual else record.priority, "dedupe_key": record.dedupe_key}
    return copies(visit, record.tenant, record.definition, payload, options)


def _copies_of(visit: Visit, found: _Form) -> dict[str, str] | None:
    owner = visit.area.tenant or visit.form.get("tenant", "").strip() or "acme"
    if found.problems or not isinstance(found.payload, dict) or not _can_be_stored(found.payload):
        return None
    secret = found.known.definition.secret_fields
    payload = {name: SHOWN if name in secret else value for name, value in found.payload.items()}
    options: dict[str, Any] = {"at": found.sent.get("at"), "dedupe_key": found.sent.get("dedupe_key")}
    with suppress(InvalidInput):
        options |= _priority(found.sent.get("priority", "").strip())
    return copies(visit, TenantId(owner), found.known.definition.key, payload, options)


def _can_be_stored(payload: dict[str, Any]) -> bool:
    """Returns whether an enqueue would accept these values. It says why it does not."""
    try:
        encode(payload)
    except PayloadInvalid:
        return False
    return True


def copies(
    visit: Visit, owner: TenantId, key: str, payload: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, str]:
    """Returns an enqueue as Python, as a command and as a request."""
    given = {name: value for name, value in options.items() if value not in (None, "")}
    when = _when_of(given.pop("at", ""))
    python = {
        **{name: repr(value) for name, value in given.items()},
        **{name: text for name, (text, _) in when.items()},
    }
    chosen = f".options({', '.join(f'{name}={text}' for name, text in python.items())})" if python else ""
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    for name, (_, value) in when.items():
        words += ["--in" if name == "delay" else "--at", _as_word(value)]
    body: dict[str, Any] = {"definition_key": key, "payload": payload, **given}
    for name, (_, value) in when.items():
        body |= {"delay_seconds": value.total_seconds()} if name == "delay" else {"scheduled_for": value}
    return {
        "python": f"app.tenant({owner!r}){chosen}.enqueue_key({key!r}, {payload!r})",
        "command": as_command("enqueue", key, "--payload", _one_line(payload), *words, owner=owner),
        "curl": as_curl(visit, "POST", "/jobs", body, owner=owner),
    }


def _when_of(text: str) -> dict[str, tuple[str, Any]]:
    """Returns `at` or `delay`, as Python and as a value; nothing for a text that is neither."""
    try:
        read = _when(text) if text else {}
    except LeaseholdError:
        return {}
    if "at" in read:
        return {"at": (f"datetime.fromisoformat({read['at'].isoformat()!r})", read["at"])}
    return {"delay": (repr(_as_word(read["delay"])), read["delay"])} if read else {}


def _as_word(value: Any) -> str:
    return written(value) if isinstance(value, timedelta) else str(value.isoformat())


def _one_line(payload: Mapping[str, Any]) -> str:
    return views.as_json(payload).decode()
