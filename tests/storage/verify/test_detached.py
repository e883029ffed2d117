"""Segments verified separately give the same findings as one pass over the partition."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records.layout import MAX_SEQUENCE
from barnabas.storage.env import Env
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.verify.detached import SegmentVerification, verify_detached_segment
from barnabas.storage.verify.directory import PartitionToVerify, Verification, Verified
from barnabas.storage.verify.partition import PartitionVerifier, confirmed, fingerprint
from barnabas.storage.verify.verifier import Check, Counts, Finding, Situation
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, make_batch, small_config
from tests.storage.log_harness import LogHarness
from tests.storage.test_log_model import WEIGHTS
from tests.storage.verify.test_verifier import DAMAGES, files, flip, positions
from tests.storage.verify.verified import LOG_DIR, TOPIC, graver, written
from tests.support.chance import seeds


def verified_separately(env: Env, *paths: str, is_deep: bool = True) -> tuple[list[Finding], dict[str, int]]:
    """Findings and counts of a verification whose segments are verified separately, in any order."""

    def verify(partitions: Sequence[PartitionToVerify]) -> Iterator[Verified]:
        for partition in partitions:
            before = fingerprint(env, partition.path)
            verifier = PartitionVerifier(
                env, partition.path, partition.situation, is_deep=is_deep, on_progress=lambda _: None
            )
            verifier.begin()
            bases = list(verifier.base_offsets)
            results = {
                base: _verify_segment(env, partition, base, verifier, is_deep=is_deep)
                for base in reversed(bases)
            }
            for base in bases:
                verifier.add(results[base])
            verifier.end()
            yield confirmed(
                env,
                partition.path,
                verifier,
                before,
                lambda partition=partition: partition.situation_now(env),  # type: ignore[misc]
                is_deep=is_deep,
            )

    verification = Verification(env, verify_partitions=verify)
    found = list(verification.run(paths or (LOG_DIR,)))
    return found, verification.counts.as_dict()


def _verify_segment(
    env: Env, partition: PartitionToVerify, base: int, verifier: PartitionVerifier, *, is_deep: bool
) -> SegmentVerification:
    result = verify_detached_segment(
        env,
        partition.path,
        base,
        situation=partition.situation,
        is_active=verifier.is_active(base),
        is_deep=is_deep,
    )
    sent: SegmentVerification = pickle.loads(pickle.dumps(result))
    assert isinstance(sent.counts, Counts)
    return sent


def verified_in_one_pass(env: Env, *paths: str) -> tuple[list[Finding], dict[str, int]]:
    verification = Verification(env)
    return list(verification.run(paths or (LOG_DIR,))), verification.counts.as_dict()


def assert_same(env: Env, *paths: str) -> list[Finding]:
    apart, counted = verified_separately(env, *paths)
    together, counted_together = verified_in_one_pass(env, *paths)
    assert sorted(apart, key=repr) == sorted(together, key=repr)
    assert counted == counted_together
    return apart


@pytest.mark.parametrize("stop", [True, False])
def test_a_directory_without_damage_has_the_same_findings(stop: bool) -> None:
    env = FaultEnv()
    written(env, stop=stop)
    assert assert_same(env) == []
    assert assert_same(env, TOPIC) == []


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_each_kind_of_damage_has_the_same_findings(damage: Callable[[FaultEnv], str]) -> None:
    env = FaultEnv()
    written(env)
    damage(env)
    assert graver(assert_same(env))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_damage_has_the_same_findings(data: st.DataObject) -> None:
    """Changed bytes, truncated files and missing files, in any file."""
    env = FaultEnv()
    written(env, stop=data.draw(st.booleans(), "stopped in order"))
    for _ in range(data.draw(st.integers(1, 3), "damages")):
        path = data.draw(st.sampled_from([f"{TOPIC}/{name}" for name in sorted(env.listdir(TOPIC))]), "file")
        size = env.size(path)
        match data.draw(st.sampled_from(["flip", "cut", "remove"])):
            case "flip" if size:
                flip(env, path, data.draw(st.integers(0, size - 1)), 1 << data.draw(st.integers(0, 7)))
            case "cut" if size:
                env.write_file(path, env.read_file(path)[: data.draw(st.integers(0, size - 1))])
            case "remove":
                env.remove(path)
    assert_same(env)


@pytest.mark.parametrize("seed", seeds(6))
def test_random_operations_on_a_log_have_the_same_findings(seed: int) -> None:
    rng = Random(seed)
    harness = LogHarness(rng.randrange(1 << 32))
    for number, step in enumerate(rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=120)):
        step(harness, rng)
        if number % 8 == 0:
            assert_same(harness.env, "/logs")


def test_a_segment_deleted_during_the_verification() -> None:
    env = FaultEnv()
    written(env)
    gone = files(env, ".log")[1]
    env.remove(gone)
    result = verify_detached_segment(
        env, TOPIC, int(gone[-24:-4]), situation=Situation(), is_active=False, is_deep=True
    )
    assert result.outcome is None
    assert result.findings == ()


# -- sequences --


def log_of(*batches: bytes) -> FaultEnv:
    """A partition with these batches, appended as a follower, which checks no sequences."""
    env = FaultEnv()
    manager = LogManager(env, [LOG_DIR], lambda _topic: small_config())
    manager.dirs.lock()
    manager.load_logs()
    log = manager.get_or_create_log("orders", 0, TOPIC_ID)
    for batch in batches:
        log.append_as_follower(batch, 0)
    log.update_high_watermark(log.log_end_offset)
    manager.shutdown()
    return env


def batch(offset: int, producer: tuple[int, int, int], count: int = 1) -> bytes:
    return make_batch(*[b"v" * 300] * count, base_offset=offset, epoch=0, producer=producer)


def sequences(env: FaultEnv) -> list[tuple[str, int | None, str]]:
    found = assert_same(env, TOPIC)
    assert all(one.path.endswith(".log") and one.check is Check.SEQUENCES for one in found), found
    return [(one.severity, one.offset, one.problem) for one in found]


def test_consecutive_sequences_have_no_finding() -> None:
    env = log_of(
        batch(0, (7, 0, 40)),  # earlier batches are deleted
        batch(1, (8, 3, 0), 2),
        batch(3, (7, 0, 41), 3),
        batch(6, (7, 1, 0)),
        batch(7, (8, 3, 2)),
        batch(8, (9, 0, MAX_SEQUENCE), 1),
        batch(9, (9, 0, 0), 1),
    )
    assert sequences(env) == []


def test_a_gap_in_the_sequences_of_a_producer_is_a_finding() -> None:
    env = log_of(batch(0, (7, 0, 0)), batch(1, (8, 0, 0)), batch(2, (7, 0, 1)), batch(3, (7, 0, 4)))
    assert sequences(env) == [("error", 3, "producer 7, epoch 0, goes on with sequence 4")]


def test_a_duplicate_batch_is_a_finding() -> None:
    env = log_of(batch(0, (7, 0, 0)), batch(1, (7, 0, 1), 2), batch(3, (7, 0, 1), 2), batch(5, (7, 0, 3)))
    assert sequences(env) == [("error", 3, "producer 7, epoch 0, repeats what is at offset 1")]


def test_an_old_producer_epoch_is_a_finding() -> None:
    env = log_of(batch(0, (7, 1, 0)), batch(1, (7, 2, 0)), batch(2, (7, 1, 1)))
    assert sequences(env) == [("error", 2, "producer 7, epoch 1, goes on with sequence 1")]


def test_a_producer_epoch_that_does_not_begin_at_zero_is_a_finding() -> None:
    env = log_of(batch(0, (7, 1, 0)), batch(1, (7, 2, 1)))
    assert sequences(env) == [("error", 1, "producer 7, epoch 2, goes on with sequence 1")]


def test_a_producer_that_starts_over_may_have_expired() -> None:
    env = log_of(batch(0, (7, 1, 0)), batch(1, (7, 1, 1)), batch(2, (7, 1, 0)))
    assert sequences(env) == [("note", 2, "producer 7, epoch 1, begins anew")]


def test_compacted_segments_may_have_gaps() -> None:
    env = log_of(batch(0, (7, 0, 0)), batch(3, (7, 0, 3)), batch(4, (7, 0, 9)))
    assert sequences(env) == []


@pytest.mark.parametrize("damaged", range(6))
def test_sequences_are_checked_anew_after_damage(damaged: int) -> None:
    """In the same segment and in later ones: the expected sequence of a producer's first batch there is unknown."""
    env = log_of(*(batch(number, (7, 0, number)) for number in range(6)), batch(6, (7, 0, 9)))
    places = [(path, position) for path in files(env, ".log") for position in positions(env, path)]
    path, position = places[damaged]
    flip(env, path, position + 100)
    found = [(one.check, one.offset) for one in assert_same(env, TOPIC)]
    assert found == [(Check.CRC, damaged), (Check.SEQUENCES, 6)][: 1 if damaged == 5 else 2]


def test_a_snapshot_before_damage_is_compared() -> None:
    """The first batch of its segment is damaged, but all batches that it covers have been read."""
    env = log_of(*(batch(number, (7, 0, number)) for number in range(4)))
    base = int(files(env, ".log")[1][-24:-4])
    snapshots = ProducerSnapshotFiles(env, TOPIC, env.listdir(TOPIC))
    (entry,) = snapshots.read(base)
    snapshots.write(base, [entry._replace(last_sequence=entry.last_sequence + 1)], sync=False)
    flip(env, files(env, ".log")[1], 100)
    found = [(one.check, one.path) for one in assert_same(env, TOPIC)]
    assert (Check.CRC, files(env, ".log")[1]) in found
    assert (Check.SNAPSHOTS, snapshots.path(base)) in found
