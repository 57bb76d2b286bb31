"""How late schedules fire: from the fire time to the moment at which its job is enqueued, by the database's clock."""

import asyncio

from bench.book import percentile
from bench.stage import Stage
from bench.systems import OURS
from leasehold.engines import engine_for
from leasehold.model.definition import Definition
from leasehold.model.job import tenant_id
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger
from leasehold.runtime.supervise import cancel_all
from leasehold.scheduler import FireLoop

TENANT = tenant_id("tenant-00000")


class Fires:
    """Ours: one schedule of every second, on an idle machine."""

    name, once, compares = "fires", False, False

    async def round(self, stage: Stage) -> None:
        async with stage.attempt(self.name, OURS), stage.place(stage.ours) as place:
            store = await engine_for(place.url).open()
            try:
                await store.sync_definitions([Definition("fired")])
                rule = NewTrigger(label="every second", definition="fired", schedule=Every("1s"))
                trigger = await store.triggers(TENANT).add(rule)
                loop = FireLoop(store)
                loop.look()
                running = asyncio.create_task(loop.run())
                await asyncio.sleep(stage.sizes.fires)
                await cancel_all([running])
                decisions = await store.triggers(TENANT).decisions(trigger.id, 10_000)
                late = [
                    (each.at - each.fire_at).total_seconds() * 1000 for each in decisions if each.at and each.fire_at
                ]
            finally:
                await store.close()
        stage.book.add("fires, late p50", OURS, percentile(late, 0.5))
        stage.book.add("fires, late p99", OURS, percentile(late, 0.99))
