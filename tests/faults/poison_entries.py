"""The entries of the poison run: every way in which a value can reach the database."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from signal import SIGTERM
from typing import Any

from tests.cli.terminal import CommandLine
from tests.conftest import Raw, eventually
from tests.faults import poison_app
from tests.faults.poison_app import DEEDS, NUMBERS, OBJECTS, TEXTS
from tests.faults.poison_repository import RepositoryEntries
from tests.faults.poison_run import VILLAIN, Call, Entry, Run, require_answered
from tests.faults.poison_tables import LIMITED, TablesByHand, ended_job, lift_limits
from tests.faults.poison_triggers import TriggerEntries
from tests.faults.poison_values import (
    ARGUMENTS,
    BAD_JOBS,
    COMMANDS,
    COUNTS,
    DOCUMENTS,
    MOMENTS,
    NEW_JOBS,
    NOT_TRANSACTIONS,
    PAYLOADS,
    SPANS,
    VERBS,
    WORDS,
    WORKER_OPTIONS,
)
from tests.worker.shop import Process, Processes

from leasehold import Leasehold
from leasehold.errors import Conflict, InvalidInput, PartlyEnqueued
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.dedupe import Always, Dedupe, WhileActive, Within
from leasehold.model.definition import Definition, Retention
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.model.limits import Limits, Pause, Rate, Scope, ScopeKind
from leasehold.store import Filter

APP = Path(f"{poison_app.__file__}:app")
TICKS = f"{poison_app.__name__}:ticks"


@dataclass
class Entries:
    run: Run
    url: str
    connection: Raw
    leasehold: CommandLine
    processes: Processes

    @property
    def all(self) -> dict[str, Entry]:
        of_triggers = TriggerEntries(self.run, self.url, self.connection)
        return {
            "verdicts": self.verdicts,
            "python": self.python,
            "app": self.app,
            "bulk": self.bulk,
            "within": self.within,
            "ticks": self.ticks,
            "repository": RepositoryEntries(self.run, self.url).all,
            "definitions": self.definitions,
            "limits": self.limits,
            "sql": self.sql,
            "tables": TablesByHand(self.run, self.connection, self.leasehold).change_all,
            "commands": self.commands,
            "verbs": self.verbs,
            "workers": self.workers,
            "triggers": of_triggers.triggers,
            "events": of_triggers.events,
            "trigger rows": of_triggers.trigger_rows,
        }

    # --------------------------------------------------------------------------------------------------------- Python

    async def verdicts(self) -> None:
        async def enqueue(definition: str, index: int) -> None:
            await self.run.enqueue(VILLAIN, definition=definition, payload={"index": index})

        for definition, index in product(("hostile", "hostile_in_thread"), range(len(DEEDS))):
            await self.run.put("verdicts", enqueue, definition, index)

    async def python(self) -> None:
        run = self.run
        handle = run.store.tenant(VILLAIN)
        (waiting,) = await handle.enqueue([NewJob(definition="taken", delay=timedelta(hours=1))])
        verbs: list[tuple[list[Any], list[Call]]] = [
            (NEW_JOBS, [lambda values: run.enqueue(VILLAIN, **values)]),
            (SPANS, [
                lambda span: run.enqueue(VILLAIN, dedupe=Dedupe("k", Within(span))),
                lambda span: run.enqueue(VILLAIN, dedupe=Dedupe("k", Always(span))),
            ]),
            (WORDS, [
                lambda word: run.enqueue(VILLAIN, dedupe=Dedupe(word, WhileActive())),
                lambda word: run.enqueue(tenant_id(word)),
                lambda word: handle.find(Filter(correlation_id=word), None, 5),
                lambda word: handle.find(Filter(), word, 5),
                handle.get,
                lambda word: handle.cancel([word]),
                lambda word: run.store.activate(word, True),
            ]),
            (MOMENTS, [lambda moment: handle.find(Filter(created_after=moment), None, 5)]),
            (SPANS, [lambda span: handle.reschedule([waiting.id], delay=span)]),
            (COUNTS, [
                lambda count: handle.reschedule([waiting.id], priority=count),
                lambda count: handle.find(Filter(), None, count),
                handle.counts,
                lambda count: handle.lines(waiting.id, count),
                lambda count: handle.retry({waiting.id: count}),
            ]),
        ]  # fmt: skip
        await self.run.put_all("python", verbs)

    async def app(self) -> None:
        """Passes arguments of a typed handler, options and payloads through the app's own calls."""
        async with self._opened(poison_app.app) as app:
            handle = app.tenant(VILLAIN)
            (waiting,) = await app.store.tenant(handle.id).enqueue(
                [NewJob(definition="taken", delay=timedelta(hours=1))]
            )

            async def typed(**arguments: Any) -> None:
                placed = await handle.aenqueue(poison_app.typed, **arguments)
                await self.run.accepted(VILLAIN, placed.id)

            async def chosen(**options: Any) -> None:
                placed = await handle.options(**options).aenqueue(poison_app.typed)
                await self.run.accepted(VILLAIN, placed.id)

            async def by_key(key: Any, payload: Any) -> None:
                placed = await handle.aenqueue_key(key, payload)
                await self.run.accepted(VILLAIN, placed.id)

            def named(call: Call, name: str) -> Call:
                return lambda value: call(**{name: value})

            verbs: list[tuple[list[Any], list[Call]]] = [
                ([*COUNTS, *NUMBERS], [named(typed, "number"), named(typed, "real")]),
                (WORDS, [named(typed, "text")]),
                (MOMENTS, [named(typed, "moment")]),
                (SPANS, [named(typed, "span")]),
                ([*OBJECTS, *TEXTS], [named(typed, "anything"), named(typed, "listed")]),
                (SPANS, [named(chosen, "delay")]),
                (MOMENTS, [named(chosen, "at"), named(chosen, "deadline")]),
                (COUNTS, [named(chosen, "priority"), named(chosen, "max_attempts")]),
                (WORDS, [
                    *(named(chosen, name) for name in ("dedupe_key", "correlation_id", "created_by", "id")),
                    named(chosen, "on_conflict"),
                    named(chosen, "dedupe"),
                    lambda word: by_key(word, {}),
                    handle.aget,
                    handle.acancel,
                    handle.aretry,
                    handle.arun_now,
                ]),
                (PAYLOADS, [lambda payload: by_key("taken", payload), lambda payload: by_key("typed", payload)]),
                ([*WORDS, *OBJECTS[:8]], [lambda other: handle.aenqueue(other)]),
            ]  # fmt: skip
            await self.run.put_all("app", verbs)
            await handle.acancel(waiting.id)

    async def bulk(self) -> None:
        """Puts one hostile job between two good ones: all of them are stored or none, or it is said which are."""
        async with self._opened(poison_app.app) as app:
            handle = app.tenant(VILLAIN)

            async def several(bad: Callable[[], Any], atomic: bool) -> None:
                mark = f"bulk {self.run.counts['bulk']}"
                good = [NewJob(definition="taken", correlation_id=mark) for _ in range(2)]
                refusal: InvalidInput | Conflict | None = None
                expected = 3
                try:
                    await handle.aenqueue_many([good[0], bad(), good[1]], chunk=1, atomic=atomic)
                except (InvalidInput, Conflict) as error:
                    refusal, expected = error, 0
                except PartlyEnqueued as error:
                    if not isinstance(error.__cause__, InvalidInput | Conflict):
                        raise
                    refusal, expected = error.__cause__, len(error.placed)
                stored = (await handle.jobs.alist(correlation_id=mark, limit=5)).jobs
                for job in stored:
                    await self.run.accepted(VILLAIN, job.id)
                assert len(stored) == min(expected, 2), (refusal, stored)  # the bad one has no mark
                if refusal is not None:
                    raise refusal

            for make, atomic in product(BAD_JOBS, (True, False)):
                await self.run.put("bulk", several, make, atomic)
            for count in COUNTS:
                call = [NewJob(definition="taken", payload={"chunk": True})]
                await self.run.put("bulk", lambda chunk, jobs=call: handle.aenqueue_many(jobs, chunk=chunk), count)

    async def within(self) -> None:
        """Enqueues hostile values within a transaction of the caller's, which a refusal leaves usable."""
        async with self._opened(poison_app.app) as app:
            handle = app.tenant(VILLAIN)

            async def place(key: Any, payload: Any) -> None:
                async with self.connection.transaction():
                    try:
                        placed = await handle.within(self.connection).aenqueue_key(key, payload)
                    finally:
                        assert await self.connection.fetchval("select 1") == 1
                await self.run.accepted(VILLAIN, placed.id)

            async def many(bad: Callable[[], Any]) -> None:
                good = NewJob(definition="taken")
                async with self.connection.transaction():
                    try:
                        many = await handle.within(self.connection).aenqueue_many([good, bad(), good])
                    finally:
                        assert await self.connection.fetchval("select 1") == 1
                for placed in many:
                    await self.run.accepted(VILLAIN, placed.id)

            verbs: list[tuple[list[Any], list[Call]]] = [
                (WORDS, [lambda word: place(word, {})]),
                (PAYLOADS, [lambda payload: place("taken", payload)]),
                (BAD_JOBS, [many]),
                (NOT_TRANSACTIONS, [lambda other: handle.within(other).aenqueue(poison_app.typed)]),
            ]
            await self.run.put_all("within", verbs)

    async def ticks(self) -> None:
        async with self._opened(poison_app.ticks) as app:
            await app.store.sync_definitions(app.handlers.definitions)

            def ticked(name: str) -> Call:
                async def tick(value: Any) -> None:
                    await self.run.enqueue(VILLAIN, definition="ticked")
                    await app.atick(**{"max_seconds": 5, name: value})

                return tick

            await self.run.put_all(
                "ticks",
                [([*COUNTS, *NUMBERS], [ticked("max_jobs"), ticked("slots")]), (SPANS, [ticked("max_seconds")])],
            )
            await app.atick(1000)

    def _opened(self, app: Leasehold) -> Any:
        app.configure(url=self.url)
        return app.open()

    # ------------------------------------------------------------------------------------------------- administration

    async def definitions(self) -> None:
        async def sync(make: Callable[[Any], Definition], value: Any) -> None:
            await self.run.store.sync_definitions([make(value)])

        makers: list[tuple[Callable[[Any], Definition], list[Any]]] = [
            (Definition, WORDS),
            (lambda word: Definition("strange", description=word), WORDS),
            (lambda span: Definition("strange", timeout=span), SPANS),
            (lambda count: Definition("strange", max_attempts=count), COUNTS),
            (lambda count: Definition("strange", priority=count), COUNTS),
            (lambda span: Definition("strange", retention=Retention(span, span, span, span)), SPANS),
            (lambda number: Definition("strange", backoff=Exponential(base=number)), [*COUNTS, *NUMBERS]),
            (lambda number: Definition("strange", backoff=Steps(number)), [*COUNTS, *NUMBERS]),
            (lambda schema: Definition("strange", schema=schema), PAYLOADS),
        ]
        for make, values in makers:
            for value in values:
                await self.run.put("definitions", sync, make, value)
        await self.run.store.sync_definitions([Definition("strange")])

    async def limits(self) -> None:
        store = self.run.store
        changes: list[tuple[Call, list[Any]]] = [
            (lambda scope, count: store.limit(scope, Limits(max_running=count)), COUNTS),
            (lambda scope, span: store.limit(scope, Limits(rate=Rate(1, span))), SPANS),
            (lambda scope, moment: store.pause(scope, Pause("why", moment)), MOMENTS),
            (lambda scope, word: store.pause(scope, Pause(word)), WORDS),
        ]
        for scope in LIMITED:
            for change, values in changes:
                for value in values:
                    await self.run.put("limits", change, scope, value)
        for kind, word in product(ScopeKind, WORDS):
            await self.run.put(
                "limits", lambda kind, word: store.limit(Scope(kind, word), Limits(max_running=1)), kind, word
            )
        await store.scopes()
        await lift_limits(self.run)

    # ------------------------------------------------------------------------------------------------------------ SQL

    async def sql(self) -> None:
        async def one(arguments: str) -> None:
            job = await self.connection.fetchval(
                f"select job_id from leasehold.enqueue('villain', 'taken', {arguments})"  # noqa: S608
            )
            await self.run.accepted(VILLAIN, JobId(str(job)))

        async def several(document: str) -> None:
            for row in await self.connection.fetch("select * from leasehold.enqueue_jobs('villain', $1)", document):
                if row["code"] is not None:
                    assert row["code"].startswith("L1"), row
                    raise InvalidInput(row["happened"], fix=row["fix"])
                await self.run.accepted(VILLAIN, JobId(str(row["job_id"])))

        await self.run.put_all("sql", [(ARGUMENTS, [one]), (DOCUMENTS, [several])])

    # --------------------------------------------------------------------------------------------------- command line

    async def commands(self) -> None:
        async def enqueue(words: Sequence[str]) -> None:
            answer = await self.leasehold("enqueue", "taken", *words, "--json", LEASEHOLD_TENANT=VILLAIN, stdin="")
            require_answered(answer)
            tenant = words[1] if words[0] == "--tenant" else VILLAIN
            await self.run.accepted(tenant_id(tenant), JobId(answer.document["id"]))

        await self.run.put_all("commands", [(COMMANDS, [enqueue])])

    async def verbs(self) -> None:
        """Types every other verb: those that change something for the villain alone."""
        job = await ended_job(self.run)

        async def typed(words: Sequence[str]) -> None:
            named = [{"JOB": job, "TICKS": TICKS}.get(word, word) for word in words]
            require_answered(await self.leasehold(*named, stdin=""))

        try:
            await self.run.put_all("verbs", [(VERBS, [typed])])
        finally:
            await lift_limits(self.run)

    async def workers(self) -> None:
        """Starts workers with hostile options: each refuses them, or works until it is stopped."""

        async def started(words: Sequence[str]) -> None:
            worker = self.processes.worker(*words, handlers=Path(f"{poison_app.__file__}:ticks"))
            await eventually(lambda: _refused_or_works(worker), what=f"the start of a worker with {words}")
            worker.send(SIGTERM)
            if (code := await worker.code()) == 0:
                return
            assert code == 2, worker.said
            assert "LH-1" in worker.said or "Usage" in worker.said, worker.said
            raise InvalidInput(worker.said, fix="")

        for words in WORKER_OPTIONS:
            await self.run.put("workers", started, words)


async def _refused_or_works(worker: Process) -> bool:
    return worker.ended or "✓ worker" in worker.said
