"""The HTTP API: one module of routes for each topic, over operations/.

application  makes the FastAPI app and its OpenAPI document
route        a route with its permission; checks the sender, the rate and the body before it runs
context      the principal, the tenant and the id of a request, for its route
limits       bounds of requests, and how often they may be sent
strict_json  reads bodies
streams      server-sent events: pings, slow clients, revoked tokens; open_streams counts them
live         the one source of live changes for all streams of a process
problems     errors as problem+json
documents    the bodies of requests and answers
backend      the part of an app that its API needs
served       the server as the port of its metrics and probes sees it

Needs `pip install leasehold[api]`.
"""

from leasehold.api.application import make_api
from leasehold.api.backend import Backend
from leasehold.api.context import Resolve
from leasehold.api.limits import ApiLimits

__all__ = ["ApiLimits", "Backend", "Resolve", "make_api"]
