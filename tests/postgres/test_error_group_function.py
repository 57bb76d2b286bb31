"""The error group of Postgres is that of Python."""

import asyncpg

from leasehold.model.error_group import error_group

ERRORS = (
    None,
    "",
    "GET https://api.test/v2/p_9?x=1 timed out after 30 s",
    "no file /srv/data/a.csv at 2026-11-18T12:00:00Z, 12.5 % of 3,000",
    """can't read 'a' or "b c", isn't 'd""",
    "first\n \t second\r\nthird  ",
    "job 6f46a1d8-2b7e-7c4e-9a53-1d2f3e4c5b6a: 0xdeadbeef · ünï_9 – 日本9語 ** *.* *,*:*",
    "a" * 600 + "1",
    "x://y z+1.2-3://q //// ~/a b/ c:/d \\e\\1",
)


async def test_postgres_and_python_agree(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        for code in (None, "TimeoutError"):
            for error in ERRORS:
                found = await connection.fetchval("select leasehold.error_group('sync', $1, $2)", code, error)
                assert found.hex() == error_group("sync", code, error), error
    finally:
        await connection.close()
