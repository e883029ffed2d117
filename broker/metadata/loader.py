"""MetadataLoader publishes committed images, one after the other; MetadataPublishers calls the publishers of each.

Source: org.apache.kafka.image.loader.MetadataLoader, its publishers and its fault handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.waiting.blocking import BlockingRunner, Work

logger = logging.getLogger("barnabas.metadata")

Publisher = Callable[[MetadataImage, MetadataDelta], None]
"""Called with every new image, in order, on the event loop."""

SlicedPublisher = Callable[[MetadataImage, MetadataDelta], Iterator[None]]
"""The same, for one that takes an image over in slices, all of which have to be run."""

Preparation = Callable[[MetadataImage, MetadataDelta], Work | None]
"""Returns the blocking work before an image is published, to be done off the event loop."""


class MetadataLoader:
    """Keeps the newest published image. Lives on the event loop; only preparations leave it."""

    def __init__(
        self,
        image: MetadataImage,
        runner: BlockingRunner,
        publish: SlicedPublisher,
        prepare: Preparation = lambda image, delta: None,
        pause: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`pause` calls a function in the next turn of the loop, which runs between the slices of an image then.

        None where an image has to be taken over in one piece: the responses of a node that decides its metadata itself
        are true when they are sent.
        """
        self.image = image
        self._runner = runner
        self._publish = publish
        self._prepare = prepare
        self._pause = pause

    def take_over(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        """Publishes the successor of the last image, then calls `published`.

        One at a time: the next call may come once `published` was called.
        """

        def prepared(failure: BaseException | None) -> None:
            if failure is not None:
                # The records are committed all the same; publishers meet the failure again.
                logger.error("preparing for new metadata failed: %s", failure)
            self.image = image
            self._go_on(self._publish(image, delta), published)

        try:
            work = self._prepare(image, delta)
        except Exception:  # pending responses would wait for ever
            logger.exception("preparing for new metadata failed")
            work = None
        if work is None:
            prepared(None)
        else:
            self._runner.submit(work, prepared)

    def _go_on(self, slices: Iterator[None], published: Callable[[], None]) -> None:
        for _ in slices:
            if self._pause is not None:
                self._pause(lambda: self._go_on(slices, published))
                return
        published()


class MetadataPublishers:
    """Calls publishers in the order in which they were added. `failures` counts those that raised.

    The records of an image are committed when it is published: a publisher that raises must not keep it from the
    others, nor the pending responses from completion.
    """

    def __init__(self, first: SlicedPublisher) -> None:
        """`first` is called before all others, but not by `begin`: it gets the first image before there are others."""
        self._first = first
        self._others: list[Publisher] = []
        self.failures = 0

    def add(self, publisher: Publisher) -> None:
        """Adds a publisher after the others."""
        self._others.append(publisher)

    def begin(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Publishes the image of the broker's start, a publisher at each step.

        Raises what a publisher raises, which ends the start.
        """
        for publisher in self._others:
            publisher(image, delta)
            yield

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Publishes a new image. A publisher that raises is skipped, logged and counted."""
        try:
            yield from self._first(image, delta)
        except Exception:
            self._failed(self._first, image)
        for publisher in self._others:
            try:
                publisher(image, delta)
            except Exception:
                self._failed(publisher, image)

    def _failed(self, publisher: object, image: MetadataImage) -> None:
        """For use in an except block."""
        self.failures += 1
        logger.exception(
            "publisher %s failed to apply the metadata up to offset %d; a restart may help",
            getattr(publisher, "__qualname__", publisher),
            image.offset,
        )
