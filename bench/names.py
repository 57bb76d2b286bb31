"""Names of a run: the command that made it, and the files that its results are kept in."""

from bench.server import EMBEDDED, SYSTEM


def file_for(where: str, major: int, *, whole: bool) -> str:
    """Names the results, so that those of one version or of a partial run never replace others."""
    return "RESULTS" + ("" if whole else "-quick") + ("" if where == EMBEDDED else f"-{major}")


def command_for(quick: bool, only: str, systems: str, rounds: int, where: str) -> str:
    """As one would type it. A URL, which may hold a password, is left out."""
    server = where if where in (EMBEDDED, SYSTEM) else "URL"
    given = {"--only": only, "--systems": systems, "--rounds": str(rounds or "")}
    options = [f"{name} {text}" for name, text in given.items() if text]
    if not options:
        named = [] if server == EMBEDDED else [f"SERVER={server}"]
        return " ".join(["make bench", *(["QUICK=1"] if quick else []), *named])
    options += [] if server == EMBEDDED else [f"--server {server}"]
    return " ".join(["python -m bench", *(["--quick"] if quick else []), *options])
