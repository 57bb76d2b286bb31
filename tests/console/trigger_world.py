"""Triggers, events and a definition with a wide schema, for the pages about them."""

from typing import TYPE_CHECKING, Any

from leasehold.model.audit import Actor
from leasehold.model.event import NewEvent
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.trigger import ALL, TriggerId
from leasehold.model.trigger_document import rule_from_document
from leasehold.operations import definitions, triggers
from leasehold.operations.catalog import Catalog

if TYPE_CHECKING:
    from tests.console.world import World

OWNER = tenant_id("acme")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
IMPORT = "import-photos"
EVENT = "provider.folder.updated"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["folder", "provider_id"],
    "properties": {
        "provider_id": {"type": "string", "minLength": 3, "description": "The account at the provider."},
        "folder": {"type": "string", "examples": ["/photos/2026"]},
        "mode": {"enum": ["new", "changed", "all"], "default": "changed"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 500},
        "since": {"type": "string", "format": "date"},
        "dry_run": {"type": "boolean", "default": False},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
        "quality": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "notify": {
            "type": "object",
            "required": ["email"],
            "properties": {
                "email": {"type": "string", "format": "email"},
                "note": {"type": "string", "maxLength": 2000},
            },
        },
        "target": {
            "oneOf": [
                {
                    "title": "Album",
                    "type": "object",
                    "required": ["album"],
                    "properties": {"album": {"type": "string"}},
                },
                {"title": "Number", "type": "integer"},
            ]
        },
        "options": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
RULES: dict[str, dict[str, Any]] = {
    "nightly": {"label": "Nightly import", "cron": "30 2 * * *", "zone": "America/New_York", "definition": IMPORT},
    "hourly": {"label": "Refresh every 6 hours", "every": 21600, "definition": IMPORT, "enabled": False},
    "changed": {
        "label": "Import on change",
        "event": EVENT,
        "definition": IMPORT,
        "filter": {"size": {"gt": 100}},
        "payload_template": {"folder": "{{event.path}}", "provider_id": "{{event.provider}}"},
    },
    "all": {
        "label": "Archive everything",
        "event": "provider.*",
        "definition": IMPORT,
        "payload_template": {"folder": "/archive", "provider_id": "{{event.provider}}"},
        "dedupe_window": 0,
    },
    "broken": {
        "label": "Import by name",
        "event": EVENT,
        "definition": IMPORT,
        "payload_template": {"folder": "{{event.folder_pth}}", "provider_id": "p_1"},
    },
}
DATA = {"path": "/photos/2026", "provider": "p_92", "size": 412}


async def add_triggers(world: "World") -> None:
    """Makes a definition without code or workers, and triggers of acme: two schedules and three events."""
    store, actor = world.app.store, Actor("ada")
    given = {"description": "Import photos of a provider.", "schema": SCHEMA, "timeout": "20m"}
    await definitions.create(store, IMPORT, given, actor)
    catalog = Catalog(store, world.app.handlers)
    for name, rule in RULES.items():
        payload = rule.get("payload_template", {"folder": "/photos", "provider_id": "p_1"})
        made = rule_from_document({**rule, "payload_template": payload})
        world.triggers[name] = (await triggers.create(OWNER, made, "ada", catalog, actor)).id
    everyone = rule_from_document(
        {
            "label": f"Daily clean-up {HOSTILE}",
            "cron": "0 4 * * *",
            "zone": "UTC",
            "definition": "render_video",
            "payload_template": {"clip": "{{tenant}}"},
            "enabled": False,
        }
    )
    world.triggers["everyone"] = (await triggers.create(ALL, everyone, "ada", catalog, actor)).id
    await store.events(OWNER).emit(NewEvent(EVENT, DATA, created_by="ada"))
    await store.events(OWNER).emit(NewEvent(EVENT, DATA, created_by="ada"))
    await store.events(OWNER).emit(NewEvent("nobody.listens", {"n": HOSTILE}))


async def make_trigger(world: "World", owner: TenantId = OWNER, **rule: Any) -> TriggerId:
    """Makes a trigger of its own for a test that changes it."""
    document = {"label": "Mine", "cron": "0 5 * * *", "zone": "UTC", "definition": IMPORT, **rule}
    document.setdefault("payload_template", {"folder": "/photos", "provider_id": "p_1"})
    catalog = Catalog(world.app.store, world.app.handlers)
    return (await triggers.create(owner, rule_from_document(document), "ada", catalog)).id
