"""What blocks is done elsewhere, and whoever waits for it hears on the event loop how it ended."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.blocking import InlineRunner, ThreadRunner


def refuse() -> None:
    raise OSError("no")


async def test_a_thread_works_and_the_loop_hears_of_it() -> None:
    loop = asyncio.get_running_loop()
    runner = ThreadRunner(loop, threads=1)
    threads: list[threading.Thread] = []
    heard: asyncio.Future[tuple[BaseException | None, threading.Thread]] = loop.create_future()

    runner.submit(
        lambda: threads.append(threading.current_thread()),
        lambda error: heard.set_result((error, threading.current_thread())),
    )

    assert await heard == (None, threading.current_thread())
    assert threads != [threading.current_thread()]
    runner.close()


async def test_an_error_in_the_thread_is_handed_over() -> None:
    loop = asyncio.get_running_loop()
    runner = ThreadRunner(loop, threads=1)
    heard: asyncio.Future[BaseException | None] = loop.create_future()
    runner.submit(refuse, heard.set_result)
    assert isinstance(await heard, OSError)
    runner.close()


async def test_closing_waits_for_what_was_submitted() -> None:
    done: list[int] = []
    runner = ThreadRunner(asyncio.get_running_loop(), threads=1)
    for number in range(5):
        runner.submit(lambda number=number: done.append(number), lambda error: None)  # type: ignore[misc]
    runner.close()
    assert done == [0, 1, 2, 3, 4]


def test_inline_everything_happens_at_once() -> None:
    story: list[object] = []
    InlineRunner().submit(lambda: story.append("work"), story.append)
    InlineRunner().submit(refuse, lambda error: story.append(str(error)))
    assert story == ["work", None, "no"]


def test_inline_only_the_disk_may_fail() -> None:
    def bug() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        InlineRunner().submit(bug, lambda error: None)
