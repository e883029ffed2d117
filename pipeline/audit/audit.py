"""An audit of log directories from beginning to end, with its results as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from barnabas.pipeline.audit.partition import unreadable_partition, unseen
from barnabas.pipeline.audit.plan import PartitionPlan, plan_partition
from barnabas.pipeline.audit.rows import Row, Stamp, finding_row, partition_row, segment_rows
from barnabas.storage.segment.names import LOG_SUFFIX, segment_path
from barnabas.storage.verify.directory import PartitionToVerify, Verification, Verified
from barnabas.storage.verify.verifier import Severity

if TYPE_CHECKING:
    from barnabas.pipeline.audit.engines import Engine
    from barnabas.pipeline.audit.partition import PartitionReport
    from barnabas.pipeline.audit.plan import AuditOptions
    from barnabas.storage.env import Env
    from barnabas.storage.verify.verifier import Finding


class AuditResult(NamedTuple):
    """The results: rows of the tables in `rows`, and counts of the files examined."""

    stamp: Stamp
    findings: list[Row]
    segments: list[Row]
    partitions: list[Row]
    counts: dict[str, int]

    def tally(self) -> dict[Severity, int]:
        """How many findings there are of each severity."""
        return {
            severity: sum(row["severity"] == severity.value for row in self.findings) for severity in Severity
        }


def audit(env: Env, paths: Sequence[str], options: AuditOptions, engine: Engine) -> AuditResult:
    """Examines log directories, or partitions. Raises OSError and NotALogDirectoryError."""
    return _Audit(env, options, engine).run(paths)


class _Audit:
    """One audit; used once."""

    def __init__(self, env: Env, options: AuditOptions, engine: Engine) -> None:
        self._env = env
        self._options = options
        self._engine = engine
        self._examined: list[tuple[PartitionToVerify, PartitionReport]] = []

    def run(self, paths: Sequence[str]) -> AuditResult:
        now = datetime.fromtimestamp(self._options.now_ms / 1000, UTC)
        stamp = Stamp(now.strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z", now)
        verification = Verification(self._env, verify_partitions=self._verify, is_of_one_broker=False)
        found = list(verification.run(paths))
        segments: list[Row] = []
        partitions: list[Row] = []
        for partition, report in self._examined:
            rows = list(segment_rows(stamp, partition, report))
            segments += rows
            partitions.append(partition_row(stamp, partition, report, rows))
        places = {partition.path: partition for partition, _ in self._examined}
        findings = [_finding_row(stamp, paths, places, finding) for finding in found]
        return AuditResult(stamp, findings, segments, partitions, verification.counts.as_dict())

    def _verify(self, partitions: Sequence[PartitionToVerify]) -> Iterator[Verified]:
        """Has the engine examine all partitions; stores its reports.

        A partition is examined a second time when a task did not find files that exist here. Either they are new, or
        the task ran on a machine without the directory, and the partition must not pass as undamaged.
        """
        reports = self._reports_of(dict(enumerate(partitions)))
        again = {at: each for at, each in enumerate(partitions) if self._is_unseen(each, reports.get(at))}
        for at, each in again.items():
            reports.pop(at, None)
            again[at] = each._replace(situation=each.situation_now(self._env))
        reports |= self._reports_of(again)
        for at, each in again.items():
            if self._is_unseen(each, reports.get(at)):
                reports[at] = unseen(at, each.path, reports.get(at))
        for at, each in enumerate(partitions):
            if at not in reports:
                yield None
                continue
            self._examined.append((each, reports[at]))
            yield reports[at].findings, reports[at].range

    def _reports_of(self, partitions: Mapping[int, PartitionToVerify]) -> dict[int, PartitionReport]:
        """The reports by the number of the partition; a partition that was deleted meanwhile has none."""
        reports: dict[int, PartitionReport] = {}
        plans: list[PartitionPlan] = []
        for number, partition in partitions.items():
            try:
                plan = plan_partition(self._env, number, partition, self._options)
            except OSError as error:
                reports[number] = unreadable_partition(number, partition.path, error)
                continue
            if plan is not None:
                plans.append(plan)
        if plans:
            reports |= {report.number: report for report in self._engine.run(plans, self._options)}
        return reports

    def _is_unseen(self, partition: PartitionToVerify, report: PartitionReport | None) -> bool:
        """Whether a task did not find files of a partition that exist here."""
        if report is None:
            return self._env.exists(partition.path)
        gone = (
            segment.task.base_offset for segment in report.segments if segment.verification.outcome is None
        )
        return any(self._env.exists(segment_path(partition.path, base, LOG_SUFFIX)) for base in gone)


def _finding_row(
    stamp: Stamp, paths: Sequence[str], places: Mapping[str, PartitionToVerify], finding: Finding
) -> Row:
    of = places.get(finding.path) or places.get(finding.path.rpartition("/")[0])
    if of is not None:
        return finding_row(stamp, of.log_dir, of.key, finding)
    log_dir = next((path for path in paths if f"{finding.path}/".startswith(f"{path}/")), finding.path)
    return finding_row(stamp, log_dir, None, finding)
