"""Errors of every command: as messages, as JSON, and as exit codes."""

import pytest
from tests.cli.terminal import NOWHERE, CommandLine, run
from tests.store.bench import UNKNOWN_ID

from leasehold.errors import (
    CannotLoad,
    Conflict,
    DuplicateJob,
    EmbeddedError,
    InactiveDefinition,
    InvalidInput,
    LeaseholdError,
    NoTenant,
    PayloadInvalid,
    SchemaMismatch,
    TransactionConflict,
    UnknownDefinition,
    UnknownJob,
    UnknownTenant,
    Unreachable,
    WrongState,
)
from leasehold.operations.statuses import exit_code

COMMANDS = {
    "enqueue": ["enqueue", "report", "--tenant", "acme"],
    "jobs": ["jobs"],
    "job": ["job", UNKNOWN_ID],
    "logs": ["logs", UNKNOWN_ID],
    "retry": ["retry", UNKNOWN_ID],
    "cancel": ["cancel", UNKNOWN_ID],
    "run-now": ["run-now", UNKNOWN_ID],
    "workers": ["workers"],
    "definitions": ["definitions"],
    "definitions list": ["definitions", "list"],
    "definitions show": ["definitions", "show", "report"],
    "definitions activate": ["definitions", "activate", "report"],
    "definitions deactivate": ["definitions", "deactivate", "report"],
    "prune": ["prune"],
}


@pytest.mark.parametrize("words", [*COMMANDS.values(), ["doctor"], ["migrate"]], ids=" ".join)
def test_a_database_that_is_away_exits_with_7(words: list[str]) -> None:
    people, machines = run([*words, "--url", NOWHERE]), run([*words, "--url", NOWHERE, "--json"])
    assert (people.code, people.out) == (7, "")
    assert people.err.startswith("✕ LH-3001: ")
    assert (machines.code, machines.error["code"]) == (7, "LH-3001")


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
async def test_a_schema_that_is_missing_exits_with_6_and_says_what_to_do(
    leasehold: CommandLine, words: list[str]
) -> None:
    refused = await leasehold(*words, "--schema", "fresh", "--json")
    assert (refused.code, refused.error["code"]) == (6, "LH-2001")
    assert "leasehold migrate" in refused.error["fix"]


@pytest.mark.parametrize("command", ["jobs", "job", "logs", "retry", "cancel", "run-now"])
def test_an_empty_tenant_does_not_mean_all_of_them(command: str) -> None:
    refused = run([*COMMANDS[command], "--tenant", "", "--url", NOWHERE])
    assert refused.code == 2
    assert "'' is not a tenant id" in refused.err


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (LeaseholdError, 1),
        (TransactionConflict, 1),
        (InvalidInput, 2),
        (PayloadInvalid, 2),
        (NoTenant, 2),
        (CannotLoad, 2),
        (UnknownJob, 3),
        (UnknownDefinition, 3),
        (UnknownTenant, 3),
        (Conflict, 4),
        (WrongState, 4),
        (DuplicateJob, 4),
        (InactiveDefinition, 4),
        (SchemaMismatch, 6),
        (Unreachable, 7),
        (EmbeddedError, 7),
    ],
)
def test_each_kind_of_error_has_its_exit_code(kind: type[LeaseholdError], code: int) -> None:
    assert exit_code(kind("It happened.", fix="Mend it.")) == code
