"""The process of a worker: reads its job, reports that it is ready, waits for the signal, and prints its outcome."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping

from bench.side_by_side.job import Job, Outcome
from bench.side_by_side.workers import consuming, java, latency, logins, producing, raw

Worker = Generator[None, None, Outcome]

WORKERS: Mapping[str, Callable[[Job], Worker]] = {
    "produce": producing.produce,
    "one-each": producing.one_each,
    "consume": consuming.consume,
    "send-paced": latency.send,
    "receive-paced": latency.receive,
    "connections": raw.produce,
    "metadata": raw.metadata,
    "log-in": logins.log_in,
    "stay": logins.stay,
    "java-produce": java.produce,
    "java-consume": java.consume,
}


def main() -> None:
    """One job."""
    job = Job.parse(sys.stdin.readline())
    try:
        outcome = _run(WORKERS[job.kind](job))
    except Exception:
        outcome = Outcome(error=traceback.format_exc())
    sys.stdout.write(outcome.line())
    sys.stdout.flush()


def _run(worker: Worker) -> Outcome:
    next(worker)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    used = _cpu_s()
    try:
        next(worker)
    except StopIteration as end:
        outcome: Outcome = end.value
        outcome.cpu_s = _cpu_s() - used
        return outcome
    raise AssertionError("a worker yields once")


def _cpu_s() -> float:
    """Of this process and of those that it waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


if __name__ == "__main__":
    main()
