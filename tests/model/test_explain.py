"""The reasons why a job does not run: each check as it shows a problem, and as it shows none."""

from datetime import timedelta
from typing import Any

import pytest
from tests.model.fact_samples import (
    ID,
    MINUTE,
    NOON,
    check_of,
    sample_facts,
    sample_job,
    sample_lane,
    sample_scope,
    sample_worker,
    states_of,
)

from leasehold.model.explain import explain, waiting_reasons
from leasehold.model.explanation import CheckState
from leasehold.model.facts import COUNTED_AHEAD, JobFacts, LastWorker, LimitHolder, LockHolder
from leasehold.model.job import JobId
from leasehold.model.status import Status

OK, BLOCKING, SLOW, UNKNOWN = CheckState
NOW = NOON + MINUTE
OTHER_ID = JobId("01890a5d-ac96-774b-bcce-b302099aaaaa")
HOLDER = LimitHolder(OTHER_ID, NOON)


def with_job(**changes: Any) -> JobFacts:
    return sample_facts(job=sample_job(**changes))


def with_scope(kind: str, **changes: Any) -> JobFacts:
    return sample_facts(lane=sample_lane(scopes=(sample_scope(kind, **changes),)))


def test_checks_of_a_free_job_are_ok_and_in_claim_order() -> None:
    explanation = explain(sample_facts(), timedelta())
    assert [check.name for check in explanation.checks] == [
        *("state", "due", "definition", "definition_pause", "tenant_pause", "worker", "slots", "position", "lock"),
        *("wake", "clock"),
    ]
    assert {check.state for check in explanation.checks} == {OK}
    assert (explanation.blocking, explanation.slow, explanation.starts_at) == ([], [], NOW)
    assert explanation.summary == "nothing holds it: it starts as soon as a worker looks"


# ------------------------------------------------------------------------------------------------- state and lease


@pytest.mark.parametrize("status", [Status.FAILED, Status.DEAD_LETTER, Status.CANCELED])
def test_an_ended_job_says_so_and_can_be_retried(status: Status) -> None:
    facts = with_job(status=status, finished_at=NOON, attempt=2)
    assert states_of(facts) == {"state": BLOCKING}
    check = check_of("state", facts)
    shown = status.value.replace("_", " ")
    assert check.text == f"it has ended 1m ago: {shown}, after 2 of 5 tries"
    assert check.fix == f"leasehold retry {ID}"


def test_a_succeeded_job_needs_nothing() -> None:
    assert check_of("state", with_job(status=Status.SUCCEEDED, finished_at=NOON, attempt=1)).fix is None


def test_an_ended_job_whose_key_is_held_names_the_holder() -> None:
    job = sample_job(status=Status.DEAD_LETTER, finished_at=NOON, attempt=5)
    facts = sample_facts(job=job, key_holder=OTHER_ID)
    assert states_of(facts) == {"state": BLOCKING, "dedupe_key": BLOCKING}
    check = check_of("dedupe_key", facts)
    assert check.text == f"a retry would be refused: job {OTHER_ID} holds its dedupe key"
    assert (check.evidence, check.fix) == ({"holder": OTHER_ID}, f"leasehold job {OTHER_ID}")


def test_a_blocked_job_waits_for_other_jobs() -> None:
    assert check_of("state", with_job(status=Status.BLOCKED)).text == "it waits for other jobs"


def test_a_running_job_says_for_how_long() -> None:
    facts = with_job(status=Status.RUNNING, started_at=NOON, attempt=1, lease_expires_at=NOW + MINUTE)
    assert states_of(facts) == {"state": BLOCKING, "lease": OK}
    assert check_of("state", facts).text == "it runs for 1m, as try 1 of 5"


def test_a_lost_lease_is_slow_while_a_worker_lives() -> None:
    facts = with_job(status=Status.RUNNING, started_at=NOON, lease_expires_at=NOON)
    assert check_of("lease", facts).state is SLOW
    assert check_of("lease", facts).text.startswith("its worker's lease ended 1m ago: a live worker ends")


def test_a_lost_lease_blocks_if_no_worker_lives() -> None:
    job = sample_job(status=Status.RUNNING, started_at=NOON, lease_expires_at=None)
    check = check_of("lease", sample_facts(job=job, workers=()))
    assert (check.state, check.text) == (BLOCKING, "its worker is gone, and no live worker could end this try")


# ------------------------------------------------------------------------------------------------------------- due


def test_a_scheduled_job_tells_when_it_is_due() -> None:
    facts = with_job(due=False, scheduled_for=NOW + MINUTE)
    check = check_of("due", facts)
    assert (check.state, check.text, check.fix) == (BLOCKING, "it is due in 1m", f"leasehold run-now {ID}")
    assert explain(facts).starts_at == NOW + MINUTE


def test_a_retrying_job_tells_which_try_comes_next() -> None:
    facts = with_job(due=False, scheduled_for=NOW + MINUTE, attempt=2, last_error_code="Unlucky")
    assert check_of("due", facts).text == "it is due in 1m, for try 3 of 5"
    assert check_of("due", facts).evidence["error_code"] == "Unlucky"


def test_a_job_that_is_not_due_has_no_position_yet() -> None:
    assert not {"slots", "position", "wake"} & states_of(with_job(due=False)).keys()


def test_a_due_job_tells_since_when() -> None:
    assert check_of("due", sample_facts()).text == "it is due for 1m"


# ------------------------------------------------------------------------------------------------------------ lane


def test_an_unknown_definition_blocks() -> None:
    check = check_of("definition", sample_facts(lane=sample_lane(known=False, active=False)))
    assert (check.state, check.text) == (BLOCKING, "its definition does not exist")


def test_an_inactive_definition_blocks() -> None:
    check = check_of("definition", sample_facts(lane=sample_lane(active=False)))
    assert (check.state, check.fix) == (BLOCKING, "leasehold definitions activate sync")


@pytest.mark.parametrize(("kind", "key"), [("tenant", "acme"), ("definition", "sync")])
def test_a_pause_blocks_until_its_end(kind: str, key: str) -> None:
    facts = with_scope(kind, paused_because="unpaid", paused_since=NOON, paused_until=NOW + MINUTE)
    check = check_of(f"{kind}_pause", facts)
    assert check.state is BLOCKING
    assert check.text == f"its {kind} is paused until 2030-01-01 12:02:00 UTC: unpaid"
    assert check.details == ("paused since 2030-01-01 12:00:00 UTC",)
    assert check.fix == f"leasehold resume {kind} {key}"
    assert explain(facts).starts_at == NOW + MINUTE


def test_a_pause_without_an_end_has_no_start() -> None:
    assert explain(with_scope("tenant", paused_because="unpaid")).starts_at is None


def test_the_start_is_that_of_the_last_reason() -> None:
    facts = with_scope("tenant", paused_because="unpaid", paused_until=NOW + 2 * MINUTE)
    later = sample_facts(lane=facts.lane, job=sample_job(due=False, scheduled_for=NOW + 3 * MINUTE))
    assert explain(later).starts_at == NOW + 3 * MINUTE


@pytest.mark.parametrize(("kind", "key"), [("tenant", "acme"), ("definition", "sync")])
def test_a_reached_limit_blocks_and_names_its_holder(kind: str, key: str) -> None:
    check = check_of(f"{kind}_limit", with_scope(kind, max_running=2, running=2, oldest=HOLDER))
    assert (check.state, check.text) == (BLOCKING, f"its {kind} runs 2 jobs, which is its limit")
    assert check.details == (f"the oldest of them, {HOLDER.job}, has run for 1m",)
    assert check.fix == f"leasehold limit {kind} {key} --max-running 3, or wait until one ends"


def test_a_holder_of_another_tenant_is_not_named() -> None:
    facts = with_scope("definition", max_running=1, running=1, oldest=LimitHolder(None, NOON))
    assert check_of("definition_limit", facts).details == (
        "the oldest of them, a job of another tenant, has run for 1m",
    )


def test_a_limit_with_room_is_ok() -> None:
    check = check_of("tenant_limit", with_scope("tenant", max_running=2, running=1, oldest=HOLDER))
    assert (check.state, check.text, check.details) == (OK, "its tenant runs 1 of 2 jobs", ())


def test_a_scope_without_a_limit_has_no_check_of_it() -> None:
    assert not {"tenant_limit", "definition_limit"} & states_of(sample_facts()).keys()


# --------------------------------------------------------------------------------------------------------- workers


def test_a_job_that_no_worker_serves_lists_the_workers() -> None:
    other = sample_worker(serves_definition=False, definitions=("email", "report"))
    lost = sample_worker(alive=False, host="host-2", lease_expires_at=NOON)
    check = check_of("worker", sample_facts(lane=sample_lane(workers=0), workers=(lost, other)))
    assert (check.state, check.text) == (BLOCKING, "no live worker serves it")
    assert check.details == (
        "worker host-2:7 serves it, but its lease ended 1m ago",
        "worker host-1:7 serves email, report",
    )
    assert [each["worker"] for each in check.evidence["at_hand"]] == ["host-2:7", "host-1:7"]


def test_a_job_without_any_worker_says_so() -> None:
    check = check_of("worker", sample_facts(lane=sample_lane(workers=0), workers=()))
    assert check.details == ("no worker is alive",)


def test_a_job_without_a_worker_names_the_last_one() -> None:
    last = LastWorker(sample_worker().id, "host-3:9", NOON)
    check = check_of("worker", sample_facts(lane=sample_lane(workers=0), workers=(), last_worker=last))
    told = "the last to end a job of its definition was worker host-3:9, 1m ago"
    assert check.details == ("no worker is alive", told)
    assert check.evidence["last_worker"] == {"worker": "host-3:9", "id": last.id, "at": NOON}


def test_a_job_served_for_other_tenants_names_none_of_them() -> None:
    elsewhere = sample_worker(serves_tenant=False)
    check = check_of("worker", sample_facts(lane=sample_lane(workers=0, elsewhere=1), workers=(elsewhere,)))
    assert check.text == "no live worker serves it for this tenant"
    assert check.details == ("worker host-1:7 serves it for other tenants",)
    assert check.fix == "leasehold worker TARGET --tenants acme"


def test_a_served_job_counts_its_workers() -> None:
    assert check_of("worker", sample_facts()).text == "1 live worker serves it"
    assert check_of("worker", sample_facts(lane=sample_lane(workers=3))).text == "3 live workers serve it"


def test_only_the_first_of_many_workers_are_shown() -> None:
    many = tuple(sample_worker(alive=False, pid=pid) for pid in range(8))
    details = check_of("worker", sample_facts(lane=sample_lane(workers=0), workers=many)).details
    assert (len(details), details[-1]) == (7, "and 3 more")


def test_busy_slots_make_it_slow() -> None:
    check = check_of("slots", sample_facts(workers=(sample_worker(running=6), sample_worker(running=4))))
    assert (check.state, check.text) == (SLOW, "all 8 slots of these workers are busy")
    assert explain(sample_facts(workers=(sample_worker(running=4),))).starts_at is None


def test_free_slots_are_counted() -> None:
    check = check_of("slots", sample_facts(workers=(sample_worker(), sample_worker(running=9))))
    assert (check.state, check.text) == (OK, "3 of 8 slots of these workers are free")


def test_a_worker_that_does_not_serve_it_has_no_slots_for_it() -> None:
    workers = (sample_worker(running=4), sample_worker(serves_tenant=False, running=0))
    assert check_of("slots", sample_facts(workers=workers)).state is SLOW


def test_jobs_ahead_of_it_make_it_slow() -> None:
    check = check_of("position", sample_facts(ahead=3))
    assert (check.state, check.text) == (SLOW, "3 jobs of its tenant are ahead of it; tenants take turns")
    assert check_of("position", sample_facts(ahead=COUNTED_AHEAD)).text.startswith("at least 100 jobs")


def test_the_next_job_of_a_tenant_is_ok() -> None:
    assert check_of("position", sample_facts()).text == "it is its tenant's next job"


# ---------------------------------------------------------------------------------------------------- lock and wake


def test_a_locked_job_blocks_and_names_the_session() -> None:
    holder = LockHolder("process 9471", "psql", "idle in transaction", NOON)
    check = check_of("lock", sample_facts(locked_by=holder))
    assert check.state is BLOCKING
    assert check.text == (
        "a transaction holds it for 1m (process 9471, psql, idle in transaction), and claims pass over it"
    )


def test_a_lock_whose_holder_can_not_be_seen_is_named_as_far_as_it_is() -> None:
    check = check_of("lock", sample_facts(locked_by=LockHolder("a prepared transaction")))
    assert check.text == "a transaction holds it (a prepared transaction), and claims pass over it"


def test_a_job_that_no_transaction_holds_is_ok() -> None:
    assert check_of("lock", sample_facts()).state is OK


def test_workers_that_do_not_listen_make_it_slow() -> None:
    check = check_of("wake", sample_facts(workers=(sample_worker(listens=False),)))
    assert (check.state, check.evidence) == (SLOW, {"listening": 0, "workers": 1})


def test_one_worker_that_listens_is_enough() -> None:
    workers = (sample_worker(listens=False), sample_worker())
    assert check_of("wake", sample_facts(workers=workers)).text == "1 of 2 workers listen for wakes"


def test_an_engine_that_can_not_tell_has_no_check_of_wakes() -> None:
    workers = (sample_worker(listens=None, running=None),)
    assert not {"wake", "slots"} & states_of(sample_facts(workers=workers)).keys()


# ------------------------------------------------------------------------------------------------ once it is claimed


def test_a_version_that_is_gone_is_told() -> None:
    assert check_of("version", sample_facts(version_known=False)).state is SLOW
    assert "version" not in states_of(sample_facts())


def test_a_deadline_before_the_start_is_told() -> None:
    assert check_of("deadline", with_job(deadline=NOON)).state is SLOW
    late = with_job(deadline=NOW + MINUTE, due=False, scheduled_for=NOW + 2 * MINUTE)
    assert check_of("deadline", late).state is SLOW
    assert "deadline" not in states_of(with_job(deadline=NOW + MINUTE))


def test_secrets_without_a_key_are_told() -> None:
    sealed = {"password": {"$secret": "v1.x.y"}}
    assert check_of("secrets", with_job(payload=sealed)).state is UNKNOWN
    assert check_of("secrets", with_job(payload=sealed, last_error_code="secret_unreadable")).state is SLOW
    assert "secrets" not in states_of(sample_facts())


def test_clocks_that_differ_are_told_and_delay_nothing() -> None:
    check = check_of("clock", sample_facts(), timedelta(seconds=3))
    assert check.state is SLOW
    assert check.text == "the clock here is 3.0 s ahead of the database's, which decides when a job is due"
    assert explain(sample_facts(), timedelta(seconds=-3)).starts_at == NOW
    assert explain(sample_facts(), timedelta(seconds=-3)).summary.startswith("nothing holds it")


def test_clocks_that_agree_are_ok() -> None:
    assert check_of("clock", sample_facts(), timedelta(seconds=1)).state is OK
    assert "clock" not in states_of(sample_facts(), skew=None)


# ------------------------------------------------------------------------------------------------------- in a list


def test_a_list_shows_the_same_reasons() -> None:
    paused = sample_scope("tenant", paused_because="unpaid")
    lane = sample_lane(active=False, workers=0, scopes=(sample_scope("definition", max_running=1, running=1), paused))
    explanation = explain(sample_facts(lane=lane))
    assert waiting_reasons(lane) == [check.text for check in explanation.blocking]
    assert len(explanation.blocking) == 4
