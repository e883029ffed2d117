"""The metrics of the coordinators: groups, offsets, transactions, and the runtime of both.

Source: GroupCoordinatorMetrics, CoordinatorRuntimeMetricsImpl, TransactionStateManager, AddPartitionsToTxnManager.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.coordinator.shard_runner import ShardState
from barnabas.broker.metrics.families import (
    GROUP_COORDINATOR_PREFIX,
    GROUP_MANAGER_PREFIX,
    MARKER_CHANNEL_PREFIX,
    TRANSACTION_COORDINATOR_PREFIX,
    VERIFICATION_PREFIX,
)
from barnabas.broker.metrics.prometheus import Metrics, Sample, quantiles
from barnabas.broker.probes import RecentTimes

if TYPE_CHECKING:
    from barnabas.broker.coordinator.assembly import Coordinators
    from barnabas.broker.coordinator.runtime import CoordinatorRuntime
    from barnabas.broker.coordinator.transaction.verification import VerificationProbe

_CLASSIC_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
_SUFFIXES: Final = {"0.50": "p50", "0.95": "p95", "0.99": "p99", "0.999": "p999"}


def add_coordinators(metrics: Metrics, coordinators: Coordinators) -> None:
    """Adds all metrics of the coordinators but lag."""
    _add_groups(metrics, coordinators)
    _add_offsets(metrics, coordinators)
    _add_runtime(metrics, GROUP_COORDINATOR_PREFIX, coordinators.group_runtime)
    _add_runtime(metrics, TRANSACTION_COORDINATOR_PREFIX, coordinators.transaction_runtime)
    _add_transactions(metrics, coordinators)
    _add_verification(metrics, coordinators.verifications)


# ---- groups


def _add_groups(metrics: Metrics, coordinators: Coordinators) -> None:
    """The groups are counted once for each scrape, with the first of these metrics."""
    counts: Counter[tuple[str, str]] = Counter()

    def count() -> int:
        counts.clear()
        for shard in coordinators.group_runtime.shards():
            counts.update((group.type.value, group.state_name) for group in shard.groups)
        return of_type("classic")

    def of_type(kind: str) -> int:
        return sum(number for (other, _), number in counts.items() if other == kind)

    metrics.add_value(f"{GROUP_MANAGER_PREFIX}_numgroups", count)
    for state in _CLASSIC_STATES:
        metrics.add_value(
            f"{GROUP_MANAGER_PREFIX}_numgroups{state.lower()}",
            partial(counts.__getitem__, ("classic", state)),
        )
    metrics.add(
        f"{GROUP_COORDINATOR_PREFIX}_group_count",
        lambda: [((kind,), of_type(kind)) for kind in ("classic", "consumer", "share", "streams")],
    )
    metrics.add(
        f"{GROUP_COORDINATOR_PREFIX}_consumer_group_count",
        lambda: [((state,), counts["consumer", state]) for state in _CONSUMER_STATES],
    )


def _add_offsets(metrics: Metrics, coordinators: Coordinators) -> None:
    runtime = coordinators.group_runtime
    metrics.add_value(
        f"{GROUP_MANAGER_PREFIX}_numoffsets",
        lambda: sum(shard.offsets.committed.count for shard in runtime.shards()),
    )
    for metric, read in {
        "offset_commit_count": lambda shard: shard.offsets.committed_count,
        "offset_deletion_count": lambda shard: shard.offsets.deleted_count,
        "offset_expiration_count": lambda shard: shard.offsets.expired_count,
        "group_completed_rebalance_count": lambda shard: shard.syncing.completed_rebalances,
        "consumer_group_rebalance_count": lambda shard: shard.consumers.rebalances,
    }.items():
        metrics.add_value(f"{GROUP_COORDINATOR_PREFIX}_{metric}", _GrowingSum(runtime, read))


class _GrowingSum:
    """The sum over all shards of a count that each starts at 0; it keeps the counts of unloaded shards."""

    def __init__(self, runtime: CoordinatorRuntime[Any], read: Callable[[Any], int]) -> None:
        self._runtime = runtime
        self._read = read
        self._gone = 0
        runtime.probe.shard_gone.append(self._keep)

    def _keep(self, shard: Any) -> None:
        self._gone += self._read(shard)

    def __call__(self) -> float:
        return self._gone + sum(map(self._read, self._runtime.shards()))


# ---- the runtime


def _add_runtime(metrics: Metrics, prefix: str, runtime: CoordinatorRuntime[Any]) -> None:
    probe = runtime.probe
    metrics.add_value(f"{prefix}_partition_load_time_max", lambda: _max(probe.load_times_ms()))
    metrics.add_value(f"{prefix}_partition_load_time_avg", lambda: _mean(probe.load_times_ms()))

    def partitions() -> Iterable[Sample]:
        states = Counter(runtime.states())
        shown = (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED)
        return [((state.value.lower(),), states[state]) for state in shown]

    metrics.add(f"{prefix}_num_partitions", partitions)
    for metric, times in {
        "event_processing_time_ms": probe.processing,
        "event_purgatory_time_ms": probe.purgatory,
        "batch_linger_time_ms": probe.linger,
        "batch_flush_time_ms": probe.flush,
    }.items():
        for suffix in ("max", *_SUFFIXES.values()):
            metrics.add_value(f"{prefix}_{metric}_{suffix}", _quantile(times, suffix))


def _quantile(times: RecentTimes, suffix: str) -> Callable[[], float]:
    def read() -> float:
        values = times.values()
        if suffix == "max":
            return _max(values)
        found = {_SUFFIXES.get(quantile): value for quantile, value in quantiles(values)}
        return found.get(suffix, math.nan)

    return read


def _max(values: list[float] | array[float]) -> float:
    return max(values, default=math.nan)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


# ---- transactions


def _add_transactions(metrics: Metrics, coordinators: Coordinators) -> None:
    runtime = coordinators.transaction_runtime
    metrics.add_value(
        f"{TRANSACTION_COORDINATOR_PREFIX}_transactional_id_count",
        lambda: sum(len(shard.transactions) for shard in runtime.shards()),
    )

    metrics.add_value(
        f"{MARKER_CHANNEL_PREFIX}_unknowndestinationqueuesize",
        lambda: coordinators.unknown_destinations,
    )
    metrics.add_value(
        f"{MARKER_CHANNEL_PREFIX}_logappendretryqueuesize",
        lambda: sum(shard.uncompleted for shard in runtime.shards()),
    )

    def by_state() -> Iterable[Sample]:
        counts: Counter[str] = Counter(
            metadata.state.label
            for shard in runtime.shards()
            for metadata in list(shard.transactions.values())
        )
        return [((state,), count) for state, count in sorted(counts.items())]

    metrics.add("barnabas_transactions", by_state)


def _add_verification(metrics: Metrics, probe: VerificationProbe) -> None:
    metrics.add(
        f"{VERIFICATION_PREFIX}_verificationtimems",
        lambda: [((), probe.times.count, probe.times.values())],
    )
    metrics.add_value(f"{VERIFICATION_PREFIX}_verificationfailurerate_count", lambda: probe.failures)
