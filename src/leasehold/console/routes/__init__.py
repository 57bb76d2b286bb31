"""The pages, one module for each topic. A new topic is added to `TOPICS`."""

from typing import Protocol

from starlette.routing import Route

from leasehold.api.context import Guard
from leasehold.console.rendering import Renderer
from leasehold.console.routes import (
    audit,
    bulk,
    dead,
    definition_overrides,
    definitions,
    enqueue,
    events,
    health,
    job,
    job_actions,
    jobs,
    operations,
    overview,
    saved_views,
    sign_in,
    tenants,
    trigger_actions,
    trigger_editor,
    triggers,
    usage,
    workers,
)
from leasehold.console.visitors import Visitors


class Topic(Protocol):
    def routes(self, guard: Guard, visitors: Visitors, renderer: Renderer) -> list[Route]: ...


TOPICS: tuple[Topic, ...] = (
    *(sign_in.SignIn(), overview.pages, jobs.pages, saved_views.pages, job_actions.pages, job.pages),
    *(dead.pages, bulk.pages, operations.pages),
    *(trigger_editor.pages, trigger_actions.pages, triggers.pages, events.pages),
    *(enqueue.pages, definition_overrides.pages, definitions.pages),
    *(usage.pages, audit.pages, health.pages, workers.pages, tenants.pages),
)
