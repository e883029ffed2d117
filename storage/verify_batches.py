"""Verification of files that are a row of record batches beside the logs: barnabas.metadata and KRaft's snapshots."""

import re
from typing import Final

from protocol.records.batch import (
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    UnsupportedCompressionError,
)
from protocol.records.control import ControlRecordType, control_record_type
from storage.env import Env
from storage.replay import read_batches
from storage.verify import Counts, Finding, Findings, Severity
from storage.verify_segment import Batch

METADATA_FILE: Final = "barnabas.metadata"
SNAPSHOT_FILE: Final = re.compile(r"\d{20}-\d{10}\.checkpoint")
_BAD: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)


def verify_batches(env: Env, path: str, counts: Counts) -> list[Finding]:
    """The findings about one such file; none where there is none. Raises OSError."""
    findings = Findings(path)
    try:
        file = env.open(path, write=False)
    except FileNotFoundError:
        return []
    counts.files += 1
    size, position, next_offset = file.size(), 0, 0
    is_snapshot = not path.endswith(METADATA_FILE)
    kinds: list[ControlRecordType] = []
    try:
        for batch in read_batches(file, 0, size):
            batch.ensure_valid()
            if not isinstance(batch, RecordBatch) or batch.base_offset < next_offset:
                raise CorruptRecordError(f"offset {batch.last_offset} where {next_offset} is due")
            batch.validate_records()
            kinds += _control_types(batch)
            next_offset = batch.next_offset
            position += batch.size_in_bytes
    except _BAD as error:
        _report(findings, error, position, next_offset, is_snapshot=is_snapshot)
        return findings.all
    finally:
        file.close()
    name = path.rpartition("/")[2]
    if SNAPSHOT_FILE.fullmatch(name):
        ends = (ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER)
        if not kinds or (kinds[0], kinds[-1]) != ends:
            findings.error(
                path, "it does not begin and end as a snapshot", "SnapshotHeader ... SnapshotFooter"
            )
    return findings.all


def _control_types(batch: Batch) -> list[ControlRecordType]:
    if not batch.is_control:
        return []
    return [control_record_type(record.key) for record in batch.records()]


def _report(
    findings: Findings, error: Exception, position: int, next_offset: int, *, is_snapshot: bool
) -> None:
    if is_snapshot:
        severity, remedy = Severity.ERROR, "the snapshot cannot be used"
    else:
        severity = Severity.ERROR
        remedy = "cut off at a start if nothing good follows; otherwise the broker does not start"
    findings.add(
        severity,
        findings.path,
        str(error),
        "whole batches to the end",
        remedy,
        position=position,
        offset=next_offset,
    )
