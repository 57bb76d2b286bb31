"""Tells requests of pages of this site from those that another site makes a browser send."""

from urllib.parse import urlsplit

from starlette.requests import Request

from leasehold.errors import NotPermitted

SAFE_METHODS = frozenset({"GET", "HEAD"})
OWN_SITE = frozenset({"same-origin", "none"})


def require_own_site(request: Request) -> None:
    """Raises NotPermitted for a request that another site has sent, or that does not say where it comes from."""
    site = request.headers.get("sec-fetch-site")
    own = site in OWN_SITE if site is not None else _has_own_origin(request)
    if not own:
        raise NotPermitted(
            "another site has sent this request, or your browser does not say which. Nothing was done.",
            fix="Open the console itself, and repeat it there.",
        )


def _has_own_origin(request: Request) -> bool:
    try:
        place = urlsplit(request.headers.get("origin", "")).netloc
    except ValueError:
        return False
    return bool(place) and place == request.headers.get("host")


def require_own_cookies(request: Request) -> None:
    """Raises NotPermitted if another site changes something by the cookies of a browser, which it sends by itself."""
    if request.method not in SAFE_METHODS and "cookie" in request.headers:
        require_own_site(request)
