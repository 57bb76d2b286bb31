"""An app that emits events, and whose jobs run on events and by the clock."""

import asyncio
import sys
from uuid import UUID

from leasehold import ALL, Job, Leasehold

app = Leasehold()

PROVIDER = "0b9c0a5e-5f0e-4c8e-9d7c-3a1f5d2b7e60"


# A schedule has no event to take a provider from, and the payload needs one: it is written here.
@app.schedule(
    "0 2 * * *",
    zone="America/New_York",
    tenant="acme",
    payload={"provider_id": PROVIDER, "path_prefix": "/"},
    label="Nightly provider sync",
)
@app.on(
    "provider.folder.updated",
    tenant="acme",
    payload={"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
    dedupe_window="2m",
    trailing=True,
    label="Resync on folder change",
)
@app.job(key="sync-dropbox", timeout="1h", max_attempts=3)
async def sync_dropbox(job: Job, provider_id: UUID, path_prefix: str = "/") -> str:
    job.log(f"syncing {path_prefix} of {provider_id}")
    return path_prefix


@app.on(
    "provider.connection.changed",
    tenant=ALL,
    filter={"status": {"in": ["expired", "revoked"]}},
    payload={"provider_id": "{{event.provider_id}}", "text": "The connection is {{event.status}}."},
)
@app.job
async def warn_owner(job: Job, provider_id: UUID, text: str) -> str:
    return text


@app.on("list.created", tenant=ALL, payload={"list_id": "{{event.id}}"})
@app.on("images.ingest.completed", tenant=ALL, payload={"list_id": "{{event.list_id}}", "images": "{{event.count}}"})
@app.job
async def build_index(job: Job, list_id: int, images: int = 0) -> int:
    return images


EVENTS = {
    "provider.folder.updated": {"provider_id": PROVIDER, "folder_path": "/photos/2027"},
    "provider.connection.changed": {"provider_id": PROVIDER, "status": "expired"},
    "list.created": {"id": 7},
    "images.ingest.completed": {"list_id": 7, "count": 120},
}


async def main(tenant: str) -> None:
    async with app.open():
        await app.store.sync_definitions(app.handlers.definitions)
        await app.handlers.sync_triggers(app.store)
        for name, data in EVENTS.items():
            emitted = await app.tenant(tenant).aemit(name, data)
            print(name, "→", ", ".join(emitted.definitions.values()) or "no job")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
