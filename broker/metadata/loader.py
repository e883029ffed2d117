"""MetadataLoader publishes committed images, one after the other; MetadataPublishers calls the publishers of each.

Source: org.apache.kafka.image.loader.MetadataLoader, its publishers and its fault handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
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

    def take_over(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        """Publishes an image that somebody has replayed already on top of the last one.

        One at a time: the next may come once `published` was called.
        """
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

    def _finish(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        self.image = image
        self._publish(image, delta)
        published()


class MetadataPublishers:
    """In the order in which they were added. `failures`: how many times one could not follow."""

    __slots__ = ("_all", "failures")

    def __init__(self, first: Publisher) -> None:
        """`first` is told before all others, but not by `begin`: it has to know before there are any."""
        self._all = [first]
        self.failures = 0

    def add(self, follow: Publisher) -> None:
        """Has it told after the others."""
        self._all.append(follow)

    def begin(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Tells the others of the image that a broker starts with. It does not start where one of them raises."""
        for follow in self._all[1:]:
            follow(image, delta)

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Tells all of a new image. Who raises is passed over, and so stays with what it knew before."""
        for follow in self._all:
            try:
                follow(image, delta)
            except Exception:
                self.failures += 1
                logger.exception(
                    "%s cannot follow the metadata up to offset %d; a restart may help it",
                    getattr(follow, "__qualname__", follow),
                    image.offset,
                )
