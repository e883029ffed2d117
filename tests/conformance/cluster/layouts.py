"""The layouts of the clusters with which the scenarios run, as BARNABAS_CLUSTER names them.

jbb           a JVM broker, two of Barnabas, and a JVM controller
3*jbb         the same with three controllers
jbb@4.1       the same with controllers and JVM brokers of Apache Kafka 4.1
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from tests.conformance.kafka_jars import KAFKA_39, KAFKA_41, KAFKA_VERSION

VARIABLE: Final = "BARNABAS_CLUSTER"
DEFAULT: Final = "jb"
"""What runs where the variable is not set: each kind of broker leads and follows the other's partitions."""

VERSIONS: Final = {version.rpartition(".")[0]: version for version in (KAFKA_VERSION, KAFKA_41, KAFKA_39)}
"""The releases of Apache Kafka that may be named, each with the version that is used."""

_FORM: Final = re.compile(r"(?:([1-9])\*)?([bj]{2,})(?:@(.+))?")


class Layout(NamedTuple):
    """The nodes of a cluster: `brokers` has a letter for each broker, j for a JVM and b for Barnabas."""

    brokers: str
    controllers: int = 1
    version: str = KAFKA_VERSION

    @classmethod
    def of(cls, text: str) -> Layout:
        """Raises ValueError for a text that is no layout."""
        found = _FORM.fullmatch(text)
        release = (found and found[3]) or KAFKA_VERSION.rpartition(".")[0]
        if found is None or release not in VERSIONS:
            raise ValueError(
                f"{VARIABLE}: {text!r} is no layout: two letters or more of b and j, with the number of controllers "
                f"before them, as in 3*jbb, or a release of {', '.join(VERSIONS)} behind them, as in jbb@4.1"
            )
        return cls(found[2], int(found[1] or 1), VERSIONS[release])

    def __str__(self) -> str:
        before = "" if self.controllers == 1 else f"{self.controllers}*"
        behind = "" if self.version == KAFKA_VERSION else f"@{self.version.rpartition('.')[0]}"
        return f"{before}{self.brokers}{behind}"


def layouts() -> list[Layout]:
    """The layouts of this run. Raises ValueError for one that means nothing."""
    return [Layout.of(text.strip()) for text in os.environ.get(VARIABLE, DEFAULT).split(",")]
