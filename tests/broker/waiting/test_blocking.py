"""Blocking work runs in threads, and its result is reported on the loop."""

from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from barnabas.broker.waiting.blocking import InlineRunner, ThreadRunner

LIMIT_S = 60.0


async def outcome(
    runner: ThreadRunner, error: BaseException | None = None
) -> tuple[str, BaseException | None, bool]:
    """The thread that worked, the argument of `done`, and whether that was called on the loop."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[BaseException | None, bool]] = loop.create_future()
    worked = []

    def work() -> None:
        worked.append(threading.current_thread().name)
        if error is not None:
            raise error

    def done(told: BaseException | None) -> None:
        ended.set_result((told, threading.current_thread() is threading.main_thread()))

    runner.submit(work, done)
    told, on_loop = await asyncio.wait_for(ended, LIMIT_S)
    return worked[0], told, on_loop


async def test_work_runs_in_a_thread_and_its_end_is_reported_on_the_loop() -> None:
    runner = ThreadRunner(asyncio.get_running_loop(), 1)
    thread, told, on_loop = await outcome(runner)
    assert thread.startswith("barnabas-blocking")
    assert (told, on_loop) == (None, True)
    runner.close()


@pytest.mark.parametrize("error", [OSError("no space left"), ZeroDivisionError()])
async def test_any_error_in_a_thread_is_reported(error: Exception) -> None:
    runner = ThreadRunner(asyncio.get_running_loop(), 1)
    _, told, on_loop = await outcome(runner, error)
    assert told is error
    assert on_loop
    runner.close()


async def test_the_loop_continues_while_a_thread_waits() -> None:
    loop = asyncio.get_running_loop()
    runner = ThreadRunner(loop, 1)
    gate, ended = threading.Event(), loop.create_future()
    runner.submit(lambda: assert_true(gate.wait(LIMIT_S)), ended.set_result)
    await asyncio.sleep(0)
    assert not ended.done()
    gate.set()
    assert await asyncio.wait_for(ended, LIMIT_S) is None
    runner.close()


async def test_there_are_as_many_threads_as_needed_up_to_the_limit() -> None:
    loop = asyncio.get_running_loop()
    runner = ThreadRunner(loop, 2)
    gate = threading.Event()
    names: list[str] = []

    async def work(count: int) -> set[str]:
        """Runs `count` jobs at the same time; returns the names of their threads."""
        names.clear()
        ended: list[asyncio.Future[None]] = [loop.create_future() for _ in range(count)]

        def one() -> None:
            names.append(threading.current_thread().name)
            assert gate.wait(LIMIT_S)

        for future in ended:
            runner.submit(one, lambda error, future=future: future.set_result(error))  # type: ignore[misc]
        gate.set()
        assert await asyncio.wait_for(asyncio.gather(*ended), LIMIT_S) == [None] * count
        gate.clear()
        return set(names)

    def started() -> int:
        """The threads started since; older ones may end meanwhile."""
        return len(set(threading.enumerate()) - before)

    before = set(threading.enumerate())
    assert len(await work(1)) == 1
    assert len(await work(1)) == 1
    assert started() == 1
    assert len(await work(5)) <= 2
    assert started() == 2
    runner.close()
    assert started() == 0


async def test_results_of_a_thread_are_released() -> None:
    class Big:
        def __call__(self) -> None: ...

    runner = ThreadRunner(asyncio.get_running_loop(), 1)
    work, ended = Big(), asyncio.get_running_loop().create_future()
    gone = weakref.ref(work)
    runner.submit(work, ended.set_result)
    del work
    await asyncio.wait_for(ended, LIMIT_S)
    runner.close()  # the thread waits for more work by then
    assert gone() is None


async def test_close_waits_for_submitted_work_and_later_work_runs_inline() -> None:
    runner = ThreadRunner(asyncio.get_running_loop(), 1)
    worked: list[int] = []
    told: list[BaseException | None] = []
    for number in range(3):
        runner.submit(lambda number=number: worked.append(number), told.append)  # type: ignore[misc]
    runner.close()
    assert worked == [0, 1, 2]
    runner.submit(lambda: worked.append(3), told.append)
    assert worked == [0, 1, 2, 3]
    await asyncio.sleep(0)
    assert told == [None, None, None, None]


def test_an_inline_runner_works_at_once() -> None:
    told: list[BaseException | None] = []
    worked: list[str] = []
    InlineRunner().submit(lambda: worked.append("done"), told.append)
    assert (worked, told) == (["done"], [None])


def test_an_inline_runner_reports_disk_errors_and_raises_bugs() -> None:
    told: list[BaseException | None] = []
    error = OSError("no space left")

    def refuse(reason: Exception) -> None:
        raise reason

    InlineRunner().submit(lambda: refuse(error), told.append)
    assert told == [error]
    with pytest.raises(ZeroDivisionError):
        InlineRunner().submit(lambda: refuse(ZeroDivisionError()), told.append)
    assert told == [error]


def assert_true(value: bool) -> None:
    assert value
