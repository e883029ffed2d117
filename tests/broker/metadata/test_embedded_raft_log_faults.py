"""Every file operation of a metadata log fails, or is the last one: acknowledged records are there, others
are there wholly or not at all, and the directory can always be opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.storage.errors import StorageError
from tests.broker.metadata.raft_logs import Node, config, configs, load, new_env, open_raft_log
from tests.storage.fault_env import Fault, FaultPlan, PowerCut, from_nth, nth, power_cut
from tests.support.chance import seeds

FAULTS: dict[str, Callable[[int], FaultPlan]] = {
    "an error": nth,
    "an error halfway through a write": lambda n: nth(n, Fault(errno.EIO, half=True)),
    "no room for a write": lambda n: nth(n, Fault(errno.ENOSPC, half=True)),
    "a short write": lambda n: nth(n, Fault(None, half=True)),
    "errors from there on": from_nth,
    "a disk that stays full": lambda n: from_nth(n, Fault(errno.ENOSPC, half=True)),
    "the end": power_cut,
}
STRIDE = int(os.environ.get("BARNABAS_FAULT_STRIDE") or 23)  # 1: each operation in turn
SETTINGS = {
    "segment_bytes": 900,
    "max_batch_bytes": 800,
    "retention_bytes": 1500,
    "delete_delay_ms": 1000,
}


class Life:
    """A node that uses every function of its metadata log, with a record of what was acknowledged."""

    def __init__(self) -> None:
        self.env = new_env()
        self.sent: list[tuple[str, ...]] = []  # the names that one change sets
        self.acknowledged: list[tuple[str, ...]] = []
        self.node: Node | None = None

    def live(self) -> None:
        """Continues after each failed step, as a broker does, unless it cannot even start."""
        node = self.node = Node(self.env, **SETTINGS)
        for step in self.steps(node):
            with suppress(OSError, StorageError, MetadataLogError):
                step()
        node.log.raft.close()

    def steps(self, node: Node) -> Iterator[Callable[[], object]]:
        yield lambda: self.change(node, ["a", "b"])
        yield lambda: self.change(node, ["c", "d", "e"])
        yield node.snapshot
        for number in range(3):
            yield lambda number=number: self.change(node, [f"{number}a", f"{number}b"], [f"{number}c"])  # type: ignore[misc]
        yield node.snapshot
        yield lambda: self.change(node, [f"much {number}" for number in range(12)])  # into another segment
        yield node.snapshot
        yield lambda: self.change(node, ["f"])
        yield node.log.raft.snapshots.clean
        yield self.delete
        yield lambda: self.change(node, ["g", "h"])

    def change(self, node: Node, *names: list[str]) -> None:
        batches = [tuple(f"{len(self.sent)} {name}" for name in group) for group in names]
        self.sent += batches
        node.append(*[[config(name, "set") for name in batch] for batch in batches])
        self.acknowledged += batches

    def delete(self) -> None:
        assert self.node is not None
        self.env.time_ms += 5000
        self.node.log.raft.run_deletions()

    # -- checks --

    def check(self) -> None:
        self.env.inject(None)
        node = Node(self.env, **SETTINGS)
        found = configs(node.image)
        for batch in self.sent:
            there = [name in found for name in batch]
            assert all(there) or not any(there), f"{batch} is there in part"
            assert all(there) or batch not in self.acknowledged, f"{batch} is lost"
        assert len(found) <= sum(map(len, self.sent))
        node.set("life goes on", "yes")
        assert node.snapshot()
        node.log.raft.close()
        again = open_raft_log(self.env, **SETTINGS)
        assert configs(load(again)) == {**found, "life goes on": "yes"}


def lives(
    plan: Callable[[int], FaultPlan], stride: int, offset: int = 0, *, second: bool = False
) -> Iterator[Life]:
    """One life for every `stride`-th operation in it, which the plan makes fail; the first or the second node's."""
    operation, went_through = offset, False
    while not went_through:
        life = Life()
        if second:
            life.live()
        life.env.inject(plan(operation))
        with suppress(OSError, StorageError, MetadataLogError, PowerCut):
            life.live()
        went_through = life.env.operations <= operation
        yield life
        operation += stride


@pytest.mark.parametrize("kind", FAULTS)
def test_a_process_crash_after_a_fault(kind: str) -> None:
    for life in lives(FAULTS[kind], STRIDE, offset=list(FAULTS).index(kind)):
        life.env.kill()
        life.check()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_machine_crash_after_a_fault(kind: str) -> None:
    for life in lives(FAULTS[kind], STRIDE, offset=list(FAULTS).index(kind) + 11):
        life.env.crash()
        life.check()


@pytest.mark.parametrize("second", [False, True], ids=["new", "reopened"])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_machine_crash_at_any_operation_with_any_unsynced_writes_lost(seed: int, second: bool) -> None:
    for number, life in enumerate(lives(power_cut, STRIDE, offset=seed * 7 % STRIDE, second=second)):
        life.env.crash(Random(seed * 1000 + number))
        life.check()


@pytest.mark.parametrize("plan", [nth, power_cut])
def test_a_failed_start_does_not_harm_the_next_one(
    plan: Callable[[int], FaultPlan],
) -> None:
    operation, went_through = 0, False
    while not went_through:
        life = Life()
        life.live()
        life.env.kill()
        life.env.inject(plan(operation))
        with suppress(OSError, StorageError, MetadataLogError, PowerCut):
            Node(life.env, **SETTINGS).log.raft.close()
        went_through = life.env.operations <= operation
        life.env.crash(Random(operation))
        life.check()
        operation += STRIDE


def test_a_failed_change_has_no_effect_and_the_next_one_succeeds() -> None:
    """Unless the disk fails for good: after a failed fsync the log rejects all records, and reports it."""
    operation, went_through = 0, False
    while not went_through:
        node = Node(new_env())
        node.set("before", "1")
        node.env.inject(nth(operation))
        failed, told = False, list[bool]()
        node.log.raft.on_failure = lambda told=told: told.append(True)  # type: ignore[misc]
        try:
            node.set("meanwhile", "2")
        except OSError:
            failed = True
        went_through = node.env.operations <= operation
        node.env.inject(None)
        assert failed == ("meanwhile" not in configs(node.image))
        assert bool(told) == node.log.raft.is_failed
        if not node.log.raft.is_failed:
            node.set("after", "3")
        expected = configs(node.image)
        node.env.crash()
        assert configs(load(open_raft_log(node.env))) == expected
        operation += 1


def test_a_full_disk_rejects_changes_until_there_is_space() -> None:
    node = Node(new_env())
    node.env.inject(
        lambda _number, kind, _path: Fault(errno.ENOSPC, half=True) if kind == "pwritev" else None
    )
    with pytest.raises(OSError, match="after half of it") as refused:
        node.set("meanwhile", "2")
    assert refused.value.errno == errno.ENOSPC
    assert not node.log.raft.is_failed
    node.env.inject(None)
    node.set("after", "3")
    assert configs(load(open_raft_log(node.env))) == {"after": "3"}


def test_the_image_of_a_log_that_does_not_exist_is_empty() -> None:
    assert load(open_raft_log(new_env())).offset == MetadataImage.empty().offset


def no_room(_number: int, kind: str, _path: str) -> Fault | None:
    return Fault(errno.ENOSPC, half=True) if kind == "pwritev" else None


def test_on_a_full_disk_a_start_continues_in_memory_until_there_is_space() -> None:
    env = new_env()
    Node(env).set("before", "1")
    env.kill()
    env.inject(no_room)
    node = Node(env)
    epoch, end_offset = node.log.leader_epoch, node.log.end_offset
    node.append_at_start([config("of the start", "2")])
    assert node.log.end_offset == end_offset + 1
    assert not node.log.raft.snapshot_is_due(node.image)
    assert not node.snapshot()
    with pytest.raises(OSError, match="after half of it"):
        node.set("meanwhile", "3")
    env.inject(None)
    node.set("after", "4")
    assert node.snapshot()
    env.crash()
    again = Node(env)
    assert configs(again.image) == {"before": "1", "of the start": "2", "after": "4"}
    assert again.log.leader_epoch == epoch + 1


def test_records_in_memory_are_written_on_the_next_request() -> None:
    env = new_env()
    Node(env)
    env.kill()
    env.inject(no_room)
    node = Node(env)
    node.append_at_start([config("of the start", "2")])
    with pytest.raises(OSError, match="after half of it"):
        node.log.write_waiting()
    env.inject(None)
    node.log.write_waiting()
    env.crash()
    assert configs(load(open_raft_log(env))) == {"of the start": "2"}


def test_records_that_were_never_written_are_lost() -> None:
    env = new_env()
    Node(env)
    env.kill()
    env.inject(no_room)
    node = Node(env)
    node.append_at_start([config("of the start", "2")])
    epoch = node.log.leader_epoch
    env.crash()
    again = Node(env)
    assert configs(again.image) == {}
    assert again.log.leader_epoch == epoch
