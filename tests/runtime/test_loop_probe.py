"""A probe of an event loop, from other threads."""

import asyncio

from leasehold.runtime.loop_probe import LoopProbe

PATIENCE = 5.0


async def test_a_probe_before_the_loop_begins_is_forgotten() -> None:
    probe = LoopProbe()
    assert probe.lag(PATIENCE) == 0.0
    probe.loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(probe.lag, PATIENCE) < PATIENCE
