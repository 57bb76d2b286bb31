"""The cases of the plan tests: each hot statement with typical values, by the connections that run it."""

from tests.postgres.plan_cases_of_errors import ERRORS, LOOKS
from tests.postgres.plan_cases_of_figures import FIGURES
from tests.postgres.plan_cases_of_links import ON_LINKS
from tests.postgres.plan_cases_of_operations import OPERATIONS
from tests.postgres.plan_cases_of_pools import FINDING, LOOKING_ROUND, OF_EACH_TENANT, POOLED
from tests.postgres.plans import ConnectionKind

__all__ = ["EVERY", "OF_EACH_TENANT", "ON_LINKS", "PLANNED_EACH_TIME", "WITH_ONE_PLAN"]

# The first five enqueues on a connection are planned for each run, later ones once.
_ENQUEUING = [case for case in POOLED if case.statement.startswith(("tenant/enqueue", "tenant/wake", "events/"))]
ON_THE_POOL = tuple(case.on(ConnectionKind.POOL) for case in _ENQUEUING)
PLANNED_EACH_TIME = tuple(
    case.on(ConnectionKind.FRESH) for case in (*POOLED, *FINDING, *LOOKING_ROUND, *FIGURES, *ERRORS)
)
# In a transaction of the app.
ON_THE_CALLERS = tuple(case.on(ConnectionKind.CALLER) for case in _ENQUEUING)

# Batches of operations run on a link, too, and are planned each time.
EVERY = (*ON_LINKS, *OPERATIONS, *LOOKS, *ON_THE_POOL, *PLANNED_EACH_TIME, *ON_THE_CALLERS)

# These must have one sane plan, whatever the statistics were when it was made. Counts and lists are for people.
WITH_ONE_PLAN = (
    *ON_LINKS,
    *ON_THE_POOL,
    *ON_THE_CALLERS,
)
