"""The catalogue as a whole; conformance holds each key against Kafka's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config import catalogue
from barnabas.config.catalogue import SECTIONS, use
from barnabas.config.catalogue.gone import GONE, GONE_PREFIXES, OPEN_PREFIXES
from barnabas.config.keys import ConfigKey, Use

ALL: Mapping[str, Mapping[str, ConfigKey[Any]]] = {
    "broker": catalogue.BROKER_KEYS,
    "dynamic": catalogue.DYNAMIC_BROKER_KEYS,
    "topic": catalogue.TOPIC_KEYS,
    "group": catalogue.GROUP_KEYS,
    "client metrics": catalogue.CLIENT_METRICS_KEYS,
    "quotas": catalogue.QUOTA_KEYS,
}
EVERY = [key for keys in ALL.values() for key in keys.values()]


def test_sections_do_not_overlap() -> None:
    assert sum(len(section) for section in SECTIONS.values()) == len(catalogue.BROKER_KEYS)


def test_a_key_explains_itself() -> None:
    for key in EVERY:
        assert key.documentation.endswith("."), key
        assert key.acted_on or key.use.note, key


def test_a_default_satisfies_its_own_validator() -> None:
    for key in EVERY:
        written = key.format(key.default)
        assert written is None or key.parse(written) == key.default, key


def test_constants_are_named_as_the_keys() -> None:
    for name in (
        "log",
        "topic",
        "network",
        "server",
        "groups",
        "share",
        "transactions",
        "tls",
        "sasl",
        "tiering",
    ):
        module = getattr(catalogue, name)
        for constant, value in vars(module).items():
            if isinstance(value, ConfigKey):
                assert constant == value.name.upper().replace(".", "_")


def test_topic_keys_follow_broker_keys_of_their_type() -> None:
    for key in (*catalogue.TOPIC_KEYS.values(), *catalogue.GROUP_KEYS.values()):
        for synonym in key.synonyms:
            behind = catalogue.BROKER_KEYS[synonym.name]
            assert (
                behind.type is key.type
                or synonym.factor != 1
                or {behind.type.name, key.type.name} == {"INT", "LONG"}
            )


def test_removed_keys_are_not_declared() -> None:
    assert not set(GONE) & set(catalogue.BROKER_KEYS)
    for prefix in (*GONE_PREFIXES, *OPEN_PREFIXES):
        inside = {name for name in catalogue.BROKER_KEYS if name.startswith(prefix)}
        assert inside <= {"client.quota.callback.class"}


def test_every_reason_is_used() -> None:
    reasons = {name for name, value in vars(use).items() if isinstance(value, Use)}
    used = {name for name in reasons if any(key.use is getattr(use, name) for key in EVERY)}
    assert reasons == used
