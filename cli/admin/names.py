"""Names of enum members."""

from __future__ import annotations

from enum import IntEnum

from barnabas.protocol.messages.security import ScramMechanism


class ResourceType(IntEnum):
    """The resources with a configuration (`ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def name_of(kind: type[IntEnum], number: int) -> str:
    """The member's name, or the number if only a newer broker knows it."""
    return kind(number).name if number in kind._value2member_map_ else str(number)


def scram_name(number: int) -> str:
    """The mechanism's name as Kafka writes it, or the number."""
    return name_of(ScramMechanism, number).replace("_", "-")


def scram_mechanism(text: str) -> ScramMechanism | None:
    """The mechanism with this name in Kafka, or None."""
    known = {each.label: each for each in ScramMechanism if each}
    return known.get(text)
