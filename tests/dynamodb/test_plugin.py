"""The pytest plugin on DynamoDB: users' tests get a table each, a clock that moves, and a drain by a real worker."""

import pytest

TESTS = """
import pytest
from leasehold import Job, Leasehold, Steps

app = Leasehold()

@app.job(backoff=Steps(60))
async def report(job: Job, number: int) -> int:
    return 2 * number

@pytest.fixture
def leasehold_app():
    return app

@pytest.mark.parametrize("round", range(2))
def test_a_delayed_job_runs_when_the_clock_has_moved(leasehold, round):
    job = app.tenant("acme").options(delay="1h").enqueue(report, 21)
    assert leasehold.drain() == 0
    leasehold.clock.advance("1h")
    assert leasehold.drain() == 1
    assert job.result(timeout=5) == 42
"""


def test_users_tests_run_on_tables_of_their_own(
    pytester: pytest.Pytester, dynamodb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_TEST_URL", dynamodb_url)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-q", "-p", "no:schemathesis", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2)
