"""TopicAnswers: caches the encoded topics of Metadata and CreateTopics responses, by version.

Clients request the metadata of their topics again and again, and they rarely change; a topic of many partitions costs
milliseconds to encode. An entry is valid as long as the image has the same topic, and the same brokers where the answer
depends on them. The settings of a new topic are mostly those of the topic before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.cluster_answers import CacheKey
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.topics import TopicImage
from barnabas.protocol.codec import element_encoder
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.topics import CreateTopicsResponse
from barnabas.protocol.wire import Encoded, EncodedArray

Topic = MetadataResponse.MetadataResponseTopic
TopicConfig = CreateTopicsResponse.CreatableTopicConfigs
MakeTopic = Callable[[TopicImage], Topic]

KINDS_KEPT: Final = 4
"""How many kinds of entries are kept for each listener: a kind is a version, with authorized operations or without."""


class KeptTopics:
    """The entries of one kind: of single topics by name, and of all topics of one image."""

    def __init__(self, version: int) -> None:
        self.encode = element_encoder(MetadataResponse, Topic, version)
        self.topics: dict[str, tuple[TopicImage, Encoded]] = {}
        self.all_of: Mapping[str, TopicImage] | None = None
        self.all = EncodedArray(0, Encoded())

    def one(self, topic: TopicImage, make: MakeTopic) -> Encoded:
        """The encoded result of `make(topic)`."""
        known = self.topics.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        data = self.encode(make(topic))
        self.topics[topic.name] = topic, data
        return data

    def everything(self, topics: Mapping[str, TopicImage], make: MakeTopic) -> EncodedArray:
        """The same of all topics of an image."""
        if self.all_of is not topics:
            data = Encoded(b"".join([self.one(topic, make) for topic in topics.values()]))
            self.all, self.all_of = EncodedArray(len(topics), data), topics
            for gone in self.topics.keys() - topics.keys():
                del self.topics[gone]
        return self.all


class TopicAnswers:
    """The cache, of the kinds that were used last. Applies new metadata, to drop deleted topics.

    `listeners` is how many of them answers differ by: 1 for a node that is alone.
    """

    def __init__(self, listeners: int = 1) -> None:
        self._kinds_kept = KINDS_KEPT * listeners
        self._brokers: Mapping[int, BrokerRegistration] | None = None
        self._configs_of: object = None
        self._configs: dict[int, EncodedArray] = {}
        self._kinds: OrderedDict[tuple[str, int, bool], KeptTopics] = OrderedDict()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Drops deleted topics, which a request for all topics may never do."""
        for topic in delta.deleted_topics.values():
            for kind in self._kinds.values():
                kind.topics.pop(topic.name, None)

    def kept(self, version: int, key: CacheKey, *, with_operations: bool) -> KeptTopics:
        """The entries of a kind, with or without authorized operations. They are for the request that asks, as the next
        one may find them dropped.
        """
        if self._brokers is not key.brokers:
            self._brokers = key.brokers
            self._kinds.clear()
        wanted = key.listener, version, with_operations
        kind = self._kinds.get(wanted)
        if kind is None:
            kind = self._kinds[wanted] = KeptTopics(version)
            if len(self._kinds) > self._kinds_kept:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(wanted)
        return kind

    def default_configs(
        self, image: MetadataImage, make: Callable[[], Sequence[TopicConfig]], version: int
    ) -> EncodedArray:
        """The encoded settings of `make()`, for a topic that has none of its own.

        They change only with some setting in the image.
        """
        if self._configs_of is not image.configs:
            self._configs_of, self._configs = image.configs, {}
        kept = self._configs.get(version)
        if kept is None:
            encode, configs = element_encoder(CreateTopicsResponse, TopicConfig, version), make()
            data = Encoded(b"".join(encode(config) for config in configs))
            kept = self._configs[version] = EncodedArray(len(configs), data)
        return kept
