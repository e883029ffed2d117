"""Segments that are looked at apart come to what reading the partition in one go comes to."""

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
from barnabas.storage.verify.detached import SegmentLook, look_at_segment
from barnabas.storage.verify.directory import PartitionToVerify, Verification, Verified
from barnabas.storage.verify.partition import PartitionVerifier, confirmed, fingerprint
from barnabas.storage.verify.verifier import Check, Counts, Finding, Situation
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, make_batch, small_config
from tests.storage.log_life import LogLife
from tests.storage.test_log_model import WEIGHTS
from tests.storage.verify.test_verifier import DAMAGES, files, flip, positions
from tests.storage.verify.verified import LOG_DIR, TOPIC, graver, written
from tests.support.chance import seeds


def looked_at_apart(env: Env, *paths: str, is_deep: bool = True) -> tuple[list[Finding], dict[str, int]]:
    """What a verification says whose segments are looked at in any order, each for itself, and what it has counted."""

    def verify(partitions: Sequence[PartitionToVerify]) -> Iterator[Verified]:
        for partition in partitions:
            before = fingerprint(env, partition.path)
            verifier = PartitionVerifier(
                env, partition.path, partition.situation, is_deep=is_deep, on_progress=lambda _: None
            )
            verifier.begin()
            bases = list(verifier.base_offsets)
            looks = {base: _look(env, partition, base, verifier, is_deep=is_deep) for base in reversed(bases)}
            for base in bases:
                verifier.take(looks[base])
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


def _look(
    env: Env, partition: PartitionToVerify, base: int, verifier: PartitionVerifier, *, is_deep: bool
) -> SegmentLook:
    look = look_at_segment(
        env,
        partition.path,
        base,
        situation=partition.situation,
        is_active=verifier.is_active(base),
        is_deep=is_deep,
    )
    sent: SegmentLook = pickle.loads(pickle.dumps(look))
    assert isinstance(sent.counts, Counts)
    return sent


def in_one_go(env: Env, *paths: str) -> tuple[list[Finding], dict[str, int]]:
    verification = Verification(env)
    return list(verification.run(paths or (LOG_DIR,))), verification.counts.as_dict()


def assert_same(env: Env, *paths: str) -> list[Finding]:
    apart, counted = looked_at_apart(env, *paths)
    together, counted_together = in_one_go(env, *paths)
    assert sorted(apart, key=repr) == sorted(together, key=repr)
    assert counted == counted_together
    return apart


@pytest.mark.parametrize("stop", [True, False])
def test_nothing_wrong(stop: bool) -> None:
    env = FaultEnv()
    written(env, stop=stop)
    assert assert_same(env) == []
    assert assert_same(env, TOPIC) == []


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage(damage: Callable[[FaultEnv], str]) -> None:
    env = FaultEnv()
    written(env)
    damage(env)
    assert graver(assert_same(env))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    """Bytes that are others, files that are cut or gone: in whichever file."""
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
def test_random_lives_of_a_log(seed: int) -> None:
    rng = Random(seed)
    life = LogLife(rng.randrange(1 << 32))
    for number, step in enumerate(rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=120)):
        step(life, rng)
        if number % 8 == 0:
            assert_same(life.env, "/logs")


def test_a_segment_that_is_deleted_meanwhile() -> None:
    env = FaultEnv()
    written(env)
    gone = files(env, ".log")[1]
    env.remove(gone)
    look = look_at_segment(
        env, TOPIC, int(gone[-24:-4]), situation=Situation(), is_active=False, is_deep=True
    )
    assert look.outcome is None
    assert look.findings == ()


# -- sequences --


def log_of(*batches: bytes) -> FaultEnv:
    """A partition with these batches, taken as from a leader that checked nothing."""
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


def test_sequences_that_follow() -> None:
    env = log_of(
        batch(0, (7, 0, 40)),  # what was before is gone
        batch(1, (8, 3, 0), 2),
        batch(3, (7, 0, 41), 3),
        batch(6, (7, 1, 0)),
        batch(7, (8, 3, 2)),
        batch(8, (9, 0, MAX_SEQUENCE), 1),
        batch(9, (9, 0, 0), 1),
    )
    assert sequences(env) == []


def test_a_gap_in_the_sequences_of_a_producer() -> None:
    env = log_of(batch(0, (7, 0, 0)), batch(1, (8, 0, 0)), batch(2, (7, 0, 1)), batch(3, (7, 0, 4)))
    assert sequences(env) == [("error", 3, "producer 7, epoch 0, goes on with sequence 4")]


def test_a_batch_that_is_there_twice() -> None:
    env = log_of(batch(0, (7, 0, 0)), batch(1, (7, 0, 1), 2), batch(3, (7, 0, 1), 2), batch(5, (7, 0, 3)))
    assert sequences(env) == [("error", 3, "producer 7, epoch 0, repeats what is at offset 1")]


def test_an_epoch_that_is_over() -> None:
    env = log_of(batch(0, (7, 1, 0)), batch(1, (7, 2, 0)), batch(2, (7, 1, 1)))
    assert sequences(env) == [("error", 2, "producer 7, epoch 1, goes on with sequence 1")]


def test_an_epoch_that_does_not_begin() -> None:
    env = log_of(batch(0, (7, 1, 0)), batch(1, (7, 2, 1)))
    assert sequences(env) == [("error", 1, "producer 7, epoch 2, goes on with sequence 1")]


def test_who_begins_anew_may_have_been_forgotten() -> None:
    env = log_of(batch(0, (7, 1, 0)), batch(1, (7, 1, 1)), batch(2, (7, 1, 0)))
    assert sequences(env) == [("note", 2, "producer 7, epoch 1, begins anew")]


def test_what_was_compacted_may_have_gaps() -> None:
    env = log_of(batch(0, (7, 0, 0)), batch(3, (7, 0, 3)), batch(4, (7, 0, 9)))
    assert sequences(env) == []


@pytest.mark.parametrize("damaged", range(6))
def test_behind_damage_sequences_are_followed_anew(damaged: int) -> None:
    """In the same segment and in later ones; of a producer's first batch there nobody knows what was due."""
    env = log_of(*(batch(number, (7, 0, number)) for number in range(6)), batch(6, (7, 0, 9)))
    places = [(path, position) for path in files(env, ".log") for position in positions(env, path)]
    path, position = places[damaged]
    flip(env, path, position + 100)
    found = [(one.check, one.offset) for one in assert_same(env, TOPIC)]
    assert found == [(Check.CRC, damaged), (Check.SEQUENCES, 6)][: 1 if damaged == 5 else 2]


def test_what_a_snapshot_says_of_before_damage_is_held_against_it() -> None:
    """It lies where the first batch of its segment is damaged; all that it can know has been read."""
    env = log_of(*(batch(number, (7, 0, number)) for number in range(4)))
    base = int(files(env, ".log")[1][-24:-4])
    snapshots = ProducerSnapshotFiles(env, TOPIC, env.listdir(TOPIC))
    (entry,) = snapshots.read(base)
    snapshots.write(base, [entry._replace(last_sequence=entry.last_sequence + 1)], sync=False)
    flip(env, files(env, ".log")[1], 100)
    found = [(one.check, one.path) for one in assert_same(env, TOPIC)]
    assert (Check.CRC, files(env, ".log")[1]) in found
    assert (Check.SNAPSHOTS, snapshots.path(base)) in found
