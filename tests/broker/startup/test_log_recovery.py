"""Loading on threads: every task comes back once, the longest begin first, and it is said how far it is."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from barnabas.broker.startup.log_recovery import LoadProgress, LogLoading, run_all_in_threads
from barnabas.storage.manager.loading import LoadTask, PartitionDirName


class Directory:
    """What a task says of its log directory."""

    def __init__(self, path: str, *, clean: bool = False) -> None:
        self.path = path
        self.had_clean_shutdown = clean


def task(directory: Directory, number: int, size: int = 0, work: Any = lambda one: None) -> LoadTask:
    made = LoadTask(directory, f"{directory.path}/t-{number}", PartitionDirName("t", number, ""), work)  # type: ignore[arg-type]
    made.bytes_to_read = size
    return made


def clock(*times: float) -> Any:
    """The times one after the other, then the last for ever."""
    left = list(times)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_every_task_comes_back_once() -> None:
    tasks = [task(Directory(path), number, number) for path in ("/a", "/b") for number in range(50)]
    assert sorted(map(repr, LogLoading(4)(tasks))) == sorted(map(repr, tasks))
    assert list(LogLoading(4)([])) == []


def test_the_longest_begin_first() -> None:
    order: list[int] = []
    directory = Directory("/a")
    tasks = [
        task(directory, size, size, lambda one: order.append(one.bytes_to_read)) for size in (3, 9, 1, 7)
    ]
    list(LogLoading(1)(tasks))
    assert order == [9, 7, 3, 1]


def test_directories_are_worked_on_at_once_with_so_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two directories, two threads for each: four tasks are under way before any of them ends."""
    monkeypatch.setattr("barnabas.broker.startup.log_recovery._processors", lambda: 4)
    together = threading.Barrier(4, timeout=60)
    tasks = [
        task(Directory(path), number, 1, lambda one: together.wait())
        for path in ("/a", "/b")
        for number in range(2)
    ]
    assert len(list(LogLoading(2)(tasks))) == 4
    assert not together.broken


@pytest.mark.parametrize(
    ("processors", "configured", "directories", "expected"),
    [(8, 2, 1, 2), (2, 8, 1, 2), (8, 8, 4, 2), (1, 8, 4, 1), (64, 100, 1, 10)],
)
def test_no_more_threads_than_there_is_to_do(
    monkeypatch: pytest.MonkeyPatch, processors: int, configured: int, directories: int, expected: int
) -> None:
    monkeypatch.setattr("barnabas.broker.startup.log_recovery._processors", lambda: processors)
    started: list[threading.Thread] = []
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread,
        "start",
        lambda thread: (started.append(thread), start(thread))[1],  # type: ignore[func-returns-value]
    )
    tasks = [task(Directory(f"/{place}"), number, 1) for place in range(directories) for number in range(10)]
    list(LogLoading(configured)(tasks))
    assert len(started) == expected * directories


def test_a_failure_that_is_no_errand_of_the_disk_ends_it() -> None:
    def broken(_: LoadTask) -> None:
        raise RuntimeError("a bug")

    tasks = [task(Directory("/a"), 0, 1, broken), task(Directory("/b"), 1)]
    with pytest.raises(RuntimeError, match="a bug"):
        list(LogLoading(1)(tasks))


def test_who_stops_listening_stops_the_threads() -> None:
    ran: list[str] = []
    tasks = [task(Directory("/a"), number, 1, lambda one: ran.append(one.path)) for number in range(1000)]
    loading = iter(LogLoading(1)(tasks))
    next(loading)
    loading.close()  # type: ignore[attr-defined]
    assert len(ran) <= 1000
    assert threading.active_count() < 50


def test_progress_in_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.startup")
    tasks = [task(Directory("/a"), number, 1 << 30) for number in range(4)]
    progress = LoadProgress(tasks, clock(0.0, 0.5, 2.0, 2.0, 8.0))
    assert progress.seconds_to_next_line() == 1.5
    tasks[0].read(1 << 30)
    tasks[1].read(1 << 29)
    progress.log(1)
    assert progress.seconds_to_next_line() == 2.0
    progress.finish()
    assert caplog.messages == [
        "recovering logs after an unclean stop: 1 of 4 logs, 1536 of 4096 MiB (38 %), 768 MiB/s, about 3 s left",
        "recovered 4 logs, reading 4096.0 MiB, in 8.000 s: the broker was not shut down in order",
    ]


def test_progress_of_opening(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.startup")
    tasks = [task(Directory("/a", clean=True), number) for number in range(3)]
    progress = LoadProgress(tasks, clock(0.0, 4.0))
    progress.log(2)
    progress.finish()
    LoadProgress([], clock(0.0)).finish()
    assert caplog.messages == ["opening logs: 2 of 3 after 4 s", "opened 3 logs in 4.000 s"]


def test_a_line_comes_though_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas.startup")
    monkeypatch.setattr("barnabas.broker.startup.log_recovery.PROGRESS_INTERVAL_S", 0.0)
    said = threading.Event()
    monkeypatch.setattr(LoadProgress, "log", lambda self, count: said.set())
    one = task(Directory("/a"), 0, 1, lambda _: said.wait(30))
    list(LogLoading(1)([one]))
    assert said.is_set()


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_all_work_is_done(threads: int) -> None:
    done: list[int] = []
    run_all_in_threads([lambda number=number: done.append(number) for number in range(20)], threads)  # type: ignore[misc]
    assert sorted(done) == list(range(20))
    run_all_in_threads([], threads)
