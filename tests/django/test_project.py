"""`leasehold.django` in a real project: transactions, workers, tests, settings."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.conftest import eventually
from tests.django.conftest import SHOP, Shop
from tests.docs.test_docs import IN_A_PROJECT, commands
from tests.worker.shop import Process

ORDER = """
from django.db import connection, transaction
from shop.jobs import send_receipt
from shop.models import Order
from leasehold.django import app
"""


async def asked(shop: Shop, question: str) -> object:
    connection = await asyncpg.connect(shop.url)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def joined(shop: Shop, worker: Process) -> None:
    """Only then it listens to signals."""

    async def seated() -> bool:
        return await asked(shop, "select count(*) from leasehold.workers") == 1

    await eventually(seated, what=f"a worker ({worker.said})")


@pytest.fixture
async def worker(shop: Shop, tmp_path: Path) -> AsyncIterator[Process]:
    process = Process(
        [sys.executable, "manage.py", "leasehold", "worker"], shop.environment, tmp_path / "worker.log", folder=SHOP
    )
    yield process
    await process.clear_up()


async def test_inside_atomic_a_job_is_committed_with_the_models(shop: Shop) -> None:
    shop.python(
        ORDER
        + """
with transaction.atomic():
    order = Order.objects.create(shop="acme", item="lamp")
    app.tenant("acme").enqueue(send_receipt, order=order.pk)
"""
    )
    assert await asked(shop, "select count(*) from leasehold.jobs where tenant_id = 'acme'") == 1


async def test_rolled_back_it_never_was(shop: Shop) -> None:
    shop.python(
        ORDER
        + """
with transaction.atomic():
    app.tenant("acme").enqueue(send_receipt, order=1)
    transaction.set_rollback(True)
with transaction.atomic():
    with transaction.atomic():
        app.tenant("acme").enqueue(send_receipt, order=2)
        transaction.set_rollback(True)
    app.tenant("acme").enqueue(send_receipt, order=3)
"""
    )
    assert await asked(shop, "select jsonb_agg(payload->'order') from leasehold.jobs") == "[3]"


async def test_outside_atomic_it_is_committed_at_once_and_without_a_warning(shop: Shop) -> None:
    said = shop.must(
        "shell", "--verbosity", "0", "--command", ORDER + 'app.tenant("acme").enqueue(send_receipt, order=1)'
    )
    assert "LH-1020" not in said
    assert await asked(shop, "select count(*) from leasehold.jobs") == 1


async def test_an_async_view_enqueues_as_the_async_orm_writes(shop: Shop) -> None:
    shop.python(
        ORDER
        + """
import asyncio
async def view():
    order = await Order.objects.acreate(shop="acme", item="lamp")
    await app.tenant("acme").aenqueue(send_receipt, order=order.pk)
asyncio.run(view())
"""
    )
    assert await asked(shop, "select count(*) from leasehold.jobs") == 1


MANY_OF_WHICH_ONE_FAILS = (
    ORDER
    + """
import asyncio
def orders():
    yield from (send_receipt.bind(order=number) for number in range(5))
    raise LookupError
"""
)


async def test_many_are_all_there_or_none_outside_atomic_as_well(shop: Shop) -> None:
    said = shop.python(
        MANY_OF_WHICH_ONE_FAILS
        + """
handle = app.tenant("acme")
try: handle.enqueue_many(orders(), chunk=2)
except LookupError: print("refused")
try: asyncio.run(handle.aenqueue_many(orders(), chunk=2))
except LookupError: print("refused")
with transaction.atomic():
    handle.enqueue(send_receipt, order=7)
    try: handle.enqueue_many(orders(), chunk=2)
    except LookupError: print("refused")
"""
    )
    assert said.split() == ["refused"] * 3
    assert await asked(shop, "select jsonb_agg(payload->'order') from leasehold.jobs") == "[7]"


async def test_many_that_need_not_be_all_there_are_so_chunk_by_chunk(shop: Shop) -> None:
    said = shop.python(
        MANY_OF_WHICH_ONE_FAILS
        + """
from leasehold import PartlyEnqueued
try: app.tenant("acme").enqueue_many(orders(), chunk=2, atomic=False)
except PartlyEnqueued as partly: print(len(partly.placed))
"""
    )
    assert said.strip() == "4"
    assert await asked(shop, "select count(*) from leasehold.jobs") == 4


async def test_a_tenant_may_enqueue_within_an_async_connection(shop: Shop) -> None:
    shop.python(
        ORDER
        + f"""
import asyncio, psycopg
async def enqueue():
    async with await psycopg.AsyncConnection.connect({shop.url!r}) as own:
        await app.tenant("acme").within(own).aenqueue(send_receipt, order=1)
asyncio.run(enqueue())
"""
    )
    assert await asked(shop, "select count(*) from leasehold.jobs") == 1


async def test_manage_py_runs_a_worker_which_drains_when_it_is_told_to_stop(shop: Shop, worker: Process) -> None:
    await joined(shop, worker)
    order = shop.python(
        ORDER
        + """
with transaction.atomic():
    order = Order.objects.create(shop="acme", item="lamp")
    app.tenant("acme").enqueue(send_receipt, order=order.pk)
"""
    )
    assert order == ""

    async def sent() -> bool:
        return await asked(shop, "select receipt_sent from shop_order") is True

    await eventually(sent, what=f"the receipt ({worker.said})")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0


async def test_manage_py_runs_from_any_folder_with_djangos_options(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "settings_of_tests.py").write_text("from project.settings import *\n")
    anywhere = tmp_path / "anywhere"
    anywhere.mkdir()
    djangos = ["--settings=settings_of_tests", "--pythonpath", str(tmp_path), "--no-color", "--traceback", "-v", "2"]
    process = Process(
        [sys.executable, str(SHOP / "manage.py"), "leasehold", "worker", *djangos, "--slots", "3"],
        shop.environment,
        tmp_path / "worker.log",
        folder=anywhere,
    )
    try:
        await joined(shop, process)
        assert await asked(shop, "select slots from leasehold.workers") == 3
        process.send(signal.SIGTERM)
        assert await process.code() == 0
    finally:
        await process.clear_up()


def test_a_projects_own_tests_run_and_leave_no_database_behind(shop: Shop) -> None:
    assert "OK" in shop.must("test", "--noinput")
    assert "OK" in shop.must("test", "--noinput")


async def test_a_projects_own_tests_write_nothing_where_workers_connect(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "direct.py").write_text(f'from project.settings import *\nLEASEHOLD = {{"URL": "{shop.url}"}}\n')
    said = shop.must(
        "test",
        "--noinput",
        DJANGO_SETTINGS_MODULE="direct",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert "OK" in said
    assert await asked(shop, "select count(*) from leasehold.definitions") == 0


def test_one_tenant_needs_no_handle(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('from project.settings import *\nLEASEHOLD = {"TENANT": "default"}\n')
    code = ORDER + "print(app.enqueue(send_receipt, order=1).tenant)"
    said = shop.must(
        "shell",
        "--verbosity",
        "0",
        "--command",
        code,
        DJANGO_SETTINGS_MODULE="one",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert said.strip() == "default"


def test_a_setting_that_nobody_reads_is_refused_by_name(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('from project.settings import *\nLEASEHOLD = {"SCHMEA": "jobs"}\n')
    done = shop.manage(
        "leasehold",
        "jobs",
        DJANGO_SETTINGS_MODULE="wrong",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert done.returncode != 0
    assert "SCHMEA" in done.stderr


async def test_the_commands_of_the_page_work(empty: Shop, tmp_path: Path) -> None:
    for command in commands(IN_A_PROJECT):
        words = [sys.executable, *command.words[1:]]
        assert command.words[0] == "python", shlex.join(command.words)
        if "worker" in words:
            process = Process(words, empty.environment, tmp_path / "worker.log", folder=SHOP)
            await joined(empty, process)
            process.send(signal.SIGTERM)
            assert await process.code() == 0
        else:
            done = await asyncio.to_thread(
                subprocess.run, words, cwd=SHOP, env=empty.environment, capture_output=True, text=True, timeout=100
            )
            assert done.returncode == 0, done.stdout + done.stderr
