"""The versions of the requests between brokers, which depend on the cluster's metadata.version.

Source: org.apache.kafka.server.common.MetadataVersion.fetchRequestVersion, listOffsetRequestVersion.
"""

from __future__ import annotations

from functools import cache
from typing import Final

FETCH_BY_NAME: Final = 12
"""For sessions with a topic whose id is not known."""

FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
"""Which has the broker epoch too (KIP-903); before it only the id of the replica."""

_FETCH: Final = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14))
_LIST_OFFSETS: Final = ((29, 11), (25, 10), (21, 9), (9, 8))


@cache
def fetch_version(metadata_version: int, *, uses_topic_ids: bool) -> int:
    """The version of a follower's Fetch request."""
    return _newest(_FETCH, metadata_version, 13) if uses_topic_ids else FETCH_BY_NAME


def list_offsets_version(metadata_version: int) -> int:
    """The version of a follower's ListOffsets request."""
    return _newest(_LIST_OFFSETS, metadata_version, 7)


def _newest(table: tuple[tuple[int, int], ...], metadata_version: int, oldest: int) -> int:
    return next((version for level, version in table if metadata_version >= level), oldest)
