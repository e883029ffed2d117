"""Logs consumers that fetch an offset outside of the log."""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.fetch.partition import FetchPartition
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.request import RequestContext
from barnabas.protocol.errors import ApiError

logger = logging.getLogger("barnabas.groups")

_rate_limit: Final = RateLimit()


def report_out_of_range(
    replica_manager: ReplicaManager, context: RequestContext, entry: FetchPartition
) -> None:
    """Logs the client, its offset, the log's offsets and the likely cause; rate-limited by client and partition."""
    try:
        log = replica_manager.partition(entry.topic, entry.index).log
    except ApiError:
        return  # deleted meanwhile
    offset, start, end = entry.fetch_offset, log.log_start_offset, log.high_watermark
    reason = _reason(offset, start, end)
    if reason is None:
        return
    connection = context.connection
    key = (connection.client_host, context.client_id, entry.topic, entry.index)
    _rate_limit.warning(
        logger,
        key,
        "client %s at %s is out of range in %s-%d: it asked for offset %d, the log holds %d to %d: %s; "
        "its auto.offset.reset decides where it resumes",
        context.client_id,
        connection.client_host,
        entry.topic,
        entry.index,
        offset,
        start,
        end,
        reason,
    )


def _reason(offset: int, start: int, end: int) -> str | None:
    """None: the log has changed meanwhile, and the offset is in it."""
    if offset < start:
        return f"{start - offset} records from there on are gone (retention, or DeleteRecords)"
    if offset > end:
        return "it is past the end (records were lost in a crash, or the topic was recreated)"
    return None
