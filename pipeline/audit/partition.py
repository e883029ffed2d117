"""Combines the reports of segments, which were examined one by one, into a report on their partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from barnabas.pipeline.audit.keys import Kept, last_records
from barnabas.pipeline.audit.open_transactions import first_uncleanable_segment
from barnabas.pipeline.audit.segment import unpacked_segment
from barnabas.pipeline.audit.timestamps import backwards_after
from barnabas.storage.segment.names import LOG_SUFFIX, segment_path
from barnabas.storage.verify.partition import LogRange, confirmed, unreadable
from barnabas.storage.verify.verifier import Check, Findings

if TYPE_CHECKING:
    from barnabas.pipeline.audit.plan import AuditOptions, PartitionPlan
    from barnabas.pipeline.audit.segment import SegmentKeys, SegmentReport
    from barnabas.storage.env import Env
    from barnabas.storage.verify.verifier import Finding


class PartitionReport(NamedTuple):
    """The findings on a partition, and the reports of its segments, oldest first; `kept` where keys were counted."""

    number: int
    findings: Findings
    range: LogRange
    segments: tuple[SegmentReport, ...]
    kept: Kept | None = None


def judge(
    env: Env, plan: PartitionPlan, reports: Iterable[SegmentReport], options: AuditOptions
) -> PartitionReport | None:
    """Checks the segments in order, each by itself and against its predecessor.

    A partition that a broker has changed since is checked once more, here and now, and only recurring findings are
    reported. None for a partition that was deleted meanwhile.
    """
    try:
        return _judgement(env, plan, reports, options)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not env.exists(plan.partition.path):
            return None
        return unreadable_partition(plan.number, plan.partition.path, error)


def unreadable_partition(number: int, path: str, error: OSError) -> PartitionReport:
    """The report on a partition that cannot be read; it does not prevent reports on the others."""
    return PartitionReport(number, *unreadable(path, error), ())


def unseen(number: int, path: str, report: PartitionReport | None) -> PartitionReport:
    """The report on a partition that exists here and that tasks did not find, as a whole or in part."""
    if report is None:
        report = PartitionReport(number, Findings(path), LogRange(-1, -1, has_gaps=False), ())
        report.findings.counts.partitions += 1
    report.findings.error(
        path,
        "a task has not found files that exist here: the partition was not examined, or not completely",
        "directories that all machines see under the same paths",
        check=Check.NAMES,
    )
    return report


def _judgement(
    env: Env, plan: PartitionPlan, reports: Iterable[SegmentReport], options: AuditOptions
) -> PartitionReport:
    segments = tuple(sorted(reports, key=lambda report: report.task.base_offset))
    verifier = plan.verifier
    for report in segments:
        verifier.add(unpacked_segment(report))
    verifier.end()
    findings, log_range = confirmed(
        env,
        plan.partition.path,
        verifier,
        plan.before,
        partial(plan.partition.situation_now, env),
        is_deep=options.is_deep,
    )
    findings.all += [finding for report in segments for finding in report.odd_times]
    findings.all += _backwards_between(segments)
    return PartitionReport(plan.number, findings, log_range, tuple(map(_lighter, segments)))


def _backwards_between(segments: Sequence[SegmentReport]) -> Iterator[Finding]:
    """The findings on clocks that go back between two segments."""
    for before, report in pairwise(segments):
        task = report.task
        path = segment_path(task.path, task.base_offset, LOG_SUFFIX)
        yield from backwards_after(before.times, path, task.base_offset, report.times)


def _lighter(report: SegmentReport) -> SegmentReport:
    """Drops the fields that only the judgement needs, which may have a megabyte."""
    return report._replace(
        verification=report.verification._replace(findings=(), txn_index=None, followed=b"")
    )


def count_kept(keys: Sequence[SegmentKeys]) -> Kept:
    """The records that compaction keeps for one part of a partition's keys; `keys` of all its segments, in any
    order."""
    ordered = sorted(keys, key=lambda each: each.base_offset)
    active = next((each.base_offset for each in ordered if each.is_active), None)
    end = first_uncleanable_segment([(each.base_offset, each.transactions) for each in ordered], active)
    return last_records([(each.base_offset, each.table) for each in ordered], end)


def combined(
    reports: Iterable[PartitionReport | None], kept: Iterable[tuple[int, Kept]]
) -> list[PartitionReport]:
    """The reports with the kept records of their partitions, added up over parts; in the order of their numbers."""
    by_number: dict[int, Kept] = {}
    for number, part in kept:
        by_number[number] = by_number[number].plus(part) if number in by_number else part
    there = [report for report in reports if report is not None]
    ordered = sorted(there, key=lambda report: report.number)
    return [report._replace(kept=by_number.get(report.number)) for report in ordered]
