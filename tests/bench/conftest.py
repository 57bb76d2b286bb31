"""Costs are counted on the worker tests' shop."""

from tests.worker.conftest import observer, shop

__all__ = ["observer", "shop"]
