"""What `file.py`, `package.module` or either with `:name` stands for."""

import importlib
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from leasehold.app import Leasehold
from leasehold.errors import CannotLoad, InvalidInput


def load_app(target: str) -> Leasehold:
    """The Leasehold object that a file or module holds; by name, where it holds several."""
    place, _, name = target.partition(":")
    found = {key: value for key, value in vars(_loaded(place)).items() if isinstance(value, Leasehold)}
    if name in found:
        return found[name]
    if name or len(found) != 1:
        raise InvalidInput(
            f"{place} holds {_listed(found)}{f', and none is called {name}' if name else ''}. Nothing was started.",
            fix=f"Write {place}:name for one of them." if found else "Write app = Leasehold() in it.",
        )
    return next(iter(found.values()))


def _listed(found: Mapping[str, Leasehold]) -> str:
    if not found:
        return "no Leasehold app"
    return f"several apps: {', '.join(found)}" if len(found) > 1 else f"the app {next(iter(found))}"


def _loaded(place: str) -> ModuleType:
    """The folder we are in counts, as it does for `python -m`."""
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        return _load_file(Path(place)) if place.endswith(".py") else import_module(place)
    except InvalidInput:
        raise
    except Exception as error:
        raise CannotLoad(
            f"{place} can't be imported ({type(error).__name__}: {error}{_where(error)}). Nothing was started.",
            fix="Mend it, or check the name and the folder you are in. Other workers may still run its jobs.",
        ) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _where(error: Exception) -> str:
    """The line of theirs that raised it, not one of the import machinery or of ours."""
    if isinstance(error, SyntaxError):
        return ""
    machinery = ("<frozen", importlib.__file__, __file__)
    theirs = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(machinery)]
    return f", {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
