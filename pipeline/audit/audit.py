"""An audit of log directories from beginning to end: what there is to say, as the rows of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pipeline.audit.plan import PartitionPlan, plan_partition
from pipeline.audit.rows import Row, Stamp, finding_row, partition_row, segment_rows
from storage.verify import Severity
from storage.verify_directory import PartitionToVerify, Verification, Verified

if TYPE_CHECKING:
    from pipeline.audit.engines import Engine
    from pipeline.audit.partition import PartitionReport
    from pipeline.audit.plan import AuditOptions
    from storage.env import Env
    from storage.verify import Finding


class AuditResult(NamedTuple):
    """What was found: rows of the tables in `rows`, and the counts of what was looked at."""

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
    """Looks at log directories, or partitions. Raises OSError and NotALogDirectoryError."""
    return _Audit(env, options, engine).run(paths)


class _Audit:
    """One audit; used once."""

    def __init__(self, env: Env, options: AuditOptions, engine: Engine) -> None:
        self._env = env
        self._options = options
        self._engine = engine
        self._looked_at: list[tuple[PartitionToVerify, PartitionReport]] = []

    def run(self, paths: Sequence[str]) -> AuditResult:
        now = datetime.fromtimestamp(self._options.now_ms / 1000, UTC)
        stamp = Stamp(now.strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z", now)
        verification = Verification(self._env, verify_partitions=self._verify)
        found = list(verification.run(paths))
        segments: list[Row] = []
        partitions: list[Row] = []
        for partition, report in self._looked_at:
            rows = list(segment_rows(stamp, partition, report))
            segments += rows
            partitions.append(partition_row(stamp, partition, report, rows))
        places = {partition.path: partition for partition, _ in self._looked_at}
        findings = [_finding_row(stamp, paths, places, finding) for finding in found]
        return AuditResult(stamp, findings, segments, partitions, verification.counts.as_dict())

    def _verify(self, partitions: Sequence[PartitionToVerify]) -> Iterator[Verified]:
        """Has the engine look at all of them, and remembers what it says."""
        numbered = [
            (partition, plan_partition(self._env, number, partition, self._options))
            for number, partition in enumerate(partitions)
        ]
        plans: list[PartitionPlan] = [plan for _, plan in numbered if plan is not None]
        reports = {report.number: report for report in self._engine.run(plans, self._options)}
        for partition, plan in numbered:
            report = None if plan is None else reports.get(plan.number)
            if report is None:
                yield None
                continue
            self._looked_at.append((partition, report))
            yield report.findings, report.range


def _finding_row(
    stamp: Stamp, paths: Sequence[str], places: Mapping[str, PartitionToVerify], finding: Finding
) -> Row:
    of = places.get(finding.path) or places.get(finding.path.rpartition("/")[0])
    if of is not None:
        return finding_row(stamp, of.log_dir, of.key, finding)
    log_dir = next((path for path in paths if finding.path.startswith(path)), finding.path)
    return finding_row(stamp, log_dir, None, finding)
