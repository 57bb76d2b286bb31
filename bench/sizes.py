"""How much is measured: the real thing, and a quick one that only shows that everything works."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """`turns`: how often in each round the short ones are measured, so that what disturbs the machine for seconds
    disturbs all sides of a comparison, not one.
    """

    rounds: int = 3
    turns: int = 3
    drain: int = 20_000
    drain_tenants: tuple[int, ...] = (1, 20)
    one_by_one: int = 1_000
    bulk: int = 20_000
    bulk_call: int = 1_000
    one_call: int = 100_000
    pings: int = 300
    idle_seconds: int = 180
    backlogs: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    histories: tuple[int, ...] = (0, 100_000, 1_000_000, 5_000_000)
    lanes: tuple[int, ...] = (1, 10, 100, 1_000, 5_000, 20_000)
    lanes_jobs: int = 60_000
    snapshot: int = 200_000
    flood: int = 500_000
    flooded: int = 999
    urgent_backlog: int = 100_000
    producers: int = 32
    produced: int = 20_000
    memory: int = 1_000_000
    due: int = 400
    fires: int = 60
    rolled_up: int = 100_000
    isolation: int = 2_000
    dynamodb: int = 1_000
    api_jobs: int = 1_000_000
    api_tenants: int = 1_000
    api_requests: int = 20
    processes: tuple[int, ...] = (1, 2, 3, 4)
    limit: float = 300.0

    @property
    def most(self) -> int:
        """More jobs than any queue holds that is not wholly worked off."""
        return max(*self.backlogs, self.flood) + self.lanes_jobs + self.flooded * 10


FULL = Sizes()

QUICK = Sizes(
    rounds=1,
    turns=1,
    drain=1_000,
    one_by_one=100,
    bulk=5_000,
    one_call=10_000,
    pings=20,
    idle_seconds=5,
    backlogs=(1_000, 10_000, 30_000),
    histories=(0, 10_000, 50_000),
    lanes=(1, 10, 1_000),
    lanes_jobs=5_000,
    snapshot=10_000,
    flood=10_000,
    flooded=99,
    urgent_backlog=10_000,
    produced=400,
    memory=10_000,
    due=20,
    fires=5,
    rolled_up=1_000,
    isolation=100,
    dynamodb=30,
    api_jobs=20_000,
    api_tenants=50,
    api_requests=3,
    processes=(1, 2),
    limit=30.0,
)
