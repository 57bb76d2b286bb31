"""Workers over HTTP."""

from typing import Any

import httpx
import pytest
from tests.api.conftest import ACME, GLOBEX, Client

from leasehold.model.access import Role


async def work(client: Client, path: str, json: Any, **rights: Any) -> httpx.Response:
    return await client.send("POST", f"/worker/jobs/{path}", json, role=Role.WORKER, **{"tenant": ACME, **rights})


async def claim_one(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the claim, and the fields that name it in later requests."""
    answer = await work(client, "claim", {"definitions": ["report"]})
    assert answer.status_code == 200, answer.text
    (claim,) = answer.json()["claims"]
    return claim, {"worker_id": answer.json()["worker_id"], "fence": claim["fence"]}


@pytest.mark.both_engines
async def test_a_worker_claims_beats_and_completes(client: Client) -> None:
    job = await client.enqueue()
    claim, named = await claim_one(client)
    assert (claim["job_id"], claim["payload"], claim["attempt"]) == (job, {"name": "june"}, 1)
    beat = await work(client, f"{job}/heartbeat", {**named, "lines": [{"number": 1, "text": "half"}]})
    assert beat.json() == {"cancel_requested": False, "lease_seconds": 60}
    done = await work(client, f"{job}/complete", {**named, "result": {"pages": 9}})
    assert done.json() == {"job_id": job, "status": "succeeded"}
    shown = (await client.send("GET", f"/jobs/{job}")).json()
    assert (shown["status"], shown["result"]) == ("succeeded", {"pages": 9})
    assert (await client.send("GET", f"/jobs/{job}/logs")).json()["lines"][0]["text"] == "half"


async def test_a_repeated_complete_gets_the_same_answer(client: Client) -> None:
    job = await client.enqueue()
    _, named = await claim_one(client)
    answers = [await work(client, f"{job}/complete", named) for _ in range(2)]
    assert [each.json()["status"] for each in answers] == ["succeeded", "succeeded"]


@pytest.mark.both_engines
async def test_a_failed_job_is_queued_again_and_then_given_up(client: Client) -> None:
    job = await client.enqueue()
    _, named = await claim_one(client)
    again = await work(client, f"{job}/fail", {**named, "error": "503", "retry_in_seconds": 0})
    assert again.json()["status"] == "queued"
    second = await work(client, "claim", {"worker_id": named["worker_id"]})
    named["fence"] = second.json()["claims"][0]["fence"]
    assert (await work(client, f"{job}/fail", {**named, "error": "503"})).json()["status"] == "dead_letter"


async def test_a_cancel_reaches_a_worker_with_its_heartbeat(client: Client) -> None:
    job = await client.enqueue()
    _, named = await claim_one(client)
    assert (await client.send("POST", f"/jobs/{job}/cancel")).json()["answer"] == "requested"
    assert (await work(client, f"{job}/heartbeat", named)).json()["cancel_requested"] is True
    ended = await work(client, f"{job}/fail", {**named, "error": "stopped"})
    assert ended.json()["status"] == "canceled"


async def test_a_lost_claim_writes_nothing(client: Client) -> None:
    job = await client.enqueue()
    _, named = await claim_one(client)
    wrong = await work(client, f"{job}/complete", {**named, "fence": named["fence"].replace("1-", "2-", 1)})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "LH-4001")
    assert (await client.send("GET", f"/jobs/{job}")).json()["status"] == "running"


async def test_only_the_token_that_joined_may_use_a_worker(client: Client) -> None:
    job = await client.enqueue()
    _, named = await claim_one(client)
    other = await work(client, f"{job}/complete", named, tenant=None)
    assert (other.status_code, other.json()["code"]) == (409, "LH-4001")
    assert (await work(client, "claim", {"worker_id": named["worker_id"]}, tenant=None)).status_code == 409


async def test_a_worker_of_a_tenant_claims_only_its_jobs(client: Client) -> None:
    await client.enqueue(GLOBEX)
    answer = await work(client, "claim", {"definitions": ["report"], "limit": 10})
    assert answer.json()["claims"] == []


async def test_a_worker_token_is_bound_to_its_definitions(client: Client) -> None:
    text = await client.token(Role.WORKER, ACME, definitions=("report",))
    headers = {"Authorization": f"Bearer {text}"}
    beyond = await client.http.post("/api/v1/worker/jobs/claim", json={"definitions": ["email"]}, headers=headers)
    assert (beyond.status_code, beyond.json()["code"]) == (403, "LH-6002")
    own = await client.http.post("/api/v1/worker/jobs/claim", json={}, headers=headers)
    assert own.status_code == 200
