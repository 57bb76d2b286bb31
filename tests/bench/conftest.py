"""Costs are counted on the worker tests' shop."""

from tests.worker.conftest import shop

__all__ = ["shop"]
