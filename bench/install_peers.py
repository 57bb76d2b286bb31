"""Installs the peers that don't come with the `bench` extra, as far as this machine can: see `make bench`.

Two are written for Node, one needs Python 3.12. A peer that can't be installed is reported and left out.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 180


def main() -> None:
    report("graphile-worker and pg-boss", install_for_node())
    report("oban", install_oban())


def install_for_node() -> str | None:
    """None, or why not."""
    if not shutil.which("npm"):
        return "npm is not installed"
    return failed(["npm", "install", "--prefix", str(HERE / "node"), "--no-audit", "--no-fund", "--no-package-lock"])


def install_oban() -> str | None:
    folder = HERE / ".oban"
    if (folder / "bin" / "python").exists():
        return None
    interpreter = next(newer_pythons(), None)
    if interpreter is None:
        return "it needs Python 3.12, and there is none"
    return failed([interpreter, "-m", "venv", str(folder)]) or failed(
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "oban==0.7.0"]
    )


def newer_pythons() -> Iterator[str]:
    """Python 3.12 and newer: in PATH, or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    in_path = [shutil.which(name) for name in ("python3.12", "python3.13", "python3.14")]
    of_pyenv = [str(path) for path in sorted(pyenv.glob("3.1[2-9]*/bin/python"))]
    for path in (*in_path, *of_pyenv):
        if path and failed([path, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]) is None:
            yield path


def failed(command: Sequence[str]) -> str | None:
    """None if it succeeds, else the last line that it says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"it ended with {done.returncode}"


def report(what: str, why_not: str | None) -> None:
    sys.stderr.write(f"{what}: {f'left out, {why_not}' if why_not else 'installed'}\n")


if __name__ == "__main__":
    main()
