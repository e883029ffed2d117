"""Says once of each thing in the metadata that is kept and not enforced yet that it is so.

Who sets a quota or an ACL, or finds one that another broker has left, must not take it for one that holds.
"""

from __future__ import annotations

import logging

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage

logger = logging.getLogger("barnabas.metadata")

QUOTAS = "client quotas are stored and shown, but nobody is throttled by them yet"
CREDENTIALS = "SCRAM credentials are stored and shown, but clients cannot log in with them yet"
ACLS = "ACLs are stored and shown, but not enforced yet: everyone may do everything"


class UnenforcedNotices:
    """Follows the metadata."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        for notice, changed, there_are in (
            (QUOTAS, delta.quota_changes, image.quotas),
            (CREDENTIALS, delta.scram_changes, image.scram),
            (ACLS, delta.acl_changes, image.acls),
        ):
            if changed and there_are and notice not in self._said:
                self._said.add(notice)
                logger.warning(notice)
