"""The decorators that declare triggers in code: `@app.schedule` and `@app.on`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar
from uuid import UUID

from leasehold.app.definition import TypedDefinition
from leasehold.app.tenant import Tenant
from leasehold.app.triggers import declared_trigger, read_owner
from leasehold.model.duration import Duration
from leasehold.model.job import TenantId
from leasehold.model.schedule import DEFAULT_CAP, Schedule
from leasehold.model.trigger import AllTenants
from leasehold.worker.handlers import Handlers

D = TypeVar("D", bound=TypedDefinition[..., Any])


class TriggerVerbs(ABC):
    handlers: Handlers

    @abstractmethod
    def _only_tenant(self, verb: str) -> Tenant: ...

    def schedule(
        self,
        schedule: str | Schedule,
        *,
        zone: str | None = None,
        tenant: str | UUID | AllTenants | None = None,
        payload: Mapping[str, Any] | None = None,
        label: str | None = None,
        enabled: bool = True,
        catch_up: Literal["skip", "latest", "all"] = "latest",
        catch_up_cap: int = DEFAULT_CAP,
        spread: Duration = 0,
    ) -> Callable[[D], D]:
        """Enqueues a job by the clock. Write it above `@app.job`, once for each schedule:

            @app.schedule("0 2 * * *", zone="Europe/Berlin", tenant="acme", payload={"path": "/"})
            @app.job
            async def sync_folder(job: Job, path: str) -> int: ...

        Workers save it when they start, and remove it when the code declares it no longer. It is known by tenant and
        label, by default the key of the definition. `tenant=ALL` is for all tenants, those of the future included;
        an app with one tenant may leave it out.
        """
        owner = self._only_tenant("schedule").id if tenant is None else read_owner(tenant)
        options: dict[str, Any] = {
            "schedule": schedule,
            "zone": zone,
            "payload": payload,
            "label": label,
            "enabled": enabled,
            "catch_up": catch_up,
            "catch_up_cap": catch_up_cap,
            "spread": spread,
        }

        return partial(self._declare, "schedule", owner, options)

    def on(
        self,
        event: str,
        *,
        tenant: str | UUID | AllTenants | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        payload: Mapping[str, Any] | None = None,
        label: str | None = None,
        enabled: bool = True,
        dedupe_window: Duration | None = None,
        trailing: bool = False,
    ) -> Callable[[D], D]:
        """Enqueues a job for each event of this name, or of those that `provider.*` selects. Write it above
        `@app.job`, once for each trigger:

            @app.on("provider.folder.updated", tenant="acme", payload={"path": "{{event.folder_path}}"})
            @app.job
            async def sync_folder(job: Job, path: str) -> int: ...

        It is saved, known and removed as with `@app.schedule`. Its default label has the key and the event.
        """
        owner = self._only_tenant("on").id if tenant is None else read_owner(tenant)
        options: dict[str, Any] = {
            "event": event,
            "filter": filter,
            "payload": payload,
            "label": label,
            "enabled": enabled,
            "dedupe_window": dedupe_window,
            "trailing": trailing,
        }
        return partial(self._declare, "on", owner, options)

    def _declare(self, verb: str, owner: TenantId | AllTenants, options: Mapping[str, Any], definition: D) -> D:
        self.handlers.declare(declared_trigger(verb, owner, options, definition))
        return definition
