"""Files that tasks cannot read or find are reported, and hide no finding elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from barnabas.pipeline.audit.audit import AuditResult, audit
from barnabas.pipeline.audit.engines import Engine, LocalEngine
from barnabas.pipeline.audit.partition import PartitionReport
from barnabas.pipeline.audit.plan import LAST_OFFSET, AuditOptions, PartitionPlan, SegmentTask
from barnabas.pipeline.audit.segment import _aborted, examine
from barnabas.pipeline.report import audit_report
from barnabas.storage.env import Env
from barnabas.storage.verify.verifier import Situation
from tests.pipeline.audit.damages import DAMAGES, files
from tests.pipeline.audit.test_audit import OPTIONS, audited, gapped
from tests.pipeline.report.reading import read
from tests.storage.fault_env import Fault, FaultEnv
from tests.storage.helpers import T0, make_batch
from tests.storage.verify.verified import LOG_DIR, TOPIC, written

PLAIN = f"{LOG_DIR}/plain-3"
HOUR_MS = 3_600_000


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv()
    written(env)
    return env


def failing(*paths: str) -> Callable[[int, str, str], Fault | None]:
    return lambda _number, kind, at: (
        Fault() if at in paths and kind in {"open", "read_file", "listdir", "pread"} else None
    )


def test_a_partition_that_cannot_be_read_does_not_hide_the_others(env: FaultEnv) -> None:
    path = DAMAGES["crc_of_a_batch"].do(env, 0)
    env.inject(failing(PLAIN))
    result = audited(env)
    problems = {row["path"]: row["problem"] for row in result.findings}
    assert "claims CRC" in problems[path]
    assert "cannot be read" in problems[PLAIN]
    assert [(row["topic"], row["errors"]) for row in result.partitions] == [("orders", 1), ("plain", 1)]


def test_an_unreadable_segment_does_not_hide_the_others(env: FaultEnv) -> None:
    first, second, third = files(env, ".log")[:3]
    env.inject(failing(second))
    (found,) = audited(env).findings
    assert (found["path"], found["check"], found["severity"]) == (second, "batches", "error")
    env.inject(None)
    damaged = DAMAGES["body_of_a_batch"].do(env, 0)
    assert damaged in {first, third}
    env.inject(failing(second))
    assert {row["path"] for row in audited(env).findings} == {second, damaged}


# -- machines that do not see what the driver sees --


class Blind:
    """An engine whose machines see other files: `env` in the first examination, and `then` in the second."""

    def __init__(self, env: Env, then: Env) -> None:
        self._envs = [env, then]

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
        return LocalEngine(self._envs.pop(0)).run(plans, options)


class HidingEnv(FaultEnv):
    """The same files, without one."""

    def __init__(self, of: FaultEnv, hidden: str) -> None:
        super().__init__()
        self.root = of.root
        self._hidden = hidden

    def operation(self, kind: str, path: str) -> Fault | None:
        if path == self._hidden:
            raise FileNotFoundError(2, "not here", path)
        return super().operation(kind, path)

    def exists(self, path: str) -> bool:
        return path != self._hidden and super().exists(path)


def with_engine(env: FaultEnv, engine: Engine) -> AuditResult:
    return audit(env, [LOG_DIR], OPTIONS, engine)


def test_files_missing_on_all_machines_are_an_error(env: FaultEnv) -> None:
    result = with_engine(env, Blind(FaultEnv(), FaultEnv()))
    assert {(row["path"], row["severity"]) for row in result.findings} == {(TOPIC, "error"), (PLAIN, "error")}
    assert all("has not found files that exist here" in row["problem"] for row in result.findings)
    assert [(row["topic"], row["records"]) for row in result.partitions] == [("orders", 0), ("plain", 0)]
    page = audit_report.page_of(result)
    assert page.tone == "bad"
    read(page)


def test_files_missing_on_one_machine_are_reported(env: FaultEnv) -> None:
    hiding = HidingEnv(env, files(env, ".log")[1])
    result = with_engine(env, Blind(hiding, hiding))
    assert "has not found files that exist here" in "".join(row["problem"] for row in result.findings)
    assert {row["path"] for row in result.findings if row["severity"] == "error"} == {TOPIC}


def test_a_partition_with_new_files_is_examined_again(env: FaultEnv) -> None:
    """Compaction has created the files after the task listed them."""
    result = with_engine(env, Blind(HidingEnv(env, files(env, ".log")[1]), env))
    assert result.findings == []
    assert result.counts == audited(env).counts


# -- time passes --


@pytest.mark.parametrize(("hours", "checks"), [(0, {"timestamps"}), (3, set())])
def test_records_written_during_a_long_audit_are_not_in_the_future(hours: int, checks: set[str]) -> None:
    env = FaultEnv()
    gapped(env, make_batch(b"v", base_offset=0, epoch=0, timestamp=T0 + 2 * HOUR_MS))
    env.time_ms = T0 + hours * HOUR_MS
    assert {row["check"] for row in audited(env, TOPIC).findings} == checks


# -- names, and where they belong --


def test_findings_belong_to_their_directory_and_not_to_one_with_its_name_as_prefix() -> None:
    env = FaultEnv()
    for path in ("/data", "/data2"):
        written(env, path)
        env.write_file(f"{path}/notes.txt", b"")
    found = {row["path"]: row["log_dir"] for row in audited(env, "/data", "/data2").findings}
    assert found["/data/notes.txt"] == "/data"
    assert found["/data2/notes.txt"] == "/data2"


def test_names_that_are_not_utf_8_are_reported(env: FaultEnv) -> None:
    """A name is bytes: caf\\xe9 in latin-1 is no UTF-8."""
    env.write_file(f"{LOG_DIR}/caf\udce9", b"")
    result = audited(env)
    (found,) = result.findings
    assert found["path"] == f"{LOG_DIR}/caf\\xe9"
    assert found["path"] in read(audit_report.page_of(result)).html.encode().decode()


# -- memory --


def test_keys_in_many_parts_are_the_same_keys(env: FaultEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = audited(env)
    monkeypatch.setattr("barnabas.pipeline.audit.plan.RECORDS_OF_A_PART", 5)
    monkeypatch.setattr("barnabas.pipeline.audit.plan.BYTES_OF_A_RECORD", 1)
    parts: set[int] = set()

    class Watched:
        def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
            parts.update(task.parts for plan in plans for task in plan.tasks)
            return LocalEngine(env).run(plans, options)

    assert audit(env, [LOG_DIR], OPTIONS, Watched()) == whole
    assert max(parts) > 5


def test_producer_states_of_a_segment_are_pickled_compressed() -> None:
    """For small batches of an idempotent producer the headers are a large part of the log."""
    env = FaultEnv()
    count = 300
    gapped(env, *(make_batch(b"v", base_offset=at, epoch=0, producer=(7, 0, at)) for at in range(count)))
    followed: list[int] = []

    class Watched:
        def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
            for plan in plans:
                followed.extend(
                    len(examine(env, task, options)[0].verification.followed) for task in plan.tasks
                )
            return LocalEngine(env).run(plans, options)

    assert audit(env, [TOPIC], OPTIONS, Watched()).findings == []
    assert 0 < sum(followed) < 61 * count / 2


def test_a_segment_reads_only_its_own_aborted_transactions(env: FaultEnv) -> None:
    """Reading those of all later segments would be quadratic in the number of segments."""
    bases = [int(path[-24:-4]) for path in files(env, ".log")]
    asked: dict[int, list[int]] = {}
    for base, end in zip(bases, [*bases[1:], LAST_OFFSET], strict=True):
        task = SegmentTask(0, TOPIC, base, 0, False, 1, Situation(), end)
        everything = [each.first_offset for each in _aborted(env, task._replace(end_offset=LAST_OFFSET))]
        asked[base] = [each.first_offset for each in _aborted(env, task)]
        assert asked[base] == [each for each in everything if each < end]
    assert len({len(each) for each in asked.values()}) > 1
