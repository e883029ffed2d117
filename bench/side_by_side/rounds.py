"""The order of measurements: every row on every broker, in turns and rounds; repeated when other load disturbed it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bench.side_by_side import crew
from bench.side_by_side.contestants import Contestant
from bench.side_by_side.crew import Measured
from bench.side_by_side.figures import Sample, Samples, percentile
from bench.side_by_side.job import Job
from bench.side_by_side.workloads import READERS, WRITERS, Workload

_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 2.0


class Plan(NamedTuple):
    """The number of rounds, their scale, and the tolerated load of the machine."""

    rounds: int = 5
    warm_ups: int = 3
    scale: float = 1.0
    warm_up_scale: float = 0.5
    noise: float = 0.2
    """The share of the machine that others may use before a measurement is repeated."""
    retries: int = 2

    @property
    def numbers(self) -> range:
        """Rounds that warm up come before 1."""
        return range(1 - self.warm_ups, self.rounds + 1)


def turns(
    rows: Sequence[Workload], brokers: Sequence[Contestant], plan: Plan
) -> list[tuple[int, Workload, Contestant]]:
    """The order of a run. Rows whose topics stay come last; rounds begin with alternating brokers."""
    order = []
    for lasting in (False, True):
        for number in plan.numbers:
            turn = brokers if number % 2 else brokers[::-1]
            order += [(number, row, broker) for row in rows if row.lasting is lasting for broker in turn]
    return order


def run(
    order: Sequence[tuple[int, Workload, Contestant]], plan: Plan, tell: Callable[[Sample], None]
) -> Samples:
    """Runs all rounds; calls `tell` with each sample."""
    samples = Samples()
    before: Workload | None = None
    for number, row, broker in order:
        scaled = row.scaled(plan.scale * (plan.warm_up_scale if number < 1 else 1.0))
        if row.fill is not None:  # what is filled once is of one size
            scaled = replace(scaled, fill=row.scaled(plan.scale).fill)
        if row.is_large and row is not before:
            attempt(scaled, broker, 0, plan)  # the first of the two would pay for the memory that both use
        before = row
        sample = attempt(scaled, broker, number, plan)
        samples.all.append(sample)
        tell(sample)
    return samples


def attempt(row: Workload, broker: Contestant, number: int, plan: Plan) -> Sample:
    """Repeats a measurement while others use the machine; returns the least disturbed one."""
    best: Sample | None = None
    for left in range(plan.retries if number > 0 else 0, -1, -1):
        try:
            sample = Sample(row.name, broker.name, number, one(row, broker))
        except Exception:
            return best or Sample(row.name, broker.name, number, error=traceback.format_exc())
        if best is None or sample.figures["others"] < best.figures["others"]:
            best = sample
        if best.figures["others"] <= plan.noise or not left:
            break
        time.sleep(_PAUSE_S)
    assert best is not None
    return best


def one(row: Workload, broker: Contestant) -> dict[str, float]:
    """One measurement on its own topics or on those filled for it."""
    jobs, own = list(row.team), None
    if row.fill is not None:
        source = broker.filled(row.fill)
        firsts, ends = broker.offsets(source, row.fill.partitions)
        jobs = [
            replace(job, topic=source, firsts=firsts, ends=ends) if job.kind in READERS else job
            for job in jobs
        ]
    if row.own_partitions is not None:
        own = own_topic(row, broker)
        _, before = broker.offsets(own, row.own_partitions)
        jobs = [job if job.kind in READERS else replace(job, topic=own, ends=before) for job in jobs]
    jobs = [replace(job, bootstrap=broker.broker.bootstrap) for job in jobs]
    try:
        measured = crew.measure(jobs, broker.pid, _PATIENCE_S)
        figures = figures_of(jobs, measured)
        if own is not None and row.own_partitions is not None:
            _, after = broker.offsets(own, row.own_partitions)
            figures["missing"] += lost(jobs, measured, sum(after) - sum(before))
    finally:
        if own is not None and not row.lasting:
            broker.delete(own)
    return figures


def own_topic(row: Workload, broker: Contestant) -> str:
    """A new topic, or the one that the row keeps."""
    assert row.own_partitions is not None
    if row.lasting:
        return broker.lasting(row.name, row.own_partitions, row.topic_settings)
    topic = f"{row.name}-{time.time_ns()}"
    broker.create(topic, row.own_partitions, row.topic_settings)
    return topic


def lost(jobs: Sequence[Job], measured: Measured, stored: int) -> int:
    """The number of acknowledged messages that are missing."""
    pairs = zip(jobs, measured.outcomes, strict=True)
    acknowledged = sum(outcome.done + outcome.beside for job, outcome in pairs if job.kind in WRITERS)
    return max(acknowledged - stored, 0)


def figures_of(jobs: Sequence[Job], measured: Measured) -> dict[str, float]:
    """The results of the row's first kind of worker, and their cost."""
    outcomes = measured.outcomes
    counted = [outcome for job, outcome in zip(jobs, outcomes, strict=True) if job.kind == jobs[0].kind]
    done = sum(outcome.done for outcome in counted)
    size = sum(outcome.bytes for outcome in counted)
    seconds = max(outcome.seconds for outcome in counted)
    if not done or not seconds:
        raise crew.WorkerError("nothing was done")
    figures = {
        "rate": done / seconds,
        "mb_s": size / seconds / 1e6,
        "cpu_us": measured.broker_cpu_s / done * 1e6,
        "cpu_s_gb": measured.broker_cpu_s / size * 1e9,
        "client_us": measured.client_cpu_s / done * 1e6,
        "peak_mib": measured.peak_mib,
        "others": measured.others,
        "missing": float(sum(outcome.missing for outcome in outcomes)),
    }
    ages = [age for outcome in outcomes for age in outcome.latencies_ms]
    if ages:
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)):
            figures[name] = percentile(ages, share)
    return figures
