"""Verification of KRaft's snapshots, a row of record batches: those beside the metadata log, bootstrap.checkpoint."""

import re
from typing import Final

from barnabas.protocol.records.batch import (
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.control import ControlRecordType, control_record_type
from barnabas.storage.env import Env
from barnabas.storage.segment.batch_reading import Batch, Pieces
from barnabas.storage.verify.verifier import Counts, Finding, Findings, Severity

SNAPSHOT_FILE: Final = re.compile(r"\d{20}-\d{10}\.checkpoint")
_BAD: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)


def verify_batches(env: Env, path: str, counts: Counts) -> list[Finding]:
    """The findings about one such file; none without the file."""
    findings = Findings(path)
    try:
        _verify(env, path, counts, findings)
    except FileNotFoundError:
        return []
    except OSError as error:
        findings.unreadable(error)
    return findings.all


def _verify(env: Env, path: str, counts: Counts, findings: Findings) -> None:
    file = env.open(path, write=False)
    counts.files += 1
    size, position, next_offset = file.size(), 0, 0
    kinds: list[ControlRecordType] = []
    try:
        for batch in Pieces().batches(file, 0, size):
            batch.ensure_valid()
            if not isinstance(batch, RecordBatch) or batch.base_offset < next_offset:
                raise CorruptRecordError(f"offset {batch.last_offset} where {next_offset} is due")
            batch.validate_records()
            kinds += _control_types(batch)
            next_offset = batch.next_offset
            position += batch.size_in_bytes
    except _BAD as error:
        findings.add(
            Severity.ERROR,
            path,
            str(error),
            "whole batches to the end",
            "the snapshot cannot be used",
            position=position,
            offset=next_offset,
        )
        return
    finally:
        file.close()
    name = path.rpartition("/")[2]
    if SNAPSHOT_FILE.fullmatch(name):
        ends = (ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER)
        if not kinds or (kinds[0], kinds[-1]) != ends:
            findings.error(
                path, "it does not begin and end as a snapshot", "SnapshotHeader ... SnapshotFooter"
            )


def _control_types(batch: Batch) -> list[ControlRecordType]:
    if not batch.is_control:
        return []
    return [control_record_type(record.key) for record in batch.records()]
