"""How long requests of people and pages of the console take over HTTP, with a million jobs of a thousand tenants."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from time import perf_counter

import httpx

from bench import processor
from bench.book import percentile
from bench.children import started
from bench.stage import INSTALLING, Place, Stage
from bench.states import many_tenants, query, sample_jobs
from bench.systems import OURS, CannotMeasure
from bench.systems.leasehold import app_with_handlers
from leasehold.engines import engine_for
from leasehold.model.access import Role
from leasehold.operations import tokens
from leasehold.operations.sessions import sign_in

DEFINITIONS = 12
COMMON, RARE, UNUSED = "bench-1", f"bench-{DEFINITIONS - 2}", f"bench-{DEFINITIONS - 1}"
LARGE, SMALL, ALL = "the large tenant", "a small tenant", "all tenants"
LISTS = {
    "list, first page": {},
    "list, queued": {"status": "queued"},
    "list, retrying": {"status": "retrying"},
    "list, running": {"status": "running"},
    "list, dead letters": {"status": "dead_letter"},
    "list, a definition": {"definition": COMMON},
    "list, a rare definition": {"definition": RARE},
    "list, a definition without jobs": {"definition": UNUSED},
    "list, a source": {"source": "event"},
    "list, a rare source": {"source": "system"},
}
DEEP, CORRELATION, CREATED = "list, deep page", "list, a correlation id", "list, created in an hour of last week"
# Without a tenant, a page of these looks at as many jobs as it may.
LONG = ("list, a rare definition", "list, a definition without jobs", "list, a rare source", CREATED)
SERIES = {f"series, {window}": {"window": window} for window in ("1h", "24h", "7d")}


@dataclass(frozen=True)
class Request:
    """`key` is what the results call it, as in `list, queued`."""

    key: str
    path: str
    query: Mapping[str, str]


@dataclass(frozen=True)
class Taken:
    """Milliseconds until the answer, and of processor time of the API and the database; None: can't be told here."""

    milliseconds: float
    processor: float | None


class Api:
    """Ours: requests one after the other, of each kind in turn: for a large tenant, for small ones, and for all."""

    name, once, compares = "api", True, False

    async def round(self, stage: Stage) -> None:
        async with stage.attempt(self.name, OURS), stage.place(stage.ours) as place:
            stage.say(f"{self.name}: filling")
            await self._fill(stage, place)
            command = [sys.executable, "-m", "bench.api_process", place.url]
            async with started(command, stage.folder / "api.log", answers=True) as server:
                address = (await server.answer(INSTALLING))["address"]
                token, session = await token_of_all(place.url)
                headers = {"Authorization": f"Bearer {token}"}
                cookies = {f"leasehold-session-{httpx.URL(address).port}": session}
                async with httpx.AsyncClient(
                    base_url=address, headers=headers, cookies=cookies, timeout=stage.sizes.limit
                ) as http:
                    await self._measure(stage, place, http, server.pid)

    async def _fill(self, stage: Stage, place: Place) -> None:
        app, _ = app_with_handlers(place.url, None, {"definitions": DEFINITIONS})
        store = await engine_for(place.url).open()
        await store.sync_definitions(app.handlers.definitions)
        await store.close()
        await many_tenants(stage, place, stage.sizes.api_jobs, stage.sizes.api_tenants, DEFINITIONS)

    async def _measure(self, stage: Stage, place: Place, http: httpx.AsyncClient, pid: int) -> None:
        taken: dict[tuple[str, str], list[Taken]] = {}
        random = Random(19)
        for turn in range(stage.sizes.api_requests + 1):
            stage.say(f"{self.name}: turn {turn}")
            small = f"tenant-{random.randrange(1, stage.sizes.api_tenants):05d}"
            for whose, tenant in ((LARGE, "tenant-00000"), (SMALL, small), (ALL, None)):
                sample = await sample_jobs(place, tenant, stage.sizes.api_tenants)
                for request in (*requests(tenant, sample), *pages(str(http.base_url), tenant)):
                    took = await time_of(place, http, pid, request, tenant)
                    if turn:  # the first warms up connections and plans
                        taken.setdefault((request.key, whose), []).append(took)
        for (key, whose), all_taken in taken.items():
            measure, times = f"{self.name}, {key}, {whose}", [each.milliseconds for each in all_taken]
            stage.book.add(f"{measure}, p50", OURS, percentile(times, 0.5))
            stage.book.add(f"{measure}, p95", OURS, percentile(times, 0.95))
            if known := [each.processor for each in all_taken if each.processor is not None]:
                stage.book.add(f"{measure}, processor", OURS, median(known))


def requests(tenant: str | None, sample: Mapping[str, str]) -> Iterator[Request]:
    """Yields each kind of request once. Some are about sampled jobs: a waiting one, an ended one."""
    for key, asked in LISTS.items():
        yield Request(key, "/jobs", asked)
    cursor = sample["id"] if tenant else f"{sample['id']}/{sample['tenant_id']}"
    yield Request(DEEP, "/jobs", {"cursor": cursor})
    yield Request(CORRELATION, "/jobs", {"correlation_id": sample["correlation_id"]})
    created = {"created_after": sample["created_after"], "created_before": sample["created_before"]}
    yield Request(CREATED, "/jobs", created)
    for key, asked in SERIES.items():
        yield Request(key, "/jobs/series", asked)
    if tenant is None:
        for window in ("1h", "24h", "7d"):
            yield Request(f"series, {window}, by tenant", "/jobs/series", {"window": window, "by": "tenant"})
        return
    yield Request("summary", "/jobs/summary", {})
    yield Request("job, ended", f"/jobs/{sample['id']}", {})
    yield Request("job, waiting", f"/jobs/{sample['waiting_id']}", {})
    yield Request("explain", f"/jobs/{sample['waiting_id']}/explain", {})


def pages(address: str, tenant: str | None) -> Iterator[Request]:
    """Yields pages of the console, which the server of the API has beside it."""
    root = address.rstrip("/").removesuffix("/api/v1")
    base = f"{root}/all" if tenant is None else f"{root}/t/{tenant}"
    yield Request("console, list", f"{base}/jobs", {})
    yield Request("console, overview", base, {"window": "1h"})


async def time_of(place: Place, http: httpx.AsyncClient, pid: int, request: Request, tenant: str | None) -> Taken:
    asked = {**request.query, **({"tenant": tenant} if tenant else {})}
    before = {each: processor.precisely_used_by(each) for each in (pid, *await sessions(place))}
    began = perf_counter()
    answer = await http.get(request.path, params=asked)
    milliseconds = 1000 * (perf_counter() - began)
    if answer.status_code != 200:
        raise CannotMeasure(f"{request.key}: {answer.status_code} {answer.text[:200]}")
    after = {each: processor.precisely_used_by(each) for each in (pid, *await sessions(place))}
    used = [(seconds, before.get(each) or 0.0) for each, seconds in after.items()]
    if any(seconds is None for seconds, _ in used):
        return Taken(milliseconds, None)
    return Taken(milliseconds, 1000 * sum((seconds or 0.0) - earlier for seconds, earlier in used))


async def sessions(place: Place) -> list[int]:
    """Returns the processes of the database's sessions, without the observer's own."""
    return [row["pid"] for row in await place.observer.fetch(query("sessions"), place.name)]


async def token_of_all(url: str) -> tuple[str, str]:
    """Returns a token, and the secret of a session with its rights."""
    store = await engine_for(url).open()
    try:
        _, text = await tokens.create(store, "bench", Role.SUPER_ADMIN)
        return str(text), await sign_in(store, str(text))
    finally:
        await store.close()


def shown_measures(named: Sequence[str]) -> dict[str, list[str]]:
    """Returns, for each kind of request among these measures, whose it was measured for."""
    kinds: dict[str, list[str]] = {}
    for measure in named:
        if measure.startswith(f"{Api.name}, ") and measure.endswith(", p95"):
            key, _, whose = measure.removeprefix(f"{Api.name}, ").removesuffix(", p95").rpartition(", ")
            kinds.setdefault(key, []).append(whose)
    return kinds
