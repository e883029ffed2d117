"""An unreadable file is a finding of its own, and hides no damage elsewhere."""

import errno
from collections.abc import Callable

import pytest

from barnabas.storage.verify.directory import Verification
from barnabas.storage.verify.verifier import MAX_ALIKE, Check, Finding, Findings, Severity
from tests.storage.fault_env import Fault, FaultEnv
from tests.storage.verify.test_detached import assert_same
from tests.storage.verify.test_verifier import files, flip, positions
from tests.storage.verify.verified import DIRECTORY_ID, LOG_DIR, TOPIC, findings, graver, written

CRC_OF = "claims CRC"
PLAIN = f"{LOG_DIR}/plain-3"


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv()
    written(env)
    return env


def failing(path: str, *kinds: str) -> Callable[[int, str, str], Fault | None]:
    """Fail each read of this file or directory."""
    kinds = kinds or ("open", "read_file", "listdir")
    return lambda _number, kind, at: Fault() if at == path and kind in kinds else None


def unreadable(found: list[Finding]) -> list[str]:
    return [one.path for one in found if "cannot be read" in one.problem and one.severity is Severity.ERROR]


def damage_elsewhere(env: FaultEnv) -> str:
    (path,) = files(env, ".log", PLAIN)
    flip(env, path, 70)
    return path


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_an_unreadable_file_of_a_segment(env: FaultEnv, suffix: str) -> None:
    path, elsewhere = files(env, suffix)[0], damage_elsewhere(env)
    env.inject(failing(path))
    found = assert_same(env)
    assert unreadable(found) == [path]
    assert elsewhere in {one.path for one in found if CRC_OF in one.problem}


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_an_unreadable_file_of_a_partition(env: FaultEnv, name: str) -> None:
    path, damaged = f"{TOPIC}/{name}", files(env, ".log")[1]
    flip(env, damaged, 70)
    env.inject(failing(path))
    found = assert_same(env)
    assert unreadable(found) == [path]
    assert damaged in {one.path for one in found if CRC_OF in one.problem}, "and not the partition as a whole"


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "bootstrap.checkpoint",
    ],
)
def test_an_unreadable_file_of_a_log_directory(env: FaultEnv, name: str) -> None:
    path, elsewhere = f"{LOG_DIR}/{name}", damage_elsewhere(env)
    if not env.exists(path):
        env.write_file(path, b"")
    env.inject(failing(path))
    found = findings(env)
    assert unreadable(found) == [path]
    assert elsewhere in {one.path for one in found if CRC_OF in one.problem}


def test_an_unreadable_partition(env: FaultEnv) -> None:
    elsewhere = damage_elsewhere(env)
    env.inject(failing(TOPIC))
    found = findings(env)
    assert unreadable(found) == [TOPIC]
    assert elsewhere in {one.path for one in found if CRC_OF in one.problem}


def test_a_disk_that_fails_in_the_middle_of_a_segment(env: FaultEnv) -> None:
    """There is no finding about what follows, because the end of the segment is unknown."""
    path = files(env, ".log")[1]
    env.inject(failing(path, "pread"))
    (finding,) = graver(assert_same(env))
    assert (finding.path, finding.check) == (path, Check.BATCHES)


def test_a_segment_replaced_by_compaction_during_the_read(env: FaultEnv) -> None:
    """Its name is absent between two renames, and exists again at the next look."""
    path, left = files(env, ".log")[1], [1]

    def renamed(_number: int, kind: str, at: str) -> Fault | None:
        return Fault(errno.ENOENT) if kind == "open" and at == path and left and left.pop() else None

    whole = Verification(env)
    assert list(whole.run([LOG_DIR])) == []
    env.inject(renamed)
    verification = Verification(env)
    assert list(verification.run([LOG_DIR])) == []
    assert not left
    assert verification.counts.as_dict() == whole.counts.as_dict()


# -- very many findings --


def test_a_segment_of_garbage_has_a_hundred_findings() -> None:
    gathered = Findings("/p")
    for number in range(5000):
        gathered.error("/p/x.log", "no batch", offset=number, check=Check.CRC)
    gathered.error("/p/x.log", "no order", check=Check.OFFSETS)
    gathered.error("/p/y.log", "no batch", check=Check.CRC)
    assert len(gathered.all) == MAX_ALIKE + 3
    assert [one.offset for one in gathered.all[:MAX_ALIKE]] == list(range(MAX_ALIKE))
    assert "more than 100" in gathered.all[MAX_ALIKE].problem


def test_few_findings_are_all_reported(env: FaultEnv) -> None:
    path = files(env, ".log")[0]
    starts = positions(env, path)
    for at in starts:
        flip(env, path, at + 18)
    assert len([one for one in findings(env) if one.check is Check.CRC]) == len(starts)


# -- several brokers --


def of_node(env: FaultEnv, log_dir: str, node_id: int) -> None:
    """The same partitions again, as on a follower."""
    written(env, log_dir)
    path = f"{log_dir}/meta.properties"
    text = env.read_file(path).replace(b"node.id=1", b"node.id=%d" % node_id)
    other = DIRECTORY_ID[:-2] + "BA" if node_id > 1 else DIRECTORY_ID
    env.write_file(path, text.replace(DIRECTORY_ID.encode(), other.encode()))


def found_in(env: FaultEnv, *, is_of_one_broker: bool) -> set[Check]:
    verification = Verification(env, is_of_one_broker=is_of_one_broker)
    return {one.check for one in verification.run(["/one", "/two"])}


def test_replicas_on_two_brokers_have_no_finding() -> None:
    env = FaultEnv()
    of_node(env, "/one", 1)
    of_node(env, "/two", 2)
    assert found_in(env, is_of_one_broker=False) == set()
    assert found_in(env, is_of_one_broker=True) == {Check.NAMES, Check.IDENTITY}


def test_a_partition_twice_on_one_broker_is_a_finding() -> None:
    env = FaultEnv()
    of_node(env, "/one", 1)
    of_node(env, "/two", 1)
    assert found_in(env, is_of_one_broker=False) == {Check.NAMES, Check.IDENTITY}
