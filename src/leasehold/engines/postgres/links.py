"""The connections of a store besides its pool: one for each purpose."""

import asyncio
from dataclasses import dataclass

from leasehold.engines.postgres.database import ONE_PLAN, Database, Link
from leasehold.engines.postgres.upkeep import UpkeepLink


@dataclass
class Links:
    """One link for each purpose, so that claiming, finishing, heartbeats and upkeep don't wait for each other."""

    claim: Link
    finish: Link
    heartbeat: Link
    upkeep: UpkeepLink

    @classmethod
    def of(cls, database: Database) -> "Links":
        return cls(
            claim=Link(database, ONE_PLAN | {"synchronous_commit": "off"}, tells_of_loss=True),
            finish=Link(database, ONE_PLAN),
            heartbeat=Link(database, ONE_PLAN),
            upkeep=UpkeepLink(database),
        )

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in (self.claim, self.finish, self.heartbeat, self.upkeep)))
