"""Starts the guard as a process, by the path of this folder and without the package around it."""

import sys
from importlib import import_module
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])
import_module("guard.guard").main()
