"""The routes, one module for each topic. A new topic is added to `TOPICS`."""

from leasehold.api.route import Routes
from leasehold.api.routes import (
    administration,
    changes,
    definitions,
    errors,
    events,
    health,
    history,
    jobs,
    logs,
    metrics,
    operations,
    saved_views,
    tenants,
    tick,
    tokens,
    triggers,
    usage,
    work,
    worker,
)

TOPICS: tuple[Routes, ...] = (
    health.routes,
    metrics.routes,
    definitions.routes,
    administration.routes,
    tenants.routes,
    tokens.routes,
    history.routes,
    usage.routes,
    operations.routes,
    errors.routes,
    saved_views.routes,
    triggers.routes,
    events.routes,
    jobs.routes,
    logs.routes,
    changes.routes,
    worker.routes,
    work.routes,
)
WHERE_HANDLERS_ARE: tuple[Routes, ...] = (tick.routes,)
"""Topics that are served only where handlers are loaded."""
