"""The mechanisms of SCRAM and their bounds.

Source: org.apache.kafka.clients.admin.ScramMechanism, org.apache.kafka.common.security.scram.internals.ScramMechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ScramMechanism(IntEnum):
    """The mechanisms of SCRAM (RFC 5802) by their numbers on the wire."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """As it is written everywhere but in enums: SCRAM-SHA-256."""
        return self.name.replace("_", "-")


HASH_NAMES: Final[Mapping[int, str]] = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}
"""The hash of each mechanism, as hashlib names it."""

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Both included. The fewest are also Kafka's default."""
