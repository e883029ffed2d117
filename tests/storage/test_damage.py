"""Damage in a log directory: it never prevents a start and never leads to a wrong answer.

One directory with three segments, transactions, an idempotent producer, two leader epochs and every checkpoint is made,
stopped cleanly (or killed), damaged in one place, and opened again. The log's answers are then compared with those of
the undamaged one.
"""

import logging
from collections.abc import Callable
from random import Random

import pytest

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.entries import batches
from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.log.checkpoints import OffsetCheckpointFile
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin, FetchIsolation, LogStartOffsetIncrementReason
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, TOPIC_ID, append, end_txn, make_batch, read_values, small_config
from tests.support.chance import seeds

LOG = "/a/t-0"
CLIENT = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION


def opened(env: FaultEnv, config: LogConfig | None = None) -> LogManager:
    manager = LogManager(env, ["/a"], lambda _topic: config or small_config())
    manager.dirs.lock()
    manager.dirs.load_meta_properties()
    manager.dirs.format("cluster", 1, lambda: "AAAAAAAAAAAAAAAAAAAAAQ")
    manager.load_logs()
    return manager


def fill(log: UnifiedLog) -> None:
    """An aborted transaction in each segment, a committed one, and an idempotent producer throughout.

    No two batches have the same timestamp: an index that names another batch of that timestamp would look correct.
    """
    for number in range(24):
        epoch = 1 if number < 12 else 4
        values = (b"%02d" % number + bytes(60),)
        batch = make_batch(*values, timestamp=T0 + 10 * number, producer=(7, 0, number), epoch=epoch)
        log.append_as_leader(batch, epoch)
        if number % 5 == 0:
            txn = make_batch(
                b"txn", timestamp=T0 + 10 * number + 2, producer=(8, 0, number // 5), transactional=True
            )
            log.append_as_leader(txn, epoch)
        if number % 5 == 2:
            marker = end_txn(8, 0, commit=number == 12, timestamp=T0 + 10 * number + 4)
            log.append_as_leader(marker, epoch, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def made(*, clean: bool) -> FaultEnv:
    env = FaultEnv()
    manager = opened(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log)
    log.maybe_increment_log_start_offset(2, CLIENT)
    manager.get_or_create_log("u", 0, bytes(15) + b"\1")
    if clean:
        manager.shutdown()
    else:
        log.flush()
        manager.dirs.checkpoint_all()
        append(log, b"late", epoch=4, timestamp=T0 + 300)
    env.kill()
    return env


def answers(log: UnifiedLog) -> dict[str, object]:
    """The answers to everything that a reader or a producer can ask."""
    end = log.log_end_offset
    log.update_high_watermark(end)
    aborted = {}
    for offset in range(log.log_start_offset, end):
        info = log.read(offset, 1 << 20, FetchIsolation.TXN_COMMITTED, min_one_message=True)
        found = info.aborted_transactions or []
        aborted[offset] = sorted((one.producer_id, one.first_offset) for one in found)
    times = {}
    for step in range(-1, 40):
        found_at = log.fetch_offset_by_timestamp(T0 + 8 * step)
        times[step] = None if found_at is None else (found_at.timestamp, found_at.offset)
    producers = {
        entry.producer_id: (entry.producer_epoch, entry.last_sequence, entry.last_offset)
        for entry in log.producer_state_manager.producers.values()
    }
    return {
        "offsets": (log.log_start_offset, log.high_watermark, end, log.last_stable_offset),
        "values": read_values(log),
        "aborted": aborted,
        "times": times,
        "producers": producers,
        "epochs": log.leader_epoch_cache.entries,
        "topic id": log.topic_id,
        "ends": [log.end_offset_for_epoch(epoch) is None for epoch in range(6)],
    }


# -- kinds of damage --

Damage = Callable[[bytes], bytes | None]


def gone(_: bytes) -> None:
    return None


def emptied(_: bytes) -> bytes:
    return b""


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2 - 1] if len(data) > 3 else b""


def over_long(data: bytes) -> bytes:
    return data + bytes(len(data) + 13)


def zeros(data: bytes) -> bytes:
    return bytes(len(data) + 24)


def nonsense(data: bytes) -> bytes:
    return Random(len(data)).randbytes(max(len(data), 48))


def shifted(data: bytes) -> bytes:
    """All bytes shifted by one: the lengths are correct, the contents are not."""
    return data[-1:] + data[:-1]


DAMAGES: dict[str, Damage] = {
    "gone": gone,
    "emptied": emptied,
    "cut": cut,
    "over-long": over_long,
    "zeros": zeros,
    "nonsense": nonsense,
    "shifted": shifted,
}

SAME: frozenset[str] = frozenset()
"""No answer may differ."""

# file                               what may be another answer than before, by damage; those not named: SAME
EXPECTED: dict[str, dict[str, frozenset[str]]] = {
    f"{LOG}/{0:020d}.index": {},
    f"{LOG}/{0:020d}.timeindex": {},
    f"{LOG}/{0:020d}.snapshot": {},
    # A missing or empty file means that nothing was aborted, as in Kafka.
    f"{LOG}/FIRST.txnindex": {"gone": frozenset({"aborted"}), "emptied": frozenset({"aborted"})},
    f"{LOG}/MIDDLE.index": {},
    f"{LOG}/MIDDLE.timeindex": {},
    f"{LOG}/MIDDLE.snapshot": {},
    f"{LOG}/LAST.index": {},
    f"{LOG}/LAST.timeindex": {},
    f"{LOG}/END.snapshot": {},
    f"{LOG}/leader-epoch-checkpoint": {},
    f"{LOG}/partition.metadata": dict.fromkeys(DAMAGES, frozenset({"topic id"})),
    "/a/recovery-point-offset-checkpoint": {},
    # Without it the log starts at its first segment.
    "/a/log-start-offset-checkpoint": dict.fromkeys(
        DAMAGES, frozenset({"offsets", "values", "aborted", "times", "epochs"})
    ),
    "/a/replication-offset-checkpoint": {},
    "/a/cleaner-offset-checkpoint": {},
    "/a/.kafka_cleanshutdown": {},
}


def resolved(env: FaultEnv, name: str) -> str:
    """The file's real name: FIRST, MIDDLE and LAST stand for segments, END for the log's end."""
    directory, _, file = name.rpartition("/")
    stem, _, suffix = file.partition(".")
    if stem not in ("FIRST", "MIDDLE", "LAST", "END"):
        return name
    there = sorted(one for one in env.listdir(directory) if one.endswith("." + suffix))
    at = {"FIRST": 0, "MIDDLE": len(there) // 2, "LAST": -1, "END": -1}[stem]
    return f"{directory}/{there[at]}" if there else name


def truth(*, clean: bool) -> dict[str, object]:
    log = opened(made(clean=clean)).get_log("t", 0)
    assert log is not None
    return answers(log)


@pytest.fixture(scope="module", params=[True, False], ids=["after a clean stop", "after a crash"])
def clean(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def wanted(clean: bool) -> dict[str, object]:
    return truth(clean=clean)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", EXPECTED)
def test_damage_leads_to_no_error_and_no_wrong_answer(
    name: str, damage: str, clean: bool, wanted: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    env = made(clean=clean)
    path = resolved(env, name)
    before = env.read_file(path) if env.exists(path) else b""
    after = DAMAGES[damage](before)
    if after is None:
        if env.exists(path):
            env.remove(path)
    else:
        env.write_file(path, after)
    with caplog.at_level(logging.WARNING, "barnabas.storage"):
        log = opened(env).get_log("t", 0)
        assert log is not None
        found = answers(log)
    different = {key for key in wanted if found[key] != wanted[key]}
    assert different <= EXPECTED[name].get(damage, SAME)
    about = [message for message in caplog.messages if path in message]
    assert len(about) <= 1, "more than one warning about one file"
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
    # The log is in service, and the next start logs nothing.
    assert append(log, b"more", epoch=4, timestamp=T0 + 400) == wanted["offsets"][2]  # type: ignore[index]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith(LOG)])
def test_a_repair_lasts(
    name: str, wanted: dict[str, object], clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    env = made(clean=clean)
    path = resolved(env, name)
    env.write_file(path, nonsense(env.read_file(path) if env.exists(path) else b""))
    manager = opened(env)
    log = manager.get_log("t", 0)
    assert log is not None
    answers(log)
    log.assign_topic_id(TOPIC_ID)  # as the broker does
    manager.shutdown()
    env.crash()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "barnabas.storage"):
        log = opened(env).get_log("t", 0)
    assert log is not None
    assert answers(log) == wanted
    assert not caplog.messages


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("seed", seeds(30))
def test_a_single_wrong_index_entry_misleads_no_reader(
    suffix: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The file has its length and its last entry; one entry in it points to a wrong place."""
    env = made(clean=True)
    wanted = truth(clean=True)
    rng = Random(seed)
    files = {name: env.read_file(f"{LOG}/{name}") for name in sorted(env.listdir(LOG))}
    name = rng.choice([name for name, data in files.items() if name.endswith("." + suffix) and data])
    data = bytearray(files[name])
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    env.write_file(f"{LOG}/{name}", bytes(data))
    log = opened(env).get_log("t", 0)
    assert log is not None
    assert answers(log) == wanted


@pytest.mark.parametrize(
    ("name", "at", "bit"),
    [
        (
            "00000000000000000017.index",
            30,
            7,
        ),  # the position of its fourth entry: so late that reads end there
        ("00000000000000000017.index", 47, 6),  # that of its last entry: near the end of the last batch
        ("00000000000000000009.timeindex", 12, 7),  # the sign of its second entry's timestamp
    ],
)
def test_a_flipped_bit_misleads_no_reader(name: str, at: int, bit: int) -> None:
    """Neither read_committed readers, which need all aborted transactions, nor searches by time."""
    env = made(clean=True)
    data = bytearray(env.read_file(f"{LOG}/{name}"))
    data[at] ^= 1 << bit
    env.write_file(f"{LOG}/{name}", bytes(data))
    log = opened(env).get_log("t", 0)
    assert log is not None
    assert answers(log) == truth(clean=True)


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"1\n0\n", b"0\n1\n", b"0\n1\nt 0\n", b"0\n1\nt x 5\n", b"\xff\xfe"]
)
def test_unreadable_checkpoints_are_ignored(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    env = made(clean=False)
    for name in ("recovery-point-offset", "replication-offset", "cleaner-offset"):
        env.write_file(f"/a/{name}-checkpoint", content)
    manager = opened(env)
    log = manager.get_log("t", 0)
    assert log is not None
    assert answers(log) == truth(clean=False)
    manager.shutdown()
    assert (
        OffsetCheckpointFile(env, "/a/recovery-point-offset-checkpoint").read()["t", 0] == log.log_end_offset
    )


def test_a_clean_shutdown_file_with_any_contents_counts() -> None:
    """Kafka only checks whether the file exists."""
    env = made(clean=True)
    env.write_file("/a/.kafka_cleanshutdown", b"\xff nonsense")
    segment = f"{LOG}/{0:020d}.log"
    rotten = bytearray(env.read_file(segment))
    rotten[100] ^= 1
    env.write_file(segment, bytes(rotten))
    log = opened(env).get_log("t", 0)
    assert log is not None
    assert log.truncated_bytes == 0


# -- damage in the middle of a log affects only its readers --


@pytest.mark.parametrize("index_interval_bytes", [100, 4096], ids=["indexed", "not indexed"])
def test_retention_continues_over_a_damaged_batch(
    index_interval_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    config = small_config(retention_ms=60_000, index_interval_bytes=index_interval_bytes)
    env = FaultEnv()
    manager = opened(env, config)
    for topic in ("t", "u"):
        log = manager.get_or_create_log(topic, 0, TOPIC_ID)
        fill_plainly(log)
    manager.shutdown()
    segment = f"{LOG}/{0:020d}.log"
    with_wrong_length = bytearray(env.read_file(segment))
    at = batch_positions(bytes(with_wrong_length))[-1]
    with_wrong_length[at + 8 : at + 12] = (5).to_bytes(4, "big")
    env.write_file(segment, bytes(with_wrong_length))
    manager = opened(env, config)
    assert manager.cleanup_logs() == 0, "nothing is old enough"
    found = manager.get_log("t", 0)
    assert found is not None
    later = found.fetch_offset_by_timestamp(T0 + 110)
    assert later is not None
    assert later.offset == 11, "who asks for what is not damaged gets it"
    env.time_ms += 120_000
    assert manager.cleanup_logs() > 0
    assert not manager.dirs.offline
    assert [log.log_start_offset for log in manager.all_logs()] == [12, 12]
    assert sum("largest timestamp is taken to be" in message for message in caplog.messages) == 1


def test_readers_get_an_error_for_a_damaged_batch_with_or_without_an_index_entry() -> None:
    """A consumer fails on CORRUPT_MESSAGE, and retries without end on KAFKA_STORAGE_ERROR."""
    env = FaultEnv()
    manager = opened(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill_plainly(log)
    segment = log.segments[0]
    data = bytearray(env.read_file(segment.path))
    positions = batch_positions(bytes(data))
    indexed = [segment.offset_index.entry(slot)[1] for slot in range(segment.offset_index.entries)]
    assert positions[-1] in indexed
    data[positions[-1] + 8 : positions[-1] + 12] = bytes(4)
    env.write_file(segment.path, bytes(data))
    log.release()
    with pytest.raises(CorruptRecordError, match="damaged"):
        log.read(len(positions) - 1, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
    assert not log.is_failed
    assert read_values(log, len(positions)), "what comes after it can be read"


def fill_plainly(log: UnifiedLog) -> None:
    for number in range(12):
        append(log, bytes(120), timestamp=T0 + 10 * number)


def batch_positions(data: bytes) -> list[int]:
    return [batch.position for batch in batches(data)]


def test_the_uncleanable_bytes_of_a_log_with_a_damaged_batch_are_counted() -> None:
    """Otherwise /metrics would fail as long as the broker runs."""
    config = small_config(
        cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1000
    )
    env = FaultEnv()
    manager = opened(env, config)
    fill_plainly(manager.get_or_create_log("t", 0, TOPIC_ID))
    manager.shutdown()
    segment = f"{LOG}/{0:020d}.log"
    env.write_file(segment, env.read_file(segment)[:8] + bytes(4) + env.read_file(segment)[12:])
    manager = opened(env, config)
    manager.cleaner = cleaner = LogCleanerManager(env, manager)
    assert cleaner.grab_filthiest_log() is None
    assert cleaner.is_uncleanable(("t", 0))
    log = manager.get_log("t", 0)
    assert log is not None
    assert cleaner.uncleanable_bytes(manager.dirs[0]) == sum(one.size for one in log.segments[:-1])
