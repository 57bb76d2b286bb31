"""The engines that neutral tests run on.

A test that asks for `engine_name`, mostly by `database_url`, runs once for each engine, and its id names the engine.
A test that needs an ability which not every engine has names it by `@pytest.mark.abilities("exact_caps")`, and runs
on the engines that have it.
"""

from collections.abc import Mapping

import pytest

from leasehold.engines import engine_for
from leasehold.store import Abilities

URLS = {"postgres": "postgresql://", "dynamodb": "dynamodb://any?region=us-east-1"}
SERVERS = {"postgres": "database_server", "dynamodb": "table_server"}
"""The fixtures that have the databases of each engine."""
HISTORIES = {"postgres": 40, "dynamodb": 8}
"""How many histories of the state machine fit into the time of one test: a request to the emulator takes longer."""
EXPLAINED = {"postgres": 90, "dynamodb": 20}
"""How many random histories of a job are explained, beside each hindrance by itself."""


def choose_engines(metafunc: pytest.Metafunc, more: Mapping[str, str] | None = None) -> None:
    """Runs a test on each engine that has the abilities which the test names, also on those of `more` URLs."""
    if "engine_name" not in metafunc.fixturenames:
        return
    needed = [name for mark in metafunc.definition.iter_markers("abilities") for name in mark.args]
    able = [name for name, url in (URLS | dict(more or {})).items() if has_all(engine_for(url).abilities, needed)]
    assert able, f"{metafunc.definition.nodeid}: no engine has {needed}"
    metafunc.parametrize("engine_name", able, scope="session")


def has_all(abilities: Abilities, needed: list[str]) -> bool:
    return all(getattr(abilities, name) for name in needed)
