"""What `file.py`, `package.module` or either with `:name` stands for."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from leasehold.errors import InvalidInput
from leasehold.worker import Handlers


def load_handlers(target: str) -> Handlers:
    """The Handlers object that a file or module holds; by name, where it holds several."""
    place, _, name = target.partition(":")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else import_module(place)
    except (ImportError, FileNotFoundError) as error:
        raise InvalidInput(f"{place} can't be loaded: {error}.", fix="Nothing was started.") from error
    found = {key: value for key, value in vars(module).items() if isinstance(value, Handlers)}
    if name in found:
        return found[name]
    if name or len(found) != 1:
        raise InvalidInput(
            f"{target} names no Handlers; {place} holds {', '.join(found) or 'none'}.",
            fix=f"Nothing was started. Write {place}:name for one of them.",
        )
    return next(iter(found.values()))


def _load_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module
