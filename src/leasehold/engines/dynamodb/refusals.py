"""Errors for calls that this engine can't serve, each with an alternative."""

from leasehold.errors import InvalidInput


def no_caller_transaction() -> InvalidInput:
    return InvalidInput(
        "jobs in DynamoDB can't be enqueued or finished within a transaction of another database. "
        "Nothing was changed.",
        fix="Enqueue after your transaction has committed, with an id of your own, so that the call can be repeated.",
    )


def no_sql() -> InvalidInput:
    return InvalidInput(
        "a table in DynamoDB has no SQL: no migrations, grants or roles. Nothing was changed.",
        fix="Run: leasehold migrate. Rights are given by a policy: docs/how-to/dynamodb.md has one.",
    )


def no_schema(schema: str) -> InvalidInput:
    return InvalidInput(
        f"the schema {schema!r:.80} was asked for, and DynamoDB has no schemas: a table is all there is.",
        fix="Nothing was opened. Name another table in the URL, and leave --schema and LEASEHOLD_SCHEMA out.",
    )


def no_series() -> InvalidInput:
    return InvalidInput(
        "figures of minutes and hours are not kept in DynamoDB: its engine does not have the ability series. "
        "Nothing was read.",
        fix="See the jobs of now: leasehold counts, or GET /jobs/summary.",
    )
