"""Metrics for Prometheus: of this server, and of the whole fleet."""

from fastapi import Request, Response

from leasehold.api.context import Asked
from leasehold.api.route import Routes
from leasehold.model.access import Permission
from leasehold.operations.fleet import read_fleet

routes = Routes("metrics")


@routes.add("GET", "/metrics", Permission.METRICS_READ, None, media="text/plain")
async def show_metrics(context: Asked, request: Request) -> Response:
    """Returns the metrics of this server's process and of the fleet, in the text format of Prometheus.

    They name tenants, so that a token of one tenant can't read them.
    """
    fleet = await context.ask(read_fleet)
    kind, text = context.guard.backend.metrics_text(fleet, request.headers.get("accept", ""))
    return Response(text, media_type=kind)
