"""Finds out where another process can import an app from."""

import os
import sys
from types import ModuleType

from leasehold.errors import InvalidInput


def target_of(app: object) -> str:
    """Returns where another process finds the app: a module by name, else a test or the script by file."""
    for name, module in sorted(sys.modules.items(), key=lambda each: (each[0] == "__main__", _is_a_test(each[1]))):
        if isinstance(module, ModuleType):
            for attribute, value in list(vars(module).items()):
                if value is app and (place := _place(name, module)):
                    return f"{place}:{attribute}"
    raise InvalidInput(
        "no module holds the app, so a process of its own can't import it. Nothing was started.",
        fix='Make it a global of a module: app = Leasehold(); or set leasehold_app = "shop.app:app" for pytest.',
    )


def _place(name: str, module: ModuleType) -> str | None:
    """Returns a module's file if its name can't be imported, as test modules may be; None without a file."""
    is_importable = module.__spec__ is not None and name != "__main__" and not _is_a_test(module)
    return name if is_importable else getattr(module, "__file__", None)


def _is_a_test(module: ModuleType) -> bool:
    file = os.path.basename(getattr(module, "__file__", None) or "")
    return file == "conftest.py" or file.startswith("test_") or file.endswith("_test.py")
