"""Workers that run the program of Leasehold over HTTP. Those in other languages need only the routes of `worker`.

Each request names the worker, and is refused unless its token has joined it.
"""

import asyncio
from typing import Any

from fastapi import Request, Response

from leasehold.api.context import Asked
from leasehold.api.documents import OkDocument
from leasehold.api.route import Routes, answer
from leasehold.api.work_documents import (
    AppendLines,
    ChangesDocument,
    Claim,
    ClaimedDocument,
    Finish,
    Join,
    Leave,
    OfWorker,
    OwnAttempts,
    OwnAttemptsDocument,
    PollWakes,
    RefusedDocument,
    RegistrationDocument,
    Renew,
    RenewalDocument,
    SyncDefinitions,
    WakesDocument,
    WorkHello,
)
from leasehold.model.access import Permission
from leasehold.model.job import WorkerId, job_id, stored_tenant_id
from leasehold.operations.remote_work import hello
from leasehold.runtime.supervise import wait_for_first
from leasehold.store import Claimed, wire

routes = Routes("work")
WORK = Permission.WORK


@routes.add("GET", "/worker", WORK, WorkHello)
async def show_protocol(context: Asked) -> Response:
    """Tells what the server understands, and what the token is for."""
    return answer(await context.work(lambda remote: hello(remote, context.principal)))


@routes.add("POST", "/worker/definitions", WORK, ChangesDocument)
async def sync_definitions(context: Asked, sent: SyncDefinitions) -> Response:
    """Registers definitions of the worker's code: only those that the token names, or all if it names none."""
    found = [wire.read_definition(each) for each in sent.definitions]
    changes = await context.work(lambda remote: remote.sync_definitions(context.principal, found))
    return answer({"changes": [wire.write_change(each) for each in changes]})


@routes.add("POST", "/worker/join", WORK, RegistrationDocument)
async def join_worker(context: Asked, sent: Join) -> Response:
    """Registers a worker. Its lease ends unless it is renewed."""
    serves, facts, lease = wire.read_join(sent.model_dump())
    joined = await context.work(lambda remote: remote.join(context.principal, serves, facts, lease))
    return answer(wire.write_registration(joined))


@routes.add("POST", "/worker/renew", WORK, RenewalDocument)
async def renew_claims(context: Asked, sent: Renew) -> Response:
    """Extends the lease of a worker and of its claims. The server reclaims the jobs of dead workers."""
    named = [wire.read_fence(each.model_dump()) for each in sent.held]
    lease, options = wire.read_lease(sent.lease_seconds), {"look": sent.look, "probe": sent.probe}
    renewal, unknown = await context.work(
        lambda remote: remote.renew(context.principal, _worker(sent), named, lease, **options)
    )
    return answer(wire.write_renewal(renewal, named, unknown))


@routes.add("POST", "/worker/leave", WORK, OkDocument)
async def leave_worker(context: Asked, sent: Leave) -> Response:
    """Ends a registration. Claims that it still holds go to other workers."""
    await context.work(lambda remote: remote.leave(context.principal, _worker(sent), has_claimed=sent.has_claimed))
    return answer({"ok": True})


@routes.add("POST", "/worker/drain", WORK, OkDocument)
async def note_drain(context: Asked, sent: OfWorker) -> Response:
    """Notes, for people, that a worker claims nothing more and lets its jobs end."""
    await context.work(lambda remote: remote.note_drain(context.principal, _worker(sent)))
    return answer({"ok": True})


@routes.add("POST", "/worker/claim", WORK, ClaimedDocument)
async def claim_for_worker(context: Asked, sent: Claim) -> Response:
    """Claims due jobs: tenants in turn, within a tenant by priority and then age."""
    claimed = await context.work(
        lambda remote: remote.claim(context.principal, _worker(sent), sent.limit, sleep=sent.prepare_to_sleep)
    )
    return answer(wire.write_claimed(claimed))


@routes.add("POST", "/worker/held", WORK, ClaimedDocument)
async def list_held_claims(context: Asked, sent: OfWorker) -> Response:
    """Lists the claims that the worker holds: the truth after an answer was lost."""
    claims = await context.work(lambda remote: remote.held(context.principal, _worker(sent)))
    return answer(wire.write_claimed(Claimed(claims, False, None)))


@routes.add("POST", "/worker/finish", WORK, RefusedDocument)
async def finish_claims(context: Asked, sent: Finish) -> Response:
    """Writes verdicts, durably. A verdict that the rules do not allow for its attempt is refused."""
    done = [(wire.read_fence(each), wire.read_verdict(each["verdict"])) for each in _dumped(sent.done)]
    refused = await context.work(lambda remote: remote.finish(context.principal, _worker(sent), done))
    return answer(wire.write_refused([fence for fence, _ in done], refused))


@routes.add("POST", "/worker/lines", WORK, RefusedDocument)
async def append_lines(context: Asked, sent: AppendLines) -> Response:
    """Appends log lines and progress."""
    lines = [(wire.read_fence(each), wire.read_line(each)) for each in _dumped(sent.lines)]
    refused = await context.work(lambda remote: remote.append_log(context.principal, _worker(sent), lines))
    return answer(wire.write_refused([fence for fence, _ in lines], refused))


@routes.add("POST", "/worker/attempts", WORK, OwnAttemptsDocument)
async def list_own_attempts(context: Asked, sent: OwnAttempts) -> Response:
    """Lists the attempts of a job that this worker has made, in case that the answer to a finish was lost."""
    tenant, job = stored_tenant_id(sent.tenant_id), job_id(sent.job_id)
    found = await context.work(lambda remote: remote.attempts(context.principal, _worker(sent), tenant, job))
    return answer({"attempts": [wire.write_attempt(each) for each in found]})


@routes.add("POST", "/worker/wake-another", WORK, OkDocument)
async def wake_other_workers(context: Asked, sent: OfWorker) -> Response:
    """Wakes other workers that sleep, if there are ready jobs that this one leaves."""
    await context.work(lambda remote: remote.wake_another(context.principal, _worker(sent)))
    return answer({"ok": True})


@routes.add("POST", "/worker/wakes", WORK, WakesDocument, timed=False)
async def poll_wakes(context: Asked, sent: PollWakes) -> Response:
    """Waits for wakes of a worker. A wake is told again until the next request says that it was heard."""
    asked = asyncio.ensure_future(
        context.work(
            lambda remote: remote.poll(context.principal, _worker(sent), sent.feed, sent.heard, sent.wait_seconds)
        )
    )
    await wait_for_first(asked, _until_gone(context.request))
    feed, number, wakes = (sent.feed, sent.heard, []) if asked.cancelled() else asked.result()
    return answer({"feed": feed, "heard": number, "wakes": [wire.write_wake(*each) for each in wakes]})


async def _until_gone(request: Request) -> None:
    """Returns when the client has gone: producers would take its worker for one that can be woken."""
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _worker(sent: OfWorker) -> WorkerId:
    return WorkerId(sent.worker_id)


def _dumped(sent: Any) -> list[dict[str, Any]]:
    return [each.model_dump() for each in sent]
