"""Reports, in the broker's log, consumers that ask for an offset that a partition does not hold."""

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
    """Who asked, for what, what there is, and why it may be gone; for each client and partition once in a while."""
    try:
        log = replica_manager.partition(entry.topic, entry.index).log
    except ApiError:
        return  # it has been deleted meanwhile
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
        "its auto.offset.reset decides where it goes on",
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
        return "it is behind the end (records were lost in a crash, or the topic was made anew)"
    return None
