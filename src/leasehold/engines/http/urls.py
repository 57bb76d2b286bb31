"""URLs of servers: https://jobs.example.com, with a path in front of the API if a proxy has one."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from leasehold.config import allows_plain_http
from leasehold.errors import InvalidInput

API = "/api/v1"


@dataclass(frozen=True, slots=True)
class Address:
    """The URL of a server without `/api/v1`."""

    url: str

    @property
    def is_encrypted(self) -> bool:
        """Returns whether certificates are needed: to read them takes 50 ms and more."""
        return self.url.startswith("https:")

    @property
    def api(self) -> str:
        return self.url + API


def read_url(url: str, *, plain_http: bool = False) -> Address:
    """Returns the address that a URL names. Raises InvalidInput; the message repeats no part that may be secret.

    `plain_http` allows http:// to another machine, as LEASEHOLD_PLAIN_HTTP does.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _unusable("its host or port can't be read") from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(
            "the URL of the server has a user, a query or a fragment. A token in a URL would be in logs and lists of "
            "processes. Nothing was opened.",
            fix="Leave it out, and set LEASEHOLD_TOKEN, or name a file with --token-file.",
        )
    if not host:
        raise _unusable("it names no host")
    if parts.scheme.lower() == "http" and not (_is_loopback(host) or plain_http or allows_plain_http()):
        raise InvalidInput(
            f"http://{host} is another machine, and without TLS everybody on the way could read the token and the "
            "payloads. Nothing was opened.",
            fix="Use https://. In a network that you trust, --plain-http or LEASEHOLD_PLAIN_HTTP=on allows it.",
        )
    return Address(f"{parts.scheme.lower()}://{parts.netloc}{parts.path.rstrip('/').removesuffix(API)}")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _unusable(why: str) -> InvalidInput:
    return InvalidInput(
        f"the URL of the server can't be used: {why}. Nothing was opened.",
        fix="Use a URL such as https://jobs.example.com.",
    )
