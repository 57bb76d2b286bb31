"""Fixtures for operations: a store with the definitions report, email and order."""

from tests.cli.conftest import bench

__all__ = ["bench"]
