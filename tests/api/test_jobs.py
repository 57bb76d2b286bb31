"""Jobs over HTTP."""

from uuid import uuid4

import pytest
from tests.api.conftest import Client

from leasehold.model.access import Role


async def test_a_job_is_enqueued_with_the_payload_of_the_contract(client: Client) -> None:
    sent = {
        "definition_key": "report",
        "payload": {"name": "june"},
        "priority": 7,
        "scheduled_for": "2036-02-16T10:30:00Z",
        "dedupe_key": "daily",
    }
    answer = await client.send("POST", "/jobs", sent)
    assert answer.status_code == 201
    job = answer.json()
    assert {name: job[name] for name in ("tenant_id", "status", "definition_key", "priority")} == {
        "tenant_id": "acme",
        "status": "queued",
        "definition_key": "report",
        "priority": 7,
    }
    assert job["queued_at"]
    assert job["scheduled_for"] == "2036-02-16T10:30:00Z"
    again = await client.send("POST", "/jobs", sent)
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, job["id"], False)


async def test_a_job_has_the_request_and_the_principal(client: Client) -> None:
    answer = await client.send(
        "POST", "/jobs", {"definition_key": "report", "payload": {"name": "x"}}, headers={"X-Request-Id": "req-42"}
    )
    assert answer.headers["x-request-id"] == "req-42"
    assert (answer.json()["source_ref"], answer.json()["created_by"]) == ("req-42", "tenant_admin of acme")


async def test_an_odd_request_id_is_replaced(client: Client) -> None:
    answer = await client.send("GET", "/jobs", headers={"X-Request-Id": "x" * 101})
    assert len(answer.headers["x-request-id"]) == 36


@pytest.mark.both_engines
async def test_jobs_are_listed_by_the_filters_of_the_contract(client: Client) -> None:
    first, second = await client.enqueue(), await client.enqueue(correlation_id="c1")
    await client.send("POST", f"/jobs/{first}/cancel")

    async def ids(query: str) -> list[str]:
        answer = await client.send("GET", f"/jobs?{query}")
        assert answer.status_code == 200, answer.text
        return [job["id"] for job in answer.json()["jobs"]]

    assert await ids("") == [second, first]
    assert await ids("status=queued") == [second]
    assert await ids("status=canceled&status=running") == [first]
    assert await ids("source=manual&definition=report&correlation_id=c1") == [second]
    assert await ids("source=schedule") == []
    assert await ids("created_after=2036-01-01T00:00:00Z") == []
    assert await ids("created_before=2036-01-01T00:00:00Z") == [second, first]
    assert await ids("limit=1&offset=1") == [first]


async def test_pages_of_jobs_follow_each_other(client: Client) -> None:
    jobs = [await client.enqueue() for _ in range(3)]
    page = (await client.send("GET", "/jobs?limit=2")).json()
    rest = (
        await client.http.get(
            "/api/v1/jobs",
            params={"limit": 2, "cursor": page["next"]},
            headers={"Authorization": f"Bearer {await client.token()}"},
        )
    ).json()
    assert [job["id"] for job in (*page["jobs"], *rest["jobs"])] == jobs[::-1]
    assert rest["next"] is None


@pytest.mark.both_engines
async def test_a_super_admin_lists_the_jobs_of_all_tenants(client: Client) -> None:
    job = await client.enqueue()
    listed = (await client.send("GET", "/jobs", role=Role.SUPER_ADMIN)).json()["jobs"]
    assert [each["id"] for each in listed] == [job]
    shown = await client.send("GET", f"/jobs/{job}?tenant=acme", role=Role.SUPER_ADMIN)
    assert shown.json()["id"] == job
    unnamed = await client.send("GET", f"/jobs/{job}", role=Role.SUPER_ADMIN)
    assert (unnamed.status_code, unnamed.json()["code"]) == (422, "LH-1004")


@pytest.mark.both_engines
async def test_a_summary_counts_jobs_and_tells_the_oldest(client: Client) -> None:
    await client.enqueue()
    found = (await client.send("GET", "/jobs/summary")).json()
    assert (found["counts"]["queued"], found["running"], found["cap"]) == (1, 0, 10_000)
    assert found["oldest_queued_seconds"] >= 0


@pytest.mark.both_engines
async def test_an_ended_job_is_retried_and_a_waiting_one_is_not(client: Client) -> None:
    job = await client.enqueue()
    refused = await client.send("POST", f"/jobs/{job}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "LH-1009")
    assert (await client.send("POST", f"/jobs/{job}/cancel")).json()["answer"] == "canceled"
    assert (await client.send("POST", f"/jobs/{job}/retry")).json()["status"] == "queued"


@pytest.mark.both_engines
async def test_a_waiting_job_is_rescheduled_and_run_now(client: Client) -> None:
    job = await client.enqueue()
    moved = await client.send("POST", f"/jobs/{job}/reschedule", {"delay_seconds": 3600, "priority": 3})
    assert (moved.json()["state"], moved.json()["priority"]) == ("scheduled", 3)
    assert (await client.send("POST", f"/jobs/{job}/run-now")).json()["state"] == "ready"


@pytest.mark.both_engines
async def test_a_run_job_shows_attempts_lines_and_result(client: Client) -> None:
    job = await client.enqueue()
    await client.app.atick()
    assert (await client.send("GET", f"/jobs/{job}")).json()["result"] == "JUNE"
    (attempt,) = (await client.send("GET", f"/jobs/{job}/attempts")).json()["attempts"]
    assert (attempt["number"], attempt["status"]) == (1, "succeeded")
    page = (await client.send("GET", f"/jobs/{job}/logs")).json()
    assert ([line["text"] for line in page["lines"]], page["ended"]) == (["about june"], True)
    assert (await client.send("GET", f"/jobs/{job}/logs?after={page['next']}")).json()["lines"] == []


@pytest.mark.both_engines
async def test_log_lines_are_streamed_until_the_job_ends(client: Client) -> None:
    job = await client.enqueue()
    await client.app.atick()
    answer = await client.send("GET", f"/jobs/{job}/logs/stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events == ["event: line", "event: end"]
    assert "id: 1-1" in answer.text


@pytest.mark.both_engines
async def test_a_job_explains_why_it_waits(client: Client) -> None:
    job = await client.enqueue()
    explained = (await client.send("GET", f"/jobs/{job}/explain")).json()
    assert (explained["id"], explained["state"]) == (job, "ready")
    assert "worker" in explained["blocking"]


async def test_a_repeated_key_makes_one_job(client: Client) -> None:
    sent, key = (
        {"definition_key": "report", "payload": {"name": "june"}},
        {"Idempotency-Key": "order 7".replace(" ", "-")},
    )
    first = await client.send("POST", "/jobs", sent, headers=key)
    again = await client.send("POST", "/jobs", sent, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = await client.send("POST", "/jobs", {**sent, "payload": {"name": "july"}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "LH-1013")


async def test_a_key_that_is_a_uuid_is_the_id_of_the_job(client: Client) -> None:
    key = str(uuid4())
    sent = {"definition_key": "report", "payload": {"name": "june"}}
    answer = await client.send("POST", "/jobs", sent, headers={"Idempotency-Key": key})
    assert answer.json()["id"] == key


async def test_a_payload_that_does_not_fit_is_refused(client: Client) -> None:
    answer = await client.send("POST", "/jobs", {"definition_key": "report", "payload": {"nam": "x"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "LH-1001")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.both_engines
async def test_a_tick_runs_due_jobs_where_handlers_are(client: Client) -> None:
    job = await client.enqueue()
    headers = {"Authorization": f"Bearer {await client.token(Role.SUPER_ADMIN)}"}
    answer = await client.http.post("/api/jobs/tick", headers=headers)
    assert (answer.json()["ok"], answer.json()["succeeded"]) == (True, 1)
    assert (await client.send("GET", f"/jobs/{job}")).json()["status"] == "succeeded"
    assert (await client.http.post("/api/jobs/tick")).status_code == 401
