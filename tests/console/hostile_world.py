"""A world whose every text attacks the page that shows it: by markup, scripts, styles, quotes, templates, hidden
characters.

`MARK` in a text becomes the name of its field and a number: a test knows by it which texts were shown.
A text that runs calls `hit`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from tests.console.test_fleet import HOUR, join
from tests.console.world import ACME, World
from tests.database_server import DatabaseServer

from leasehold import Job, Leasehold, WorkerSettings
from leasehold.api import ApiLimits
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.console.segments import segment_of
from leasehold.errors import LeaseholdError
from leasehold.model.access import Principal, Role
from leasehold.model.audit import Actor
from leasehold.model.bounds import storable
from leasehold.model.dedupe import Dedupe
from leasehold.model.error_group import error_group
from leasehold.model.event import NewEvent
from leasehold.model.job import JobId, NewJob, TenantId, tenant_id
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.operation import OperationKind
from leasehold.model.trigger_document import rule_from_document
from leasehold.operations import admin, bulk, definitions, saved_views, sessions, tokens, triggers
from leasehold.operations.catalog import Catalog
from leasehold.store import Filter

T = TypeVar("T")
MARK = "MARK"
# The product of a template that was evaluated.
EVALUATED = "54444439"
TEXTS = (
    "<script>hit('MARK')</script>",
    "<img src=x onerror=hit('MARK')>",
    "<svg onload=hit('MARK')>",
    "<svg><script>hit('MARK')</script></svg>",
    "<details hostile open ontoggle=hit('MARK')>",
    "<a hostile href=\"javascript:hit('MARK')\">x</a>",
    "javascript:hit('MARK')",
    '" onfocus="hit(\'MARK\')" autofocus="',
    "' onmouseover='hit(\"MARK\")' x='",
    "` onclick=`hit('MARK')",
    "\"><script>hit('MARK')</script>",
    "'><img src=x onerror=hit('MARK')>",
    "</script><script>hit('MARK')</script>",
    "</textarea><script>hit('MARK')</script>",
    "</title><script>hit('MARK')</script>",
    "</pre></dialog><script>hit('MARK')</script>",
    "<!--><script>hit('MARK')</script>",
    "<style>main{display:none}</style>MARK",
    "<b hostile style=position:fixed>MARK",
    "<link rel=stylesheet href=//evil.test/MARK>",
    "<base href=//evil.test/MARK>",
    "<meta http-equiv=refresh content=0;//evil.test/MARK>",
    "<iframe srcdoc=\"<script>hit('MARK')</script>\">",
    "<form hostile action=//evil.test/MARK><button hostile>",
    "<math><a hostile href=\"javascript:hit('MARK')\">",
    "<x onclick=hit('MARK')>x</x>",
    "<object data=//evil.test/MARK><embed src=//evil.test>",
    "{{ 7777777*7 }}MARK{% raw %}${7777777*7}",
    "&lt;script&gt;hit('MARK')&lt;/script&gt;",
    "\\u003cscript\\u003ehit('MARK')\\u003c/script\\u003e",
    "%3Cscript%3Ehit('MARK')%3C/script%3E",
    "//evil.test/MARK",
    "\uff1cscript\uff1ehit('MARK')\uff1c/script\uff1e",
    "\u202eMARK\u202c\u2066",
    "MARK\u200b\u00ad\ufeff",
    "MARK\x00<script>hit(0)</script>",
    "MARK\x1b[2J\x1b[31m<script>hit(0)</script>",
    "MARK\r\nSet-Cookie: hostile=1\r\n\r\n<script>hit(0)</script>",
)
NUMBERS = range(len(TEXTS))


def text_of(name: str, number: int) -> str:
    return TEXTS[number].replace(MARK, mark_of(name, number))


def mark_of(name: str, number: int) -> str:
    return f"{name}{number:02}"


def make_app(url: str) -> Leasehold:
    app = Leasehold(url)

    @app.job(max_attempts=1)
    async def break_out(job: Job, number: int, given: dict[str, Any]) -> None:
        job.log(text_of("log", number))
        job.progress(0.5, text_of("progress", number))
        name = text_of("code", number).replace("\0", "")
        raise type(name, (Exception,), {})(text_of("message", number))

    @app.job
    async def hand_back(job: Job, number: int) -> dict[str, str]:
        return {text_of("key", number): text_of("result", number)}

    return app


@dataclass
class HostileWorld:
    """The console, the marks of all texts that were accepted, by field, and the pages that show them."""

    world: World
    accepted: dict[str, set[str]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    @property
    def app(self) -> Leasehold:
        return self.world.app

    async def put(self, name: str, number: int, change: Callable[[str], Awaitable[T]]) -> T | None:
        """Puts a text into a field; None if it is refused."""
        try:
            made = await change(text_of(name, number))
        except LeaseholdError:
            return None
        self.note(name, number)
        return made

    def note(self, name: str, number: int) -> None:
        self.accepted.setdefault(name, set()).add(mark_of(name, number))

    # ------------------------------------------------------------------------------------------------------- jobs

    async def enqueue(self, number: int) -> JobId:
        """Enqueues a job with each of its texts that is accepted, and waits until it has failed with others."""
        ways: dict[str, Callable[[str], dict[str, Any]]] = {
            "payload": lambda text: {"payload": {"number": number, "given": {text: text, "list": [text]}}},
            "correlat": lambda text: {"correlation_id": text},
            "creator": lambda text: {"created_by": text},
            "dedupe": lambda text: {"dedupe": Dedupe(text)},
        }
        fields: dict[str, Any] = {"payload": {"number": number, "given": {}}}
        for name, way in ways.items():

            async def attempt(text: str, way: Callable[[str], dict[str, Any]] = way) -> dict[str, Any]:
                tried = way(text)
                scrap = self.app.store.tenant(tenant_id("scrap"))
                await scrap.enqueue([NewJob(definition="quiet", **tried)])
                return tried

            fields |= await self.put(name, number, attempt) or {}
        (failing,) = await self.app.store.tenant(ACME).enqueue([NewJob(definition="break_out", **fields)])
        returning = await self.world.enqueue("hand_back", payload={"number": number})
        await self.world.until(failing.id, "dead letter")
        await self.world.until(returning, "succeeded", "failed", "dead letter")
        for name in ("log", "progress", "code", "message"):
            self.note(name, number)
        record = await self.app.store.tenant(ACME).get(failing.id)
        assert record is not None
        group = error_group(record.definition, record.last_error_code, record.last_error)
        self.paths += [f"/t/acme/jobs/{failing.id}", f"/t/acme/jobs/{returning}", f"/t/acme/dead/{group}"]
        self.paths += [f"/t/acme/jobs/{failing.id}/{verb}" for verb in ("change", "retry")] if number % 4 == 0 else []
        return failing.id

    # ---------------------------------------------------------------------------------- triggers, events, the rest

    async def add_triggers(self, number: int) -> None:
        catalog, store = Catalog(self.app.store, self.app.handlers), self.app.store
        given: dict[str, Any] = {"event": f"hostile.n{number}", "definition": "quiet"}

        async def make(**fields: Any) -> str:
            rule = rule_from_document({"label": f"Plain {number}", **given, **fields})
            return (await triggers.create(ACME, rule, "ada", catalog)).id

        made = [
            await self.put("label", number, lambda text: make(label=text)),
            await self.put("template", number, lambda text: make(payload_template={"a": text, text: "b"})),
            await self.put("filter", number, lambda text: make(filter={"a": text})),
        ]
        for trigger in filter(None, made):
            self.paths += [f"/t/acme/triggers/{trigger}", f"/t/acme/triggers/{trigger}/edit"]
        events, name = store.events(ACME), f"hostile.n{number}"
        await self.put("data", number, lambda text: events.emit(NewEvent(name, {text: text, "a": text})))
        mark = mark_of("emitter", number)  # a list shows the beginning of this one
        await self.put("emitter", number, lambda text: events.emit(NewEvent(name, {}, created_by=f"{mark} {text}")))
        self.paths.append(f"/t/acme/events?name={name}")

    async def add_people(self, number: int) -> None:
        store, ada = self.app.store, Principal("ada", Role.TENANT_ADMIN, ACME)

        async def save_view(text: str) -> Any:
            return await saved_views.save(store, ACME, ada, text, urlencode({"q": text}), shared=True)

        async def make_token(text: str) -> str:
            _, token = await tokens.create(store, text, Role.VIEWER, tenant=ACME)
            return await sessions.sign_in(store, str(token))

        await self.put("view", number, save_view)
        if secret := await self.put("person", number, make_token):
            self.secrets.append(secret)

    async def add_operators(self, number: int) -> None:
        store, paused = self.app.store, Scope(ScopeKind.TENANT, tenant_id(f"paused-{number:02}"))

        async def begin(text: str) -> str:
            none = Filter(definitions=("nothing",))
            new = bulk.new_operation(OperationKind.RETRY, ACME, none, reason=text, created_by=text)
            return (await bulk.begin(store, await bulk.plan(store, new))).id

        async def add_tenant(text: str) -> TenantId:
            tenant = tenant_id(text)
            await self.world.enqueue("quiet", tenant)
            return tenant

        await self.put("reason", number, lambda text: admin.pause(store, paused, text, None, Actor("ada")))
        await self.put("actor", number, lambda text: admin.limit(store, paused, number, Actor(text)))
        if operation := await self.put("bulk", number, begin):
            self.paths.append(f"/t/acme/operations/{operation}")
        if tenant := await self.put("tenant", number, add_tenant):
            self.paths += [f"/t/{segment_of(tenant)}", f"/t/{segment_of(tenant)}/jobs"]
        if storable(TEXTS[number]):
            await join(store, HOUR, text_of("host", number), text_of("version", number))
            self.note("host", number)
            self.note("version", number)

    async def add_definitions(self) -> None:
        """Makes a definition without a schema, which no worker serves, and one whose schema has all texts."""
        await definitions.create(self.app.store, "quiet", {}, Actor("ada"))
        texts = {number: text_of("schema", number) for number in NUMBERS if storable(TEXTS[number])}
        parts = {
            text: {"type": "string", "title": text, "description": text, "default": text} for text in texts.values()
        }
        given = {"description": " ".join(texts.values())[:900], "schema": {"type": "object", "properties": parts}}
        await definitions.create(self.app.store, "described", given, Actor("ada"))
        for number in texts:
            self.note("schema", number)
        self.paths += [f"/t/acme/definitions/described{end}" for end in ("", "/enqueue", "/override")]


def lists() -> Iterator[str]:
    columns = "&".join(f"column={name}" for name in ("tenant", "correlation", "dedupe", "by", "worker", "id"))
    yield from (f"/t/acme/jobs?limit=200&{columns}", f"/all/jobs?limit=200&{columns}", "/t/acme", "/all")
    yield from ("/t/acme/dead", "/all/dead", "/t/acme/operations", "/all/operations", "/t/acme/triggers")
    yield from ("/t/acme/events", "/t/acme/definitions", "/t/acme/usage", "/all/usage", "/all/workers", "/all/health")
    yield from ("/all/tenants", "/all/tenants?cursor=paused-00", "/all/tenants?cursor=paused-24")
    yield from (f"/all/audit?action=tenant.{verb}" for verb in ("pause", "limit"))
    yield from ("/t/acme/bulk/retry?q=status:dead-letter", "/t/acme/audit", "/t/acme/triggers/new?kind=cron")


def addresses() -> Iterator[str]:
    """Yields addresses with texts in them."""
    for number in NUMBERS:
        text = quote(text_of("asked", number), safe="")
        yield f"/t/acme/jobs?q={text}"
        yield (
            f"/t/acme/jobs?q=correlation:%22{text}%22&column={text}&limit={text}&after={text}",
            f"/all/audit?action={text}&after={text}&tenant={text}&cursor={text}",
            f"/t/acme/events/test?name={text}",
            f"/t/acme/triggers/new?kind=event&event={text}&definition={text}",
            f"/t/acme/usage?by={text}&since={text}",
            f"/t/{text}/jobs",
            f"/t/acme/bulk/retry?group={text}&q={text}",
        )[number % 7]


@asynccontextmanager
async def make_hostile_world(database_server: DatabaseServer) -> AsyncIterator[HostileWorld]:
    async with database_server.fresh() as url:
        app, bound = make_app(url), bind("127.0.0.1", 0)
        console = app.console(limits=ApiLimits(token_rate=1e6, token_burst=10**6))
        async with app.open(worker=WorkerSettings(slots=4)), serving(console, bound):
            await app.store.sync_definitions(app.handlers.definitions)
            made = HostileWorld(World(app, address_of(bound), url))
            await made.add_definitions()
            for number in NUMBERS:
                await made.enqueue(number)
                await made.add_triggers(number)
                await made.add_people(number)
                await made.add_operators(number)
            made.paths += lists()
            yield made
