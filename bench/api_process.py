"""The HTTP API and the console as a process: `python -m bench.api_process URL`.

It says its address, then serves until SIGTERM.

It is what `leasehold serve` runs, without limits on the rate of requests.
"""

import sys

from bench.part import say
from leasehold import Leasehold
from leasehold.api import ApiLimits
from leasehold.cli.api_server import address_of, bind, run_server

UNLIMITED = ApiLimits(
    token_rate=1e6, token_burst=1_000_000, tenant_rate=1e6, tenant_burst=1_000_000, statement=60.0, seconds=300.0
)


def main() -> None:
    (url,) = sys.argv[1:]
    with bind("127.0.0.1", 0) as bound:
        say({"address": f"{address_of(bound)}/api/v1"})
        run_server(Leasehold(url).console(limits=UNLIMITED), bound)


if __name__ == "__main__":
    main()
