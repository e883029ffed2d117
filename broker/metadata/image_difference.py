"""image_difference: what changed from one image to another one that is not its replay, but that of a snapshot.

Source: org.apache.kafka.image.MetadataDelta.finishSnapshot and that of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final, TypeVar

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.topics import PartitionImage, TopicImage

_fields: Final = attrgetter(*PartitionImage.__slots__)

K = TypeVar("K")
V = TypeVar("V")


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """The delta that leads from `before` to `after`: what is new, what has changed, and what is gone."""
    delta = MetadataDelta()
    for topic in before.topics.values():
        if topic.topic_id not in after.topic_names:
            delta.deleted_topics[topic.topic_id] = topic
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known.topic_id != topic.topic_id:
            delta.created_topics.add(name)
        elif changed := _changed_partitions(known, topic):
            delta.changed_topics[name] = changed
    delta.config_changes = _changed(before.configs, after.configs)
    delta.quota_changes = _changed(before.quotas, after.quotas)
    delta.scram_changes = _changed(before.scram, after.scram)
    delta.acl_changes = _changed(before.acls, after.acls)
    delta.token_changes = _changed(before.tokens, after.tokens)
    delta.feature_changes = _changed(before.features, after.features)
    delta.broker_changes = _changed(before.brokers, after.brokers)
    return delta


def _changed_partitions(before: TopicImage, after: TopicImage) -> set[int]:
    """The new partitions, and those that differ in any field."""
    return {
        index
        for index, partition in after.partitions.items()
        if (known := before.partitions.get(index)) is None or _fields(known) != _fields(partition)
    }


def _changed(before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    """The keys whose values differ, or that only one of the two has."""
    changed = {key for key, value in after.items() if key not in before or before[key] != value}
    changed.update(key for key in before if key not in after)
    return changed
