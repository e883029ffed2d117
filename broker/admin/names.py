"""The numbers of the wire that people know by name."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from protocol.wire import Uuid, uuid_to_string


class ResourceType(IntEnum):
    """What has a configuration (`ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ScramMechanism(IntEnum):
    """The mechanisms of SCRAM (RFC 5802) by their numbers on the wire."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """As it is written everywhere but in enums: SCRAM-SHA-256."""
        return self.name.replace("_", "-")


MIN_ITERATIONS: Final = 4096
"""The fewest that Kafka takes, and its default, for both mechanisms."""

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def name_of(kind: type[IntEnum], number: int) -> str:
    """The member's name, or the number itself for one that only a newer broker knows."""
    return kind(number).name if number in kind._value2member_map_ else str(number)


def scram_name(number: int) -> str:
    """The mechanism's name as Kafka writes it, or the number."""
    return name_of(ScramMechanism, number).replace("_", "-")


def scram_mechanism(text: str) -> ScramMechanism | None:
    """The mechanism that Kafka writes like this, if there is one."""
    known = {each.label: each for each in ScramMechanism if each}
    return known.get(text)


def topic_id_text(topic_id: Uuid) -> str:
    """As Kafka prints it."""
    return uuid_to_string(topic_id)
