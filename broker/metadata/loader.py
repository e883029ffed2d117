"""MetadataLoader: the one place where committed records become the image that everybody sees.

Whoever brings committed records (the embedded controller here; a reader that fetches them from a quorum of Apache
Kafka's controllers elsewhere) has them replayed and published by it, in order. Source: org.apache.kafka.image.loader.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.log import MetadataBatch
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.waiting.blocking import BlockingRunner, Work

logger = logging.getLogger("barnabas.metadata")

Publisher = Callable[[MetadataImage, MetadataDelta], None]
"""Is told of every new image, in order, on the event loop."""

Preparation = Callable[[MetadataImage, MetadataDelta], Work | None]
"""Asked before an image is published for what blocks in taking it over, to be done off the event loop."""


class MetadataLoader:
    """Keeps the newest published image. Lives on the event loop; only preparations leave it."""

    def __init__(
        self,
        image: MetadataImage,
        runner: BlockingRunner,
        publish: Publisher,
        prepare: Preparation = lambda image, delta: None,
    ) -> None:
        self.image = image
        self._runner = runner
        self._publish = publish
        self._prepare = prepare
        self._waiting: deque[tuple[MetadataBatch, Callable[[], None]]] = deque()
        self._busy = False

    def committed(self, batch: MetadataBatch, published: Callable[[], None] = lambda: None) -> None:
        """Replays records on the image that was published last, and publishes what comes of it; then calls `published`.

        Raises ValueError for records that do not fit: a metadata log that this broker cannot follow.
        """
        self._waiting.append((batch, published))
        if not self._busy:
            self._take_next()

    def _take_next(self) -> None:
        while self._waiting and not self._busy:
            batch, published = self._waiting.popleft()
            image, delta = replayed(self.image, batch.records, offset=batch.last_offset, epoch=batch.epoch)
            self.take_over(image, delta, published)

    def take_over(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        """Publishes an image that somebody has replayed already on top of the last one.

        One at a time: the next may come once `published` was called.
        """
        self._busy = True
        try:
            work = self._prepare(image, delta)
        except Exception:  # whoever waits for these records would wait for ever
            logger.exception("preparing for new metadata failed")
            work = None
        if work is None:
            self._finish(image, delta, published)
        else:
            self._runner.submit(work, lambda failure: self._prepared(failure, image, delta, published))

    def _prepared(
        self,
        failure: BaseException | None,
        image: MetadataImage,
        delta: MetadataDelta,
        published: Callable[[], None],
    ) -> None:
        if failure is not None:
            # The records are committed all the same; whoever takes over the image meets the failure again.
            logger.error("preparing for new metadata failed: %s", failure)
        self._finish(image, delta, published)
        self._take_next()

    def _finish(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        self.image = image
        self._publish(image, delta)
        self._busy = False
        published()
