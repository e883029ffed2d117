"""`barnabas storage` beside kafka-storage: the same arguments give the same directories, output, errors and status."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from barnabas.broker.metadata.snapshot_files import read_snapshot
from barnabas.cli.storage import storage
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import MetaProperties
from tests.conformance.java_admin import JavaAdmin, JavaError

pytestmark = pytest.mark.conformance

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
VOTER_ID = "JEXY6aqzQY-32P5TStzaFg"
BASE = """\
process.roles=broker,controller
node.id=7
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
"""
STATIC, DYNAMIC = "static", "dynamic"
QUORUM = {
    STATIC: "controller.quorum.voters=7@127.0.0.1:9093\n",
    DYNAMIC: "controller.quorum.bootstrap.servers=127.0.0.1:9093\n",
}
FORMAT = ("format", "-t", CLUSTER_ID)
ALICE = "SCRAM-SHA-256=[name=alice,password=alice-secret,salt=c2FsdA==]"
BOB = 'SCRAM-SHA-512=[name=bob,iterations=8192,salt="N3E=",saltedpassword="YCE="]'


class Outcome(NamedTuple):
    """The result of a run, without random ids and the keys of passwords that Kafka prints."""

    status: int
    out: list[str]
    err: str
    tree: dict[str, object]


class Place:
    """A folder with a configuration whose log directories are in it."""

    def __init__(self, root: Path, quorum: str) -> None:
        self.root = root
        root.mkdir()
        self.properties = root / "server.properties"
        self.properties.write_text(f"{BASE}{QUORUM[quorum]}log.dirs={root}/b,{root}/a\n")

    def outcome(self, status: int, out: str, err: str) -> Outcome:
        lines = [self._plain(line) for line in out.splitlines()]
        # Kafka keeps directories in a hash table: their order is arbitrary, and so is which one an error names.
        lines.sort(key=lambda line: line if line.startswith("Formatting ") else "")
        error = re.sub(r"^(Exception in thread \S+ )?(java|org)\.[\w.]+: ", "", self._plain(err)).splitlines()
        first = re.sub("ROOT/[ab]", "ROOT/DIR", error[0]) if error else ""
        return Outcome(status, lines, first, self._tree())

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.root), "ROOT")
        text = re.sub(r"directory\.id=[\w-]{22}", "directory.id=ID", text)
        return re.sub(r"(salt|storedKey|serverKey)=(\[[^]]*]|\.\.\.)", r"\1", text)

    def _tree(self) -> dict[str, object]:
        files = sorted(path for path in self.root.rglob("*") if path.is_file() and path != self.properties)
        return {str(path.relative_to(self.root)): _contents(path) for path in files}


def _contents(path: Path) -> object:
    if path.name == "meta.properties":
        found = MetaProperties.read(RealEnv(), str(path.parent))
        assert found is not None
        directory_id = found.directory_id if found.directory_id == VOTER_ID else len(found.directory_id)
        return (found.cluster_id, found.node_id, directory_id, found.others, _keys(path))
    snapshot = read_snapshot(RealEnv(), str(path))
    shapes = [
        (one.base_offset, one.record_count, one.is_control, one.partition_leader_epoch)
        for one in batches(path.read_bytes())
        if isinstance(one, RecordBatch)
    ]
    voters = snapshot.control.voters
    for voter in () if voters is None else voters.voters:
        if voter.voter_id == 7 and "-s" in str(path):  # a random id
            voter.voter_directory_id = bytes(16)
    return (snapshot.timestamp_ms > 0, snapshot.control.kraft_version, repr(voters), shapes, _plain(path))


def _keys(path: Path) -> list[str]:
    return [line.partition("=")[0] for line in path.read_text().splitlines() if not line.startswith("#")]


def _plain(path: Path) -> list[str]:
    records = read_snapshot(RealEnv(), str(path)).records
    for record in records:
        if isinstance(record, UserScramCredentialRecord) and len(record.salt) > 4:
            record.salt = record.stored_key = record.server_key = b"random"
    return [repr(record) for record in records]


def ours(place: Place, words: tuple[str, ...]) -> Outcome:
    done = CliRunner().invoke(storage, [*words, "-c", str(place.properties)])
    return place.outcome(done.exit_code, done.stdout, done.stderr)


def kafkas(java: JavaAdmin, place: Place, words: tuple[str, ...]) -> Outcome:
    try:
        run = java.tool("kafka-storage", *words, "-c", str(place.properties))
    except JavaError as error:  # an exception that the tool does not catch, which ends a JVM with 1
        return place.outcome(1, "", str(error.args[1]))
    return place.outcome(run.status, run.out, run.err)


CASES: list[tuple[str, tuple[tuple[str, ...], ...]]] = [
    (STATIC, (("info",), FORMAT, ("info",))),
    (STATIC, (FORMAT, FORMAT)),
    (STATIC, (FORMAT, (*FORMAT, "-g"))),
    (STATIC, (FORMAT, ("format", "-t", "another", "-g"))),
    (STATIC, ((*FORMAT, "-N"),)),
    (STATIC, ((*FORMAT, "--standalone"),)),
    (STATIC, ((*FORMAT, "-I", f"7@127.0.0.1:8082:{VOTER_ID}"),)),
    (STATIC, ((*FORMAT, "--feature", "kraft.version=0"),)),
    (STATIC, ((*FORMAT, "--feature", "kraft.version=1"),)),
    (STATIC, ((*FORMAT, "--feature", "group.version"),)),
    (STATIC, ((*FORMAT, "--feature", "group.version=x"),)),
    (STATIC, ((*FORMAT, "--feature", "group.version=99999"),)),
    (STATIC, ((*FORMAT, "--feature", "group.version=2"),)),
    (STATIC, ((*FORMAT, "--feature", "foo=1"),)),
    (STATIC, ((*FORMAT, "--feature", "group.version=0", "-f", "transaction.version=1"),)),
    (STATIC, ((*FORMAT, "-f", "metadata.version=20"),)),
    (STATIC, ((*FORMAT, "-f", "metadata.version=31"),)),
    (STATIC, ((*FORMAT, "-f", "metadata.version=99"),)),
    (STATIC, ((*FORMAT, "-r", "4.1", "-f", "metadata.version=27"),)),
    (STATIC, ((*FORMAT, "-r", "3.9", "-f", "eligible.leader.replicas.version=1"),)),
    *(
        (STATIC, ((*FORMAT, "-r", version),))
        for version in ("3.3", "3.7-IV1", "3.9.1", "4.0", "4.1", "4.3.1")
    ),
    *((STATIC, ((*FORMAT, "-r", version),)) for version in ("3.0", "4.4-IV0", "x", "4")),
    (STATIC, ((*FORMAT, "-S", ALICE, "-S", BOB),)),
    (STATIC, ((*FORMAT, "-r", "3.4", "-S", ALICE),)),
    *(
        (STATIC, ((*FORMAT, "-S", f"SCRAM-SHA-256={text}"),))
        for text in (
            "[name=alice]",
            "[password=alice]",
            "[name=a,password=b,iterations=4095]",
            "[name=a,password=b,iterations=16385]",
            "[name=a,password=b,iterations=many]",
            "[name=a,password=b,salt=???]",
            "[name=a,password=b,colour=red]",
            "[name=a,saltedpassword=YCE=]",
            "[name=a",
            "name=a]",
            "[name]",
        )
    ),
    (STATIC, ((*FORMAT, "-S", "alice"),)),
    (STATIC, ((*FORMAT, "-S", "SCRAM-SHA-1=[name=a,password=b]"),)),
    (DYNAMIC, (FORMAT,)),
    (DYNAMIC, ((*FORMAT, "-N"),)),
    (DYNAMIC, ((*FORMAT, "-s"), ("info",))),
    (DYNAMIC, ((*FORMAT, "-s", "-f", "kraft.version=0"),)),
    (DYNAMIC, ((*FORMAT, "-N", "-f", "kraft.version=1"),)),
    (DYNAMIC, ((*FORMAT, "-I", f"7@127.0.0.1:8082:{VOTER_ID}"),)),
    (DYNAMIC, ((*FORMAT, "-I", f"9@one:8082:{VOTER_ID},8@other:8082:AAAAAAAAAAAAAAAAAAAAAQ"),)),
    *(
        (DYNAMIC, ((*FORMAT, "-I", text),))
        for text in (
            "",
            "x",
            "x@h:1:A",
            "7@",
            "7@h",
            "7@[::1:1:A",
            "7@[::1]1:A",
            "7@h:1",
            "7@h:x:A",
            "7@h:70000:A",
            "7@h:1:A",
            f"7@h:1:{VOTER_ID},7@h:2:{VOTER_ID}",
        )
    ),
]


@pytest.mark.parametrize(("quorum", "runs"), CASES, ids=lambda value: str(value)[:60])
def test_same_arguments_have_the_same_effect(
    quorum: str, runs: tuple[tuple[str, ...], ...], java: JavaAdmin, tmp_path: Path
) -> None:
    name = "dynamic-s" if any("-s" in words for words in runs) else "place"
    theirs, mine = Place(tmp_path / f"kafka-{name}", quorum), Place(tmp_path / f"ours-{name}", quorum)
    for words in runs:
        assert ours(mine, words) == kafkas(java, theirs, words)


LOOKUPS: list[tuple[str, ...]] = [
    ("version-mapping",),
    *(("version-mapping", "-r", text) for text in ("3.3", "3.9.1", "4.0-IV2", "4.1", "4.4-IV0", "3.0", "x")),
    *(
        ("feature-dependencies", "-f", text)
        for text in (
            "metadata.version=17",
            "metadata.version=99",
            "eligible.leader.replicas.version=1",
            "transaction.version=2",
            "group.version=9",
            "group.version=x",
            "group.version",
            "foo=1",
        )
    ),
    ("feature-dependencies", "-f", "group.version=1", "-f", "kraft.version=1", "-f", "foo=1"),
]


@pytest.mark.parametrize("words", LOOKUPS, ids=" ".join)
def test_lookups_print_the_same(words: tuple[str, ...], java: JavaAdmin) -> None:
    run = java.tool("kafka-storage", *words)
    done = CliRunner().invoke(storage, list(words))
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (run.status, run.out, run.err.strip())


def test_random_uuid_prints_a_uuid(java: JavaAdmin) -> None:
    pattern = r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n"
    assert re.fullmatch(pattern, java.tool("kafka-storage", "random-uuid").out)
    assert re.fullmatch(pattern, CliRunner().invoke(storage, ["random-uuid"]).stdout)
