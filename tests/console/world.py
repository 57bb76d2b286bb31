"""An app with two tenants and jobs of every state, whose console is served on a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
from tests.conftest import eventually
from tests.console.trigger_world import HOSTILE, add_triggers

from leasehold import Job, Leasehold, Steps, WorkerSettings
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.model.access import Permission, Role
from leasehold.model.error_group import error_group
from leasehold.model.job import JobId, TenantId, tenant_id
from leasehold.model.operation import OperationKind
from leasehold.model.trigger import TriggerId
from leasehold.operations import bulk, sessions, tokens
from leasehold.store import Filter

ACME, GLOBEX, INITECH = tenant_id("acme"), tenant_id("globex"), tenant_id("initech")
CANARY = "globex-canary"
MANY = 60


@dataclass
class World:
    """The app, the address of its console, and its jobs by a name."""

    app: Leasehold
    address: str
    url: str
    jobs: dict[str, JobId] = field(default_factory=dict)
    group: str = ""
    operation: str = ""
    triggers: dict[str, TriggerId] = field(default_factory=dict)
    lines: "asyncio.Queue[str | None]" = field(default_factory=asyncio.Queue)
    texts: dict[Any, tuple[Any, str]] = field(default_factory=dict)

    async def token(self, role: Role, tenant: TenantId | None = ACME) -> str:
        """Returns a token, made at the first call for these rights."""
        owner = None if role is Role.SUPER_ADMIN else tenant
        if (role, owner) not in self.texts:
            record, text = await tokens.create(self.app.store, f"{role.value}-{owner}", role, tenant=owner)
            self.texts[role, owner] = record, str(text)
        return self.texts[role, owner][1]

    async def session(self, role: Role, tenant: TenantId | None = ACME) -> str:
        return await sessions.sign_in(self.app.store, await self.token(role, tenant))

    async def signed_in(self, role: Role, *permissions: Permission) -> httpx.AsyncClient:
        """Returns a client with a session at acme; `permissions` are those of its token, if not the role's."""
        if not permissions:
            return signed_in(self, await self.session(role))
        _, text = await tokens.create(self.app.store, "few", role, tenant=ACME, permissions=frozenset(permissions))
        return signed_in(self, await sessions.sign_in(self.app.store, str(text)))

    async def enqueue(self, key: str, tenant: TenantId = ACME, **options: Any) -> JobId:
        payload = options.pop("payload", {})
        handle = self.app.tenant(tenant)
        enqueued = await (handle.options(**options) if options else handle).aenqueue_key(key, payload)
        return JobId(str(enqueued.id))

    async def until(self, job: JobId, *states: str, tenant: TenantId = ACME) -> None:
        async def is_there() -> bool:
            record = await self.app.store.tenant(tenant).get(job)
            return record is not None and record.display.value in states

        await eventually(is_there, what=f"{job} is {' or '.join(states)}")


def signed_in(world: World, secret: str) -> httpx.AsyncClient:
    name = f"leasehold-session-{urlsplit(world.address).port}"
    return httpx.AsyncClient(base_url=world.address, cookies={name: secret}, timeout=60)


def make_app(url: str, lines: "asyncio.Queue[str | None]") -> Leasehold:
    app = Leasehold(url)

    @app.job(max_attempts=2)
    async def send_report(job: Job, name: str, api_key: str = "") -> dict[str, str]:
        job.log(f"rendering {name}")
        job.log("\x1b[32mdone\x1b[0m in 12 ms")
        return {"file": f"{name}.pdf"}

    @app.job(max_attempts=2, backoff=Steps(0))
    async def sync_folder(job: Job, provider_id: str, path: str = "/") -> None:
        job.log(f"listing {path} … 1204 files")
        job.log("\x1b[33mretrying 429 from provider\x1b[0m")
        await asyncio.wait_for(fetch(provider_id), 60)

    @app.job
    async def train_model(job: Job, model: str = "siglip") -> None:
        while (line := await lines.get()) is not None:
            job.log(line)
            job.progress(0.4, "1204/3010 files")

    @app.job(max_attempts=22, backoff=Steps(0))
    async def knock(job: Job) -> None:
        raise ConnectionError("nobody answers")

    @app.job
    async def render_video(job: Job, clip: str) -> None: ...

    return app


async def fetch(provider: str) -> None:
    raise TimeoutError(f"GET https://api.provider.test/v2/{provider} timed out after 30 s")


@asynccontextmanager
async def make_world(url: str) -> AsyncIterator[World]:
    """Serves a console, with a worker that runs all jobs but render_video."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    app = make_app(url, lines)
    settings = WorkerSettings(slots=4, exclude=("render_video",), fallback=timedelta(seconds=1))
    bound = bind("127.0.0.1", 0)
    async with app.open(worker=settings):
        await app.store.sync_definitions(app.handlers.definitions)
        world = World(app, address_of(bound), url, lines=lines)
        async with serving(app.console(), bound):
            await fill(world)
            yield world
            await lines.put(None)


async def fill(world: World) -> None:
    """Makes jobs of every state. Those of acme and of globex look alike."""
    report = world.app.definition("send_report")
    assert report is not None
    await world.app.tenant(ACME).options(delay="30d").aenqueue_many([report.bind(f"june-{n}") for n in range(MANY)])
    jobs = {
        "succeeded": await world.enqueue("send_report", payload={"name": "july", "api_key": "s3cr3t-value-of-acme"}),
        "dead letter": await world.enqueue("sync_folder", payload={"provider_id": "p_9", "path": "/photos"}),
        "scheduled": await world.enqueue("send_report", payload={"name": "august"}, delay="1d"),
        "ready": await world.enqueue("render_video", payload={"clip": "intro.mp4"}),
        "hostile": await world.enqueue("send_report", payload={"name": HOSTILE}, correlation_id=HOSTILE),
        "canceled": await world.enqueue("send_report", payload={"name": "old"}, delay="1d"),
    }
    await world.app.store.tenant(ACME).cancel([jobs["canceled"]])
    world.jobs |= jobs
    await world.until(jobs["succeeded"], "succeeded")
    await world.until(jobs["dead letter"], "dead letter")
    await world.until(jobs["hostile"], "succeeded")
    dead = await world.app.store.tenant(ACME).get(jobs["dead letter"])
    assert dead is not None
    world.group = error_group(dead.definition, dead.last_error_code, dead.last_error)
    none = bulk.new_operation(OperationKind.RETRY, ACME, Filter(definitions=("nothing",)), reason="a rehearsal")
    world.operation = (await bulk.begin(world.app.store, await bulk.plan(world.app.store, none))).id
    world.jobs["globex"] = await world.enqueue("send_report", GLOBEX, payload={"name": CANARY})
    await world.until(world.jobs["globex"], "succeeded", tenant=GLOBEX)
    await add_triggers(world)
