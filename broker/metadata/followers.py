"""Followers: those who are told of each new image of the metadata, each whatever becomes of the others.

The records behind an image are committed when it is published. If one part of the broker stumbles over it, the others
have to hear of it all the same, and whoever waits for the change is answered: otherwise every later change would wait
for ever. Source: the publishers and the fault handlers of org.apache.kafka.image.loader.MetadataLoader.
"""

from __future__ import annotations

import logging

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import Publisher

logger = logging.getLogger("barnabas.metadata")


class Followers:
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
