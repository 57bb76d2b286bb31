"""`leasehold serve`."""

from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.app import Leasehold
from leasehold.cli.api_server import address_of, bind, has_console, require_api, run_server
from leasehold.cli.interrupts import run
from leasehold.cli.metrics import Endpoint, MetricsHost, MetricsPort
from leasehold.cli.options import Commands, LogLines, Schema, Url, begin_logs_of_service, require_database
from leasehold.cli.output import explain_errors, print_json, stderr
from leasehold.cli.target import load_target
from leasehold.cli.worker import Target
from leasehold.engines import engine_for
from leasehold.runtime.redacted_logs import redact_all_logs

if TYPE_CHECKING:
    from fastapi import FastAPI

    from leasehold.api.served import ServedApi
    from leasehold.console import Console


def serve(
    target: Target = None,
    commands: Commands = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    url: Url = None,
    schema: Schema = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = None,
    json: Annotated[bool, typer.Option("--json", help="Its address, as a JSON object on stdout.")] = False,
    log_format: LogLines = None,
) -> None:
    """Serve the HTTP API and the console until stopped.

    Every request needs a token: leasehold token create. People sign in to the console with one, or by leasehold
    console link. With an app, payloads are checked by its handlers, and POST /api/jobs/tick runs jobs here.
    """
    with explain_errors(json), ExitStack() as aside:
        logs = begin_logs_of_service(log_format)
        redact_all_logs()
        require_api()
        app = Leasehold() if target is None and commands is None else load_target(target, commands)
        app.configure(url=url, schema=schema)
        app.observe(logs)
        require_database(app)
        endpoint = Endpoint(app, metrics_port, metrics_host)
        with app.database() as where, bind(host, port) as bound:
            run(engine_for(where, app.settings.schema).schema_status()).require_usable()
            app.configure(url=where)
            aside.enter_context(endpoint.open())
            address, pages = f"{address_of(bound)}/api/v1", has_console()
            if json:
                print_json({"url": address, "console": f"{address_of(bound)}/" if pages else None})
            stderr.print(f"✓ api  {address}", markup=False, highlight=False)
            if pages:
                stderr.print(f"✓ console  {address_of(bound)}/", markup=False, highlight=False)
            else:
                stderr.print("! no console: pip install 'leasehold[console]'", markup=False, highlight=False)
            if not _is_loopback(bound.getsockname()[0]):
                stderr.print("! it speaks HTTP without TLS: let a proxy with TLS stand before it", markup=False)
            served = app.console() if pages else app.api()
            run_server(served, bound, lambda: endpoint.attach(_service_of(served)))


def _service_of(served: "Console | FastAPI") -> "ServedApi":
    from leasehold.api.served import ServedApi

    return ServedApi(served.state.guard)


def _is_loopback(host: str) -> bool:
    return ip_address(host.partition("%")[0]).is_loopback
