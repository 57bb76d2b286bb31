"""Loads the app that `file.py`, `package.module` or either with `:name` names."""

import importlib
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from leasehold.app.client import Leasehold
from leasehold.errors import CannotLoad, InvalidInput


def load_app(target: str) -> Leasehold:
    """Returns the Leasehold object of a file or module; by name if it has several."""
    place, _, name = target.partition(":")
    found = {key: value for key, value in vars(_load(place)).items() if isinstance(value, Leasehold)}
    if name not in found and (name or len(found) != 1):
        raise InvalidInput(
            f"{place} holds {_list(found)}{f', and none is called {name}' if name else ''}. Nothing was started.",
            fix=f"Write {place}:name for one of them." if found else "Write app = Leasehold() in it.",
        )
    app = found[name] if name else next(iter(found.values()))
    where = str(Path(place).resolve()) if place.endswith(".py") else place
    app.process_target = f"{where}:{name}" if name else where
    return app


def end_of_import(place: str, code: object) -> CannotLoad:
    return CannotLoad(
        f"{place} ended its process with {code!r} when it was imported. Nothing was started.",
        fix="Put code that shall only run in a script below: if __name__ == '__main__'.",
    )


def _list(found: Mapping[str, Leasehold]) -> str:
    if not found:
        return "no Leasehold app"
    return f"several apps: {', '.join(found)}" if len(found) > 1 else f"the app {next(iter(found))}"


def _load(place: str) -> ModuleType:
    """Imports a module; the current folder counts, as it does for `python -m`."""
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        return _load_file(Path(place)) if place.endswith(".py") else import_module(place)
    except InvalidInput:
        raise
    except SystemExit as error:
        raise end_of_import(place, error.code or 0) from error
    except Exception as error:
        raise CannotLoad(
            f"{place} can't be imported ({type(error).__name__}: {error}{_where(error)}). Nothing was started.",
            fix="Mend it, or check the name and the folder you are in. Other workers may still run its jobs.",
        ) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    folder, name = _name_in_package(path.resolve())
    sys.path.insert(0, str(folder))
    return _load_from_package(path, name) if name else _load_alone(path)


def _name_in_package(path: Path) -> tuple[Path, str]:
    """Returns the folder to import from and the name there, as in `shop.app`; an empty name outside of packages."""
    names = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names) if folder != path.parent else ""


def _load_from_package(path: Path, name: str) -> ModuleType:
    """Imports a file by its package: loaded again under another name, it would be an app without its jobs."""
    module = import_module(name)
    if module.__file__ is None or not path.samefile(module.__file__):
        raise ImportError(f"{name} is another module already, {module.__file__}: rename its package")
    return module


def _load_alone(path: Path) -> ModuleType:
    """Imports a file under its own name, unless that is taken: a queue.py must not replace the module `queue`."""
    name = path.stem
    while name in sys.modules:
        name = f"_{name}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _where(error: Exception) -> str:
    """Returns the line of the app that raised it, not one of the import machinery or of ours."""
    if isinstance(error, SyntaxError):
        return ""
    machinery = ("<frozen", importlib.__file__, __file__)
    theirs = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(machinery)]
    return f", {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
