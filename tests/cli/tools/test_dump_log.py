"""dump-log alone; tests/conformance compares it with Kafka's tool."""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import main
from barnabas.cli.tools.kafka_json import dumps
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.group_state import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.messages.remote_log_records import RemotePartitionDeleteMetadataRecord
from barnabas.protocol.messages.topic_records import TopicRecord
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.storage.env import RealEnv
from tests.cli.tools.trees import make_read_only, tree
from tests.protocol.records.message_sets import message, message_set
from tests.storage.verify.verified import written
from tests.support.chance import seed_or

T = 1_700_000_000_000
LOG = "00000000000000000007.log"
SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["dump-log", *map(str, arguments)])


def lines(*arguments: str | Path) -> list[str]:
    """The lines printed for a readable file."""
    result = dump(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(*arguments, "--json")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / LOG
    path.write_bytes(
        build_batch(
            [(b"k", b"hello", T, [("h", b"1"), ("i", None)]), (None, None, T + 1, [])],
            base_offset=7,
            partition_leader_epoch=3,
            producer_id=1000,
            producer_epoch=0,
            base_sequence=5,
            is_transactional=True,
        )
        + end_transaction_marker(
            commit=False,
            coordinator_epoch=2,
            producer_id=1000,
            producer_epoch=0,
            timestamp=T + 2,
            base_offset=9,
        )
    )
    return path


# -- lines --

BATCH = (
    "baseOffset: 7 lastOffset: 8 count: 2 baseSequence: 5 lastSequence: 6 producerId: 1000 producerEpoch: 0 "
    "partitionLeaderEpoch: 3 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty position: 0 "
    f"CreateTime: {T + 1} size: "
)


def test_batches_are_printed(log: Path) -> None:
    found = lines("--files", log)
    assert found[:2] == [f"Dumping {log}", "Log starting offset: 7"]
    assert found[2].startswith(BATCH)
    assert found[2].endswith("isvalid: true")
    assert "isControl: true" in found[3]
    assert len(found) == 4


def test_records_are_printed(log: Path) -> None:
    found = lines(log, "--deep-iteration")
    metadata = [line for line in found if line.startswith("|")]
    assert metadata == [
        f"| offset: 7 CreateTime: {T} keySize: 1 valueSize: 5 sequence: 5 headerKeys: [h,i]",
        f"| offset: 8 CreateTime: {T + 1} keySize: -1 valueSize: -1 sequence: 6 headerKeys: []",
        f"| offset: 9 CreateTime: {T + 2} keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: ABORT coordinatorEpoch: 2",
    ]


def test_keys_and_values_are_printed(log: Path) -> None:
    found = lines(log, "--print-data-log")
    assert found[3].endswith("headerKeys: [h,i] key: k payload: hello")
    assert found[4].endswith("headerKeys: []")
    bare = lines(log, "--print-data-log", "--skip-record-metadata")
    assert bare[3:5] == ["| key: k payload: hello", ""]


def test_non_consecutive_offsets_are_printed_at_the_end(log: Path) -> None:
    result = dump(log, "--deep-iteration")
    assert result.stderr.splitlines() == [f"Non-consecutive offsets in {log}", "  -1 is followed by 7"]


def test_message_sets_are_printed(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    packed = [(b"k%d" % number, b"v", T + number) for number in range(2)]
    path.write_bytes(
        message(b"a", b"b", magic=0)
        + message_set(packed, magic=1, base_offset=1, compression=CompressionType.GZIP)
        + message(None, b"z", magic=1, offset=3, timestamp=T)
    )
    found = lines(path, "--deep-iteration")
    assert found[2].startswith("offset: 0 position: 0 NoTimestampType: -1 size: ")
    assert "magic: 0 compresscodec: none crc: " in found[2]
    assert found[3].startswith("| offset: 0 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true crc: ")
    assert "magic: 1 compresscodec: gzip" in found[4]
    assert [line.split(" keySize")[0] for line in found[5:7]] == [
        f"| offset: {number} CreateTime: {T + number - 1}" for number in (1, 2)
    ]
    assert len(found) == 9


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_log_that_ends_within_a_batch(log: Path, cut: int) -> None:
    """The last batch is being written: its bytes are counted and not shown."""
    size = log.stat().st_size
    whole = lines(log)
    log.write_bytes(log.read_bytes()[:-cut])
    found = lines(log)
    assert found[:3] == whole[:3]
    assert (
        found[3]
        == f"Found {size - cut - int(whole[3].split('position: ')[1].split()[0])} invalid bytes at the end of {LOG}"
    )


def test_preallocated_room_at_the_end_is_no_problem(log: Path) -> None:
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert lines(log)[-1] == f"Found 1000 invalid bytes at the end of {LOG}"


def test_a_limit_of_bytes(log: Path) -> None:
    assert len(lines(log, "--max-bytes", "150")) == 3


# -- errors and damage --


def test_a_wrong_checksum_is_shown(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert lines(log)[2].endswith("isvalid: false")


def test_an_unreadable_batch_is_reported_and_the_dump_continues(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[22] |= 7  # a codec that does not exist
    log.write_bytes(data)
    result = dump(log)
    assert result.exit_code == 1
    assert "error: " in result.stderr
    assert "unknown compression codec 7" in result.stderr
    assert "isControl: true" in result.stdout


def test_an_invalid_length_ends_the_file_and_not_the_dump(log: Path, tmp_path: Path) -> None:
    other = tmp_path / f"{9:020d}.log"
    other.write_bytes(log.read_bytes())
    data = bytearray(log.read_bytes())
    data[8:12] = b"\0\0\0\1"
    log.write_bytes(data)
    result = dump(log, other)
    assert result.exit_code == 1
    assert f"no batch begins at position 0 (`barnabas log verify {log.parent}` finds" in result.stderr
    assert f"Dumping {other}" in result.stdout


def test_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    result = dump(tmp_path / "missing.log", tmp_path / f"{0:020d}.log")
    assert result.exit_code == 1
    assert "No such file" in result.stderr
    assert "does not begin with the base offset" in result.stderr
    (tmp_path / "notes.txt").write_text("x")
    unknown = dump(tmp_path / "notes.txt")
    assert unknown.exit_code == 0
    assert unknown.stderr == f"Ignoring unknown file {tmp_path / 'notes.txt'}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["--value-decoder-class", "my.Decoder", "x.log"], ["--max-bytes", "x", "y"]]
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str]) -> None:
    assert dump(*arguments).exit_code == 2


def test_decoder_classes_of_users_are_rejected() -> None:
    result = dump("x.log", "--value-decoder-class", "my.Decoder")
    assert "my.Decoder" in result.stderr
    assert "LongDecoder" in result.stderr


# -- indexes and snapshots --


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory of a broker that has stopped."""
    written(RealEnv(), str(tmp_path / "data"))
    return tmp_path / "data"


def test_indexes_and_snapshots_are_printed(directory: Path) -> None:
    for suffix, beginning in (
        ("index", "offset: "),
        ("timeindex", "timestamp: "),
        ("txnindex", "version: 0 producerId: 7 "),
        ("snapshot", "producerId: "),
    ):
        path = max(directory.glob(f"orders-0/*.{suffix}"), key=lambda path: path.stat().st_size)
        found = lines(path)
        assert found[0] == f"Dumping {path}"
        assert found[1].startswith(beginning)


def test_a_directory_is_expanded_to_its_segments(directory: Path) -> None:
    partition = directory / "orders-0"
    logs = sorted(partition.glob("*.log"))
    assert [line for line in lines(partition) if line.startswith("Dumping")] == [
        f"Dumping {path}" for path in logs
    ]
    indexes = sorted([*partition.glob("*.index"), *partition.glob("*.timeindex")])
    found = lines("--index-sanity-check", partition)
    assert [line for line in found if line.startswith("Dumping")] == [f"Dumping {path}" for path in indexes]
    assert all(line.endswith(("passed sanity check.", "is empty.")) for line in found[1::2])


def test_an_unreadable_directory_is_reported_and_the_dump_continues(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a broker of another user."""
    closed = directory / "orders-0"
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path == str(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    result = dump(closed, directory / "plain-3")
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert result.stderr == f"error: {closed}: Permission denied\n"
    assert "Dumping" in result.stdout


def test_every_form_of_the_files_option(directory: Path) -> None:
    one, two, three, *_ = sorted(directory.glob("orders-0/*.log"))
    found = lines("--files", f"{one},{two}", "--files", f"{three},", one)
    assert [line for line in found if line.startswith("Dumping")] == [
        f"Dumping {path}" for path in (one, two, three, one)
    ]


def test_mismatches_of_an_index_are_printed_at_the_end(directory: Path) -> None:
    path = next(path for path in sorted(directory.glob("orders-0/*.index")) if path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[3] += 1
    path.write_bytes(data)
    result = dump(path, "--verify-index-only")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"Dumping {path}"]
    assert result.stderr.splitlines()[0] == f"Mismatches in :{path}"
    assert result.stderr.splitlines()[1].startswith("  Index offset: ")


def test_a_corrupt_snapshot_is_reported(directory: Path) -> None:
    path = sorted(directory.glob("orders-0/*.snapshot"))[-1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = dump(path)
    assert result.exit_code == 1
    assert "it has the wrong CRC" in result.stderr


def test_damage_is_reported_without_a_traceback(directory: Path) -> None:
    """Any bit, any byte, or the end of any file is changed."""
    rng = Random(seed_or(1))
    files = [
        path for path in sorted(directory.glob("*-*/*.*")) if path.suffix in SUFFIXES and path.stat().st_size
    ]
    for _ in range(200):
        path = rng.choice(files)
        whole = path.read_bytes()
        data = bytearray(whole)
        at = rng.randrange(min(len(data), 2000))
        match rng.randrange(3):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.randrange(256)
            case 2:
                del data[at:]
        path.write_bytes(data)
        result = dump(path, "--deep-iteration", *rng.choice(([], ["--json"], ["--index-sanity-check"])))
        assert result.exception is None or isinstance(result.exception, SystemExit), (path, result.exception)
        assert result.exit_code == ("error: " in result.stderr or '"type":"problem"' in result.stdout)
        path.write_bytes(whole)


def test_dump_log_changes_no_file(directory: Path) -> None:
    make_read_only(directory)
    before = tree(directory)
    for path in sorted(directory.glob("*-*/*")):
        dump(path, "--print-data-log")
        dump(path, "--index-sanity-check", "--json")
    assert tree(directory) == before


# -- decoders --


def test_the_decoder_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([(struct.pack(">i", -5), struct.pack(">q", 1 << 40), T, [])], base_offset=0))
    package = "org.apache.kafka.tools.api"
    classes = [
        "--key-decoder-class",
        f"{package}.IntegerDecoder",
        "--value-decoder-class",
        f"{package}.LongDecoder",
    ]
    assert lines(path, *classes)[-1].endswith("key: -5 payload: 1099511627776")
    record = objects(path, *classes)[-1]
    assert (record["key"], record["value"]) == (-5, 1 << 40)
    too_short = dump(path, "--key-decoder-class", f"{package}.LongDecoder")
    assert too_short.exit_code == 1
    assert "4 bytes are too few" in too_short.stderr


def group_records() -> list[tuple[bytes, bytes | None]]:
    commit = encode(OffsetCommitValue(offset=42, leader_epoch=1, metadata="m", commit_timestamp=T), 3)
    subscription = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", -1)
    member = GroupMetadataValue.MemberMetadata(member_id="m", subscription=subscription, assignment=b"")
    group = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", members=[member])
    return [
        (b"\0\1" + encode(OffsetCommitKey(group="g", topic="t", partition=3), 0), b"\0\3" + commit),
        (b"\0\1" + encode(OffsetCommitKey(group="g", topic="t", partition=4), 0), None),
        (b"\0\2" + encode(GroupMetadataKey(group="g"), 0), b"\0\3" + encode(group, 3)),
        (b"\0\x63", b""),
        (b"\0\1\0", b"\0\3"),
        (b"\0\1" + encode(OffsetCommitKey(group="g", topic="t", partition=4), 0), b"\0\3\0"),
    ]


def test_the_decoder_of_offsets(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([(key, value, T, []) for key, value in group_records()], base_offset=0))
    found = [line.split("headerKeys: []")[1] for line in lines(path, "--offsets-decoder")[3:]]
    key = '{"type":"1","data":{"group":"g","topic":"t","partition":%d}}'
    assert found[0] == (
        f" key: {key % 3} payload: "
        f'{{"version":"3","data":{{"offset":42,"leaderEpoch":1,"metadata":"m","commitTimestamp":{T}}}}}'
    )
    assert found[1] == f" key: {key % 4} payload: <DELETE>"
    assert '"subscription":{"topics":["t"],"userData":null}' in found[2]
    assert '"assignment":""' in found[2]
    assert found[3] == " key: Unknown record type 99 at offset 3, skipping."
    assert found[4].startswith(
        " key: Error at offset 4, skipping. Could not read record with version 0 from key's"
    )
    assert found[5].startswith(
        " key: Error at offset 5, skipping. Could not read record with version 3 from value's"
    )


def test_records_without_keys_are_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([(None, b"v", T, [])], base_offset=0))
    result = dump(path, "--transaction-log-decoder")
    assert result.exit_code == 1
    assert "message had a missing key" in result.stderr


def test_the_decoder_of_cluster_metadata(tmp_path: Path) -> None:
    path = tmp_path / f"{5:020d}-{2:010d}.checkpoint"
    topic = b"\1\2\0" + encode(TopicRecord(name="t", topic_id=bytes(range(16))), 0)
    path.write_bytes(build_batch([(None, topic, T, []), (None, b"\2", T, [])], base_offset=0))
    found = lines(path, "--cluster-metadata-decoder")
    assert found[1] == "Snapshot end offset: 5, epoch: 2"
    assert found[3].endswith(
        ' payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":"AAECAwQFBgcICQoLDA0ODw"}}'
    )
    assert (
        "Error at 1, skipping. Could not deserialize metadata record due to unknown frame version 2"
        in found[4]
    )
    assert objects(path, "--cluster-metadata-decoder")[2]["value"]["type"] == "TOPIC_RECORD"


def test_remote_log_metadata(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    record = RemotePartitionDeleteMetadataRecord(broker_id=3, remote_partition_delete_state=1)
    value = b"\1\2\0" + encode(record, 0)
    path.write_bytes(build_batch([(None, value, T, []), (None, b"\2", T, [])], base_offset=0))
    found = lines(path, "--remote-log-metadata-decoder")
    assert (
        ' payload: {"type":"RemotePartitionDeleteMetadataRecord","version":0,"data":{"topicIdPartition":'
        in found[3]
    )
    assert " payload: Error at offset 1, skipping. Could not deserialize" in found[4]
    tree = objects(path, "--remote-log-metadata-decoder")[2]["value"]
    assert (tree["data"]["brokerId"], tree["data"]["remotePartitionDeleteState"]) == (3, 1)


def test_json_as_jackson_writes_it() -> None:
    assert dumps({"a": [None, True, 1, 2.0, 'q"\\\n\x01\x1f\u20ac'], "b": float("nan")}) == (
        '{"a":[null,true,1,2.0,"q\\"\\\\\\n\\u0001\\u001F\u20ac"],"b":"NaN"}'
    )


# -- --json --


def test_json_lines(log: Path) -> None:
    found = objects(log, "--print-data-log")
    assert [one["type"] for one in found] == [
        "file",
        "batch",
        "record",
        "record",
        "batch",
        "record",
        "non_consecutive",
    ]
    assert found[0] == {"type": "file", "path": str(log), "kind": "log", "base_offset": 7}
    assert found[1]["producer_id"] == 1000
    assert found[1]["delete_horizon_ms"] is None
    assert found[2]["key"] == "k"
    assert (found[2]["value"], found[2]["value_encoding"]) == ("hello", "utf8")
    assert found[2]["headers"] == [
        {"key": "h", "value": "1", "value_encoding": "utf8"},
        {"key": "i", "value": None},
    ]
    assert found[3]["key"] is found[3]["value"] is found[3]["value_size"] is None
    assert found[5]["control"] == {"name": "ABORT", "number": 0, "coordinator_epoch": 2}


def test_json_of_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([(b"\xff", b"\0\xfe", T, [])], base_offset=0))
    record = objects(path, "--print-data-log")[-1]
    assert (record["key"], record["key_encoding"]) == ("/w==", "base64")
    assert (record["value"], record["value_encoding"]) == ("AP4=", "base64")


def test_json_of_names_that_are_not_utf8(log: Path) -> None:
    """Names of files are bytes, and each line is valid JSON."""
    odd = log.parent / os.fsdecode(b"odd\xff")
    odd.mkdir()
    log = log.rename(odd / log.name)
    first, *_, last = dump(log, "--deep-iteration", "--json").stdout_bytes.decode().splitlines()
    assert json.loads(first)["path"] == str(log)
    assert json.loads(last)["path"] == str(log)
    assert json.loads(last)["type"] == "non_consecutive"


def test_json_of_everything_in_a_directory(directory: Path) -> None:
    every = sorted(directory.glob("*-*/*.*"))
    found = objects(*every, "--deep-iteration")
    kinds = {one["type"] for one in found}
    assert {
        "file",
        "batch",
        "record",
        "offset_entry",
        "time_entry",
        "aborted_transaction",
        "producer",
    } <= kinds
    problem = [json.loads(line) for line in dump(directory / "missing.log", "--json").stdout.splitlines()]
    assert problem == [
        {"type": "problem", "path": str(directory / "missing.log"), "message": problem[0]["message"]}
    ]


# -- the process --


def test_a_closed_output_ends_dump_log_without_a_message(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([(b"k", Random(1).randbytes(50), T, [])] * 20000, base_offset=0))
    command = f"{sys.executable} -m barnabas.cli.main dump-log --print-data-log --files {path} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == f"Dumping {path}\n"
    assert done.stderr == ""


def test_serve_does_not_import_the_tools() -> None:
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from barnabas.cli.main import main\n"
        "assert CliRunner().invoke(main, ['serve', '--show-config']).exit_code == 0\n"
        "import barnabas.broker.startup.server\n"
        "found = [name for name in sys.modules if name.startswith(('barnabas.cli.tools', "
        "'barnabas.storage.verify.verifier'))]\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
