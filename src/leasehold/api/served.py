"""The server of the API as the port of its metrics and probes sees it."""

from leasehold.api.context import Guard
from leasehold.config import process_redactor
from leasehold.errors import LeaseholdError
from leasehold.store import Store
from leasehold.telemetry.metrics import ProcessState


class ServedApi:
    """A service beside workers and schedulers. It is asked on the loop of the server."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    @property
    def current_store(self) -> Store | None:
        return self._guard.backend.current_store

    async def process_state(self) -> ProcessState:
        """Returns why the server can't serve, by the same look at the database as that of `/api/v1/ready`."""
        if self._guard.streams.are_ended:
            return ProcessState(("the server is stopping",))
        try:
            await self._guard.readiness.require()
        except LeaseholdError as error:
            return ProcessState((process_redactor().text(error.happened),))
        return ProcessState()
