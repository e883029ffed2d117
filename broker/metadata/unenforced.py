"""Warns once of each kind of metadata that is stored and not enforced yet.

A user who sets a password, or takes over a directory with some, must not rely on them.
"""

from __future__ import annotations

import logging

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage

logger = logging.getLogger("barnabas.metadata")

CREDENTIALS = "SCRAM credentials are stored and shown, but clients cannot log in with them yet"


class UnenforcedNotices:
    """Logs a warning for each kind at its first change."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        for notice, changed, existing in ((CREDENTIALS, delta.scram_changes, image.scram),):
            if changed and existing and notice not in self._warned:
                self._warned.add(notice)
                logger.warning(notice)
