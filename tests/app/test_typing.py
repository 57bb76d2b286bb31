"""A type checker judges an enqueue by the handler's own signature."""

import subprocess
import sys
from pathlib import Path

import pytest

APP = """
from datetime import timedelta

from pydantic import BaseModel

from leasehold import Enqueued, Job, Leasehold

app = Leasehold()
single = Leasehold(tenant="default")


class Order(BaseModel):
    number: int


@app.job(timeout="10m", max_attempts=5)
async def sync_folder(job: Job, provider_id: str, path: str = "/") -> int:
    return 1


@app.job
def resize(job: Job, width: int) -> str:
    return ""


@app.job
def ship(job: Job, order: Order) -> None: ...


class Greet:
    @classmethod
    def payload_model(cls) -> type[Order]:
        return Order

    def handle(self, payload: Order) -> None: ...


greet = app.add("greet", Greet)
acme = app.tenant("acme")
"""

GOOD = """
number: Enqueued[int] = acme.enqueue(sync_folder, provider_id="p_9")
number = acme.enqueue(sync_folder, "p_9", path="/x")
text: Enqueued[str] = acme.options(delay="5m", priority=10).enqueue(resize, 5)
letters: str = text.result(timeout=5)
nothing: Enqueued[None] = acme.enqueue(ship, Order(number=1))
single.enqueue(resize, width=3)
acme.enqueue(greet, Order(number=1))
acme.enqueue_many([resize.bind(width=width) for width in (1, 2)])
acme.enqueue_key("resize", {"width": 3})
acme.options(delay=timedelta(minutes=5))
acme.options(delay=300)


async def producer() -> None:
    awaited: Enqueued[int] = await acme.aenqueue(sync_folder, provider_id="p_9")
    size: int = await awaited.aresult(timeout="5m")
    async with app.open(worker=True) as opened:
        await opened.tenant("acme").aenqueue(resize, 5)
"""

WRONG = [
    "acme.enqueue(sync_folder)",
    "acme.enqueue(sync_folder, provider_id=5)",
    'acme.enqueue(sync_folder, provider_id="x", pth="/")',
    'acme.enqueue(resize, "wide")',
    "acme.enqueue(resize, 1, 2)",
    "acme.enqueue(ship, 5)",
    "short: int = acme.enqueue(resize, 5).result()",
    "acme.enqueue(greet, 5)",
    'acme.enqueue("resize", width=5)',
    "resize.bind()",
    'acme.options(dely="5m")',
    "acme.options(delay=[5])",
    "app.job(retries=5)",
    "wrong: Enqueued[str] = acme.enqueue(sync_folder, provider_id='x')",
    "@app.job\ndef without_a_job(width: int) -> None: ...",
]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the messages of mypy about a program with all mistakes, by line."""
    file: Path = tmp_path_factory.mktemp("typed") / "program.py"
    lines = (APP + GOOD).splitlines()
    begins: dict[int, str] = {}
    for wrong in WRONG:
        begins |= {len(lines) + 1 + offset: wrong for offset in range(wrong.count("\n") + 1)}
        lines += wrong.splitlines()
    file.write_text("\n".join(lines) + "\n")
    said = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)],
        capture_output=True,
        text=True,
        cwd=file.parent,
        timeout=110,
        check=False,
    ).stdout
    errors = [line.split(":", 3) for line in said.splitlines() if ": error:" in line]
    return {begins.get(int(number), f"line {number}"): text for _, number, _, text in errors}


def test_every_good_call_is_fine(judged: dict[str, str]) -> None:
    assert {line: text for line, text in judged.items() if line not in WRONG} == {}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_is_an_error(wrong: str, judged: dict[str, str]) -> None:
    assert wrong in judged


def test_the_error_names_what_is_wrong(judged: dict[str, str]) -> None:
    assert 'Missing positional argument "provider_id"' in judged["acme.enqueue(sync_folder)"]
    assert 'did you mean "path"?' in judged['acme.enqueue(sync_folder, provider_id="x", pth="/")']
