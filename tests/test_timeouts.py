"""Timeouts of coroutines that mostly need not wait."""

import asyncio

import pytest

from ragmon.timeouts import within

LONG_S = 600.0  # no test waits for it


async def _at_once():
    return "done"


def test_what_need_not_wait_has_no_timer():
    async def run():
        loop = asyncio.get_running_loop()
        loop.call_at = None  # whoever asks for a timer fails
        return await within(LONG_S, _at_once())

    assert asyncio.run(run()) == "done"


def test_what_waits_goes_on_where_it_was():
    async def run():
        event = asyncio.Event()

        async def work():
            for _ in range(3):
                await asyncio.sleep(0)
            await event.wait()
            return "done"

        task = asyncio.create_task(within(LONG_S, work()))
        await asyncio.sleep(0)
        event.set()
        return await task

    assert asyncio.run(run()) == "done"


def test_what_takes_too_long_is_cancelled_and_cleans_up():
    ends = []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    with pytest.raises(TimeoutError):
        asyncio.run(within(0.0, work()))
    assert ends == ["cancelled"]


@pytest.mark.parametrize("waits", [True, False])
def test_errors_come_through(waits):
    async def work():
        if waits:
            await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(within(LONG_S, work()))


def test_a_cancelled_task_cancels_the_work():
    ends = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    async def run():
        task = asyncio.create_task(within(LONG_S, work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert ends == ["ended"]
