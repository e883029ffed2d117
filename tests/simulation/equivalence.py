"""Replay equivalence: the state of a coordinator is that of a fresh replay of its log.

So a restarted broker has the written state of the one before. State that no record has is left out: timers, members of
a classic group that rebalances, and the like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final
from uuid import UUID

from barnabas.broker.coordinator.loading import ShardLoader
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.shard import CoordinatorShard, ShardContext
from barnabas.broker.coordinator.shard_runner import ShardRunner
from barnabas.broker.pending import Pending
from barnabas.protocol.schema import Message, Struct
from tests.broker.broker_fixture import InProcessBroker
from tests.simulation.checks import ViolationError
from tests.simulation.machine import Machine

SETTLED: Final = frozenset({"Stable", "Empty"})
"""States of a classic group whose record holds all of its durable state."""

_NOT_RECORDED: Final = frozenset({"last_producer_epoch", "table", "refresh_deadline_ms", "refresh_epoch"})
"""`table` is the size of the hash table that Kafka would have, which decides the order of its records."""


class NoTimers:
    """CoordinatorTimer that never expires."""

    def schedule(self, *_args: Any, **_kwargs: Any) -> None:
        """Does nothing."""

    def cancel(self, *_args: Any) -> None:
        """Does nothing."""

    def is_scheduled(self, *_args: Any) -> bool:
        return False


def check_replay(machine: Machine) -> int:
    """Compares every shard without pending writes; returns their number. Raises ViolationError."""
    broker = machine.running
    if broker is None:
        return 0
    with machine.spared():
        return _compare_all(broker)


def _compare_all(broker: InProcessBroker) -> int:
    compared = 0
    runtimes: Sequence[CoordinatorRuntime[Any]] = (
        broker.coordinators.group_runtime,
        broker.coordinators.transaction_runtime,
    )
    for runtime in runtimes:
        for runner in list(runtime._runners.values()):
            if runner.shard is not None and not runner._queue._pending and not runner._queue._written:
                _compare(runner)
                compared += 1
    return compared


def _compare(runner: ShardRunner[Any]) -> None:
    live, replayed = runner.shard, replay(runner)
    one, other = dict(_state(live)), dict(_state(replayed))
    unsettled = {key for key, value in one.items() if value is None}
    for key in sorted({*one, *other} - unsettled, key=repr):
        if one.get(key) != other.get(key):
            found = "\n".join(_differences("", one.get(key), other.get(key)))
            raise ViolationError(f"{runner.name}: the state of {key} is not what its log says:\n{found}")


def _differences(path: str, live: Any, replayed: Any) -> Iterator[str]:
    if isinstance(live, dict) and isinstance(replayed, dict):
        for key in sorted({*live, *replayed}):
            yield from _differences(f"{path}.{key}", live.get(key), replayed.get(key))
    elif live != replayed:
        yield f"  {path}: {live} in memory, {replayed} in the log"


def replay(runner: ShardRunner[Any]) -> CoordinatorShard:
    """A new shard that has replayed the log of another one."""
    dependencies = runner._dependencies
    context = ShardContext(
        partition=runner.partition,
        epoch=runner.epoch,
        config=dependencies.config,
        timer=NoTimers(),
        now_ms=dependencies.now_ms,
        image=dependencies.image,
        new_uuid=lambda: UUID(int=0),
    )
    shard: CoordinatorShard = dependencies.new_shard(context)
    loader = ShardLoader(runner.name, dependencies.serde, 1 << 20, lambda: True)
    loader.load(dependencies.logs.contents(runner.partition), shard)
    return shard


def _state(shard: Any) -> Iterator[tuple[Any, Any]]:
    """The state of a shard, by subject. None: it cannot be compared now."""
    if hasattr(shard, "transactions"):
        for transactional_id, metadata in shard.transactions.items():
            in_order = metadata._replace(partitions=tuple(sorted(metadata.partitions)))
            yield ("transaction", transactional_id), _plain(in_order)
        return
    for group_id, topics in shard.offsets.committed:
        for topic, partitions in topics.items():
            for index, committed in partitions.items():
                yield ("offset", group_id, topic, index), _plain(committed)
    yield "pending offsets", _plain(shard.offsets.pending)
    for group in shard.groups:
        yield ("group", group.group_id), _group(group)


def _group(group: Any) -> Any:
    if str(group.type) != "classic":
        return _plain(group)
    if group.state_name not in SETTLED or (group.pending_join and not group.members):
        return None
    members = {
        member.member_id: (member.group_instance_id, member.assignment, member.session_timeout_ms)
        for member in group.members.values()
    }
    return (
        group.state_name,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        members,
    )


def _plain(value: Any) -> Any:
    """Converts a value to nested lists and dictionaries that can be compared and printed."""
    if value is None or isinstance(value, str | bytes | int | float | Enum | UUID):
        return value
    if isinstance(value, Mapping):
        return {repr(key): _plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(repr(one) for one in value)
    if hasattr(value, "_fields"):
        return {name: _plain(getattr(value, name)) for name in value._fields if name not in _NOT_RECORDED}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Message | Struct):
        return repr(value)
    if isinstance(value, Pending) or callable(value):
        return None
    return {name: _plain(one) for name, one in _attributes(value) if name not in _NOT_RECORDED}


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in [*names, *getattr(value, "__dict__", ())]:
        if hasattr(value, name):
            yield name, getattr(value, name)
