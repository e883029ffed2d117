"""Segments with offsets beyond what their indexes can hold are split without loss."""

from random import Random

import pytest

from barnabas.storage.offsets import FetchIsolation
from tests.storage.fault_env import FaultEnv, PowerCut, power_cut
from tests.storage.helpers import DIRECTORY, make_batch, names, new_log, read_values
from tests.storage.segment.test_scan import old_message
from tests.support.chance import seeds

FAR = 1 << 31
OFFSETS = (0, 7, FAR - 1, FAR, FAR + 3, 2 * FAR + 2)
"""Offsets of the batches; the split segments begin at 0, FAR and 2 * FAR + 2."""
VALUES = {offset: b"at %d" % offset for offset in OFFSETS}
ACTIVE = 3 * FAR
LAST = b"in the active one"
ALL = {**VALUES, ACTIVE: LAST}


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


def overflowed(env: FaultEnv, *, indexes: bool = True, damage: bytes = b"") -> None:
    """A directory with such a segment and the active one, synced."""
    env.mkdir(DIRECTORY)
    batches = [make_batch(value, base_offset=offset, epoch=0) for offset, value in VALUES.items()]
    data = b"".join(batches) + damage
    write(env, 0, data)
    write(env, ACTIVE, make_batch(LAST, base_offset=ACTIVE, epoch=0))
    if indexes:
        env.write_file(f"{DIRECTORY}/{0:020d}.index", b"")
        env.write_file(f"{DIRECTORY}/{0:020d}.timeindex", b"")
    for path in ("/", "/logs", DIRECTORY):
        env.sync_dir(path)


def write(env: FaultEnv, base_offset: int, data: bytes) -> None:
    env.mkdir(DIRECTORY)
    path = f"{DIRECTORY}/{base_offset:020d}.log"
    env.write_file(path, data)
    env.open(path).sync()


def logs(env: FaultEnv) -> list[int]:
    return [int(name[:20]) for name in names(env) if name.endswith(".log")]


def test_recovery_splits_an_overflowed_segment(env: FaultEnv) -> None:
    overflowed(env)
    log = new_log(env)
    assert read_values(log) == ALL
    assert logs(env) == [0, FAR, 2 * FAR + 2, ACTIVE]
    assert log.log_end_offset == ACTIVE + 1
    assert log.truncated_bytes == 0
    log.update_high_watermark(log.log_end_offset)
    log.append_as_leader(make_batch(b"more"), 0)
    assert not any(name.endswith((".swap", ".cleaned")) for name in names(env))


def test_a_clean_start_without_an_index_splits_the_segment(env: FaultEnv) -> None:
    overflowed(env, indexes=False)
    log = new_log(env, is_clean=True)
    assert read_values(log) == ALL
    assert logs(env) == [0, FAR, 2 * FAR + 2, ACTIVE]


def test_the_first_batch_may_overflow(env: FaultEnv) -> None:
    write(env, 0, make_batch(b"far", base_offset=FAR, epoch=0))
    write(env, ACTIVE, b"")
    log = new_log(env)
    assert read_values(log, 0) == {FAR: b"far"}
    assert log.log_end_offset == ACTIVE


def test_damage_behind_an_overflow_is_truncated(env: FaultEnv) -> None:
    overflowed(env, damage=b"torn")
    log = new_log(env)
    assert read_values(log) == VALUES  # and the segments after damage are removed
    assert log.truncated_bytes > 4


def test_a_damaged_batch_beyond_the_index_is_damage(env: FaultEnv) -> None:
    far = bytearray(make_batch(b"far", base_offset=FAR, epoch=0))
    far[-1] ^= 1
    write(env, 0, make_batch(b"near", base_offset=0, epoch=0) + far)
    write(env, ACTIVE, b"")
    log = new_log(env)
    assert read_values(log) == {0: b"near"}
    assert logs(env) == [0]


@pytest.mark.parametrize("following", [None, FAR])
def test_an_offset_that_contradicts_the_next_is_damage(env: FaultEnv, following: int | None) -> None:
    """No checksum covers it."""
    near, far = make_batch(b"near", base_offset=0, epoch=0), make_batch(b"far", base_offset=FAR, epoch=0)
    write(env, 0, near + far)
    if following is not None:
        write(env, following, b"")
    log = new_log(env)
    assert read_values(log) == {0: b"near"}
    assert logs(env) == [0]


def test_older_message_sets_are_split_too(env: FaultEnv) -> None:
    write(env, 0, old_message(5, b"near", 1) + old_message(FAR + 5, b"far", 1))
    write(env, ACTIVE, b"")
    log = new_log(env)
    assert logs(env) == [0, FAR + 5, ACTIVE]
    assert log.log_end_offset == ACTIVE
    assert log.read(6, 1 << 20, FetchIsolation.LOG_END, min_one_message=True).records.size


@pytest.mark.parametrize("seed", [None, *seeds(3, fixed=1)])
def test_a_power_cut_at_any_operation_loses_nothing(seed: int | None) -> None:
    operation = 0
    while True:
        env = FaultEnv()
        overflowed(env)
        env.inject(power_cut(operation))
        try:
            new_log(env)
        except PowerCut:
            env.inject(None)
            env.crash(None if seed is None else Random(seed * 1000 + operation))
        else:
            break
        log = new_log(env)
        assert read_values(log) == ALL, operation
        assert logs(env) == [0, FAR, 2 * FAR + 2, ACTIVE]
        operation += 1
    assert operation > 20
