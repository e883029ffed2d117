"""Dialogues that a client can hold with any broker, one module for each family of APIs, and their registry.

    @dialogue(ApiKey.METADATA, 0, 13)
    def unknown_topic(client: DialogueClient) -> None:
        client.request(MetadataRequest(topics=[wanted(client.topic("t"))]))

A dialogue asserts no expected response: it is held with Apache Kafka and with Barnabas, in every version of the range,
and both transcripts must be equal. `differs` gives the reason of an intended difference; such a dialogue must differ,
so that no outdated exception stays. `brokers` selects the pair of brokers: PLAIN, SECURED with an authorizer and a
receiver of client metrics, or JBOD with three log directories.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from tests.conformance.dialogue_client import DialogueClient

PLAIN: Final = "plain"
SECURED: Final = "secured"
JBOD: Final = "jbod"

MODULES: Final = (
    "acls",
    "alter_configs",
    "api_versions",
    "classic_groups",
    "commits",
    "configs",
    "consumer_commits",
    "consumer_groups",
    "features",
    "fetch",
    "fetch_sessions",
    "frames",
    "groups",
    "log_dirs",
    "metadata",
    "migrations",
    "offsets",
    "order",
    "partitions",
    "produce",
    "produce_transactions",
    "producers",
    "quotas",
    "read_committed",
    "sasl",
    "scram",
    "telemetry",
    "tokens",
    "quorum",
    "topics",
    "transactions",
    "txn_commits",
    "txn_markers",
)

Play = Callable[["DialogueClient"], None]


class Dialogue(NamedTuple):
    """One dialogue and its range of versions."""

    name: str
    key: ApiKey
    low: int
    high: int
    play: Play
    differs: str | None
    brokers: str


DIALOGUES: list[Dialogue] = []


def dialogue(
    key: ApiKey, low: int, high: int, *, differs: str | None = None, brokers: str = PLAIN
) -> Callable[[Play], Play]:
    """Registers the decorated function; `low` and `high` are versions of the API `key`, both included."""

    def register(play: Play) -> Play:
        name = f"{key.name.lower()}-{play.__name__}".replace("_", "-")
        assert all(known.name != name for known in DIALOGUES), f"two dialogues are named {name}"
        DIALOGUES.append(Dialogue(name, key, low, high, play, differs, brokers))
        return play

    return register


def all_dialogues() -> list[Dialogue]:
    """Every dialogue of every module."""
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
    return DIALOGUES
