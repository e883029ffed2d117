"""Topics and partitions as a command line names them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition; they sort as Kafka's tools sort them: by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, as requests have them."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def parse_topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """`topic:0,1,2` as the topic and its partitions; None where all are meant. Raises ValueError."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    if not topic or not numbers or ":" in numbers:
        raise ValueError(f"{text!r} is not topic:partition,partition,...")
    for number in numbers.split(","):
        if not number.isdecimal():
            raise ValueError(f"Invalid partition '{number}' specified in topic arg '{text}'")
    return topic, [int(number) for number in numbers.split(",")]


class TopicPattern:
    """A regular expression that must match the whole name (`TopicFilter.IncludeList`); commas mean "or".

    Blanks and the quotes around it are dropped. Raises ValueError for one that cannot be compiled; what Java's
    expressions can and Python's cannot (\\p{...}) belongs to these.
    """

    def __init__(self, text: str) -> None:
        self.text = re.sub(
            r"[\"']+$", "", re.sub(r"^[\"']+", "", text.strip().replace(",", "|").replace(" ", ""))
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # about "[["
                self._pattern = re.compile(self.text)
        except re.error as error:
            raise ValueError(f"{self.text!r} is not a regular expression: {error}") from None

    def allows(self, topic: str) -> bool:
        """Whether it matches the whole name."""
        return self._pattern.fullmatch(topic) is not None
