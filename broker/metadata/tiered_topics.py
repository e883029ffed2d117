"""TieredTopics: warns of topics with a replica here whose older records the cluster moves to tiered storage (KIP-405).

This broker reads no tiered storage: a new replica cannot get what its leader has moved there, and its fetcher gives the
partition up. The warning comes with the metadata, so that an operator need not wait for that.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.metadata.image import TOPIC_RESOURCE, MetadataDelta, MetadataImage
from barnabas.config.catalogue.topic import REMOTE_STORAGE_ENABLE

logger = logging.getLogger("barnabas.metadata")

NAMED: Final = 10
"""A line names so many topics."""


class TieredTopics:
    """Logs a warning for each topic at its first image in which it is tiered and has a replica here."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._warned: set[str] = set()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        of_configs = {name for kind, name in delta.config_changes if kind == TOPIC_RESOURCE}
        changed = of_configs | delta.created_topics | delta.changed_topics.keys()
        now = {name for name in changed if self._is_tiered_here(image, name)}
        self._warned -= changed - now
        new = sorted(now - self._warned)
        self._warned |= now
        if new:
            logger.warning(
                "remote.storage.enable=true for %d topics with replicas here (%s%s), and this broker reads no tiered "
                "storage: a replica that is new here gets nothing that was moved there, and is not fetched then. Move "
                "these replicas to other brokers, or set remote.storage.enable=false",
                len(new),
                ", ".join(new[:NAMED]),
                ", ..." if len(new) > NAMED else "",
            )

    def _is_tiered_here(self, image: MetadataImage, name: str) -> bool:
        topic = image.topics.get(name)
        text = image.topic_config(name).get(REMOTE_STORAGE_ENABLE.name)
        return (
            text is not None
            and REMOTE_STORAGE_ENABLE.parse(text)
            and topic is not None
            and any(self._node_id in partition.replicas for partition in topic.partitions.values())
        )
