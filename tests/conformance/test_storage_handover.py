"""Log directories pass back and forth between our storage engine and Apache Kafka 4.3 and 3.9, each adding to them.

Each continues with what the other has written, rolled, compacted, deleted and truncated: Kafka opens it without a log
line about recovery, its clients see the records that ours showed, producers resume and its log cleaner compacts it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.records.batch import build_batch
from barnabas.storage.manager.log_manager import LogManager
from tests.conformance.dump_log_comparison import assert_same_dumps
from tests.conformance.handover.kafka_side import (
    LEFT_OPEN,
    Written,
    active_segment,
    await_cleaning,
    commit_offsets,
    config_of,
    delete_records,
    kafka_in,
    produce,
    quiet_producer,
    send,
    transact,
    write_keys,
)
from tests.conformance.handover.kafka_side import PARTITIONS as ALL
from tests.conformance.handover.our_side import (
    OUR_PRODUCERS,
    compact,
    end_transaction,
    fill,
    log_of,
    open_ours,
)
from tests.conformance.handover.our_side import delete_records as delete_ours
from tests.conformance.handover.tools import findings
from tests.conformance.handover.views import (
    Partition,
    ProducerSeen,
    View,
    last_values,
    our_view,
    since,
    views,
)
from tests.support.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

COMPACTED = {"compacted", "compacted-and-deleted", "ours-compacted"}
OUT_OF_ORDER, OLD_EPOCH = 45, 47
Views = dict[Partition, View]

ENTRY = re.compile(r"^\[\d[^]]+\] ([A-Z]+) (.+?) \(([\w.$]+)\)$", re.MULTILINE | re.DOTALL)
ABOUT_LOGS = ("org.apache.kafka.storage.", "kafka.log.", "kafka.cluster.")
CUT = re.compile(
    r"\[LogLoader partition=(\S+), dir=\S+\] Corruption found in segment \d+, truncating to offset (\d+)"
)
RECOVERY = re.compile(
    r"recovering unflushed|found invalid|rebuilding (?!producer state)|corrupt|truncat", re.IGNORECASE
)


def test_directories_pass_between_both_for_three_rounds(written: Written, tmp_path: Path) -> None:
    """Ours works in Kafka's directory, then Kafka in ours, three times; ours is killed in round 2, Kafka in round 3."""
    data = Path(shutil.copytree(written.stopped.directory, tmp_path / "data"))
    expected = written.stopped.views
    for number in range(3):
        manager = open_ours(data, config_of)
        assert_same(views_of(manager), expected)
        work_of_ours(manager, number)
        expected = views_of(manager)
        manager.shutdown(broker_epoch=1)
        assert findings(data) == []
        if number == 0:
            assert_same_dumps(data)
        cuts: dict[str, int] = {}
        if number == 1:
            kill_ours_at_work(data)
            tear(data / "ours-0")
            expected, cuts = recovered_views(data, tmp_path / "recovered")
            assert "ours-0" in cuts
        kafka = kafka_in(tmp_path / f"round-{number}", written.version, data)
        with kafka:
            assert_same(views(kafka.bootstrap, ALL), expected)
            work_of_kafka(kafka, expected)
            expected = views(kafka.bootstrap, ALL)
            if number < 2:
                kafka.stop()
        assert_no_warnings(kafka, cuts, was_killed=number == 1)
        data = kafka.data_dir
        assert findings(data) == []
    assert_same_dumps(data)
    manager = open_ours(data, config_of)
    assert_same(views_of(manager), expected, was_killed=True)
    manager.shutdown()


def views_of(manager: LogManager) -> Views:
    """Our view of all partitions."""
    return {(log.topic, log.partition): our_view(log) for log in manager.all_logs()}


def assert_same(shown: Views, expected: Views, *, was_killed: bool = False) -> None:
    """Both views are equal. Where a cleaner ran between the two, no key has lost its last committed value."""
    assert set(shown) == set(expected)
    for key, other in expected.items():
        one = since(shown[key], other.start) if was_killed else shown[key]
        if key[0].startswith("__"):  # coordinators write at any time, also at a start
            assert other.records.items() <= one.records.items(), key
        elif key[0] in COMPACTED:
            assert one[2:] == other[2:], key
            assert one.records.items() <= other.records.items(), key
            assert last_values(one.committed) == last_values(other.committed), key
        else:
            assert one == other, key


# -- ours at work --


def work_of_ours(manager: LogManager, number: int) -> None:
    """Appends, transactions, deletion, a truncation, compaction; ends the transaction that Kafka had left open."""
    for topic in ("ours", "ours-compacted", "transactions", "codec-none", "broker-time", "compacted"):
        fill(log_of(manager, topic), number)
    if number == 0:
        log = log_of(manager, LEFT_OPEN)
        (entry,) = [
            one for one in log.producer_state_manager.producers.values() if one.current_txn_first_offset >= 0
        ]
        end_transaction(log, entry.producer_id, entry.producer_epoch, commit=True)
    log_of(manager, "codec-gzip").truncate_to(2000 + 100 * number)
    fill(log_of(manager, "codec-gzip"), number, rounds=5)
    log_of(manager, "codec-lz4").roll()
    ours = log_of(manager, "ours")
    delete_ours(ours, ours.segments[-1].base_offset + 7)
    assert ours.segment_count == 1
    fill(ours, 100 + number)
    compact(manager, ["ours-compacted", "compacted"])


def kill_ours_at_work(data: Path) -> None:
    """Kills ours with SIGKILL while it appends and rolls."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.handover.our_side", str(data), "7"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(40):
        assert process.stdout.readline()
    process.kill()
    process.communicate()


def tear(partition: Path) -> None:
    """Appends part of a batch, as a kill may leave it where a write crosses a page."""
    with (partition / f"{active_segment(partition):020d}.log").open("ab") as file:
        file.write(build_batch([(b"k", b"torn" * 1000, 0, ())])[:1234])


def recovered_views(data: Path, directory: Path) -> tuple[Views, dict[str, int]]:
    """Our views after recovery, on a copy of the directory, and the end offsets of the partitions it truncated."""
    shutil.copytree(data, directory)
    sizes = {path: path.stat().st_size for path in directory.glob("*-[0-9]*/*.log")}
    manager = open_ours(directory, config_of)
    shown = views_of(manager)
    shortened = {path.parent.name for path, size in sizes.items() if path.stat().st_size < size}
    cuts = {log.name: log.log_end_offset for log in manager.all_logs() if log.name in shortened}
    manager.shutdown()
    shutil.rmtree(directory)
    return shown, cuts


# -- Kafka at work --


def work_of_kafka(kafka: ApacheKafka, expected: Views) -> None:
    """Our producers resume, transactional ids come back, groups find their offsets, the log cleaner runs."""
    resume_producers(kafka.bootstrap, expected["ours", 0])
    transact(kafka.bootstrap, "transactions", rounds=1)
    transact(kafka.bootstrap, "ours", rounds=1)
    returning = quiet_producer(kafka.bootstrap, transactional_id=LEFT_OPEN)
    returning.init_transactions(30)
    returning.begin_transaction()
    returning.produce(LEFT_OPEN, b"back again", partition=0)
    returning.commit_transaction(30)
    produce(kafka.bootstrap, "codec-gzip", 100, "gzip")
    commit_offsets(kafka.bootstrap, "readers")
    write_keys(kafka.bootstrap, "ours-compacted", 1500)
    await_cleaning(kafka.data_dir, COMPACTED)
    delete_records(kafka.bootstrap, "ours", expected["ours", 0].end)


def resume_producers(bootstrap: str, ours: View) -> None:
    """Kafka has the last sequence and epoch of each of our producers."""
    known = [one for one in ours.producers if one.producer_id in (OUR_PRODUCERS, OUR_PRODUCERS + 1)]
    assert known
    for one in known:
        sequence, epoch = one.last_sequence, one.producer_epoch
        assert send_record(bootstrap, one, epoch, sequence + 2)[0] == OUT_OF_ORDER
        error, offset = send_record(bootstrap, one, epoch, sequence + 1)
        assert error == 0
        assert send_record(bootstrap, one, epoch, sequence + 1) == (0, offset)
        if epoch:
            assert send_record(bootstrap, one, epoch - 1, 0)[0] == OLD_EPOCH


def send_record(bootstrap: str, producer: ProducerSeen, epoch: int, sequence: int) -> tuple[int, int]:
    """Sends Kafka a record of one of our producers."""
    batch = build_batch(
        [(b"k", b"goes on in Kafka", producer.last_timestamp, ())],
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return send(bootstrap, "ours", batch)


def assert_no_warnings(kafka: ApacheKafka, cuts: dict[str, int], *, was_killed: bool) -> None:
    """Kafka writes only the usual log lines about its logs; after a crash also that it truncates them at our `cuts`."""
    log_lines = ENTRY.findall((kafka.directory / "server.log").read_text())
    about_logs = [
        (level, text)
        for level, text, logger in log_lines
        if logger.startswith(ABOUT_LOGS) and "__cluster_metadata" not in text
    ]
    assert len(about_logs) > 50
    warnings = [text for level, text in about_logs if level != "INFO"]
    found = [CUT.fullmatch(text) for text in warnings]
    assert {one[1]: int(one[2]) for one in found if one} == cuts
    assert [text for text, one in zip(warnings, found, strict=True) if not one] == []
    if not was_killed:
        assert [text for _, text in about_logs if RECOVERY.search(text)] == []
