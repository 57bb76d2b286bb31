"""URLs of Postgres databases: made from parts, moved to another database, shown without secrets."""

from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from leasehold.engine import Login

# Options that asyncpg reads from a URL, as libpq does. Others (a pool, isolation_level) are for other drivers.
OPTIONS = ("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "passfile", "target_session_attrs")


def split_parameter(url: str, name: str) -> tuple[str, str | None]:
    """Takes a parameter of ours out of the URL: the driver would send it to the server as a setting."""
    parts = urlsplit(url)
    named = parse_qs(parts.query).get(name)
    if not named:
        return url, None
    others = "&".join(each for each in parts.query.split("&") if each.partition("=")[0] != name)
    return parts._replace(query=others).geturl(), named[-1]


def hide_secrets(url: str) -> str:
    """Returns scheme, host, port and database."""
    parts = urlsplit(url)
    host = [(name, value) for name, value in parse_qsl(parts.query) if name in ("host", "port")]
    query = urlencode(host, safe="/:,")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" + (f"?{query}" if query else "")


def replace_database(url: str, database: str) -> str:
    """Returns the URL of another database with all that the URL says beside the name."""
    server, mark, query = url.partition("?")
    scheme, _, rest = server.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{quote(database, safe='')}{mark}{query}"


def make_url(database: str, login: Login) -> str:
    user, password = quote(login.user, safe=""), quote(login.password, safe="")
    credentials = f"{user}{f':{password}' if password else ''}@" if user else ""
    options = {name: value for name, value in login.options.items() if name in OPTIONS}
    host, port = login.host, login.port
    if not host or host.startswith("/"):
        socket = {"host": host, "port": port}
        options, host = {**{name: value for name, value in socket.items() if value}, **options}, ""
    server = f"{f'[{host}]' if ':' in host else host}{f':{port}' if host and port else ''}"
    query = f"?{urlencode(options)}" if options else ""
    return f"postgresql://{credentials}{server}/{quote(database, safe='')}{query}"
