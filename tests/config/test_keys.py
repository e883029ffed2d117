"""What a key is."""

from __future__ import annotations

import pytest

from barnabas.config.catalogue.use import ACTED, ONE_LOOP
from barnabas.config.keys import CLUSTER_WIDE, HIGH, LOW, READ_ONLY, ConfigError, KeySet
from barnabas.config.validators import ListOf, OneOf, at_least, between
from barnabas.config.values import ConfigType


def test_a_declaration_holds_the_facts() -> None:
    keys = KeySet()
    key = keys.int_("a.b", 5, HIGH, ACTED, at_least(1), CLUSTER_WIDE, internal=True).doc("What it does.")
    assert keys.by_name == {"a.b": key}
    assert (key.name, key.type, key.default, key.importance) == ("a.b", ConfigType.INT, 5, HIGH)
    assert (key.dynamic, key.internal, key.acted_on, key.documentation) == (
        CLUSTER_WIDE,
        True,
        True,
        "What it does.",
    )
    assert repr(key) == "<ConfigKey a.b>"
    assert keys.string("c", "", LOW, ONE_LOOP).dynamic is READ_ONLY
    assert not keys.by_name["c"].acted_on


def test_a_name_is_declared_once() -> None:
    keys = KeySet()
    keys.boolean("a", True, LOW, ACTED)
    with pytest.raises(AssertionError, match="a is declared twice"):
        keys.long("a", 1, LOW, ACTED)


def test_a_topic_key_names_the_broker_keys_behind_it() -> None:
    keys = KeySet()
    ms, hours = keys.optional_long("r.ms", None, LOW, ACTED), keys.int_("r.hours", 168, LOW, ACTED)
    key = keys.long("t.ms", 0, LOW, ACTED).follows(ms, (hours, 3_600_000))
    assert [(synonym.name, synonym.factor) for synonym in key.synonyms] == [
        ("r.ms", 1),
        ("r.hours", 3_600_000),
    ]


def test_parsing_checks_type_and_range() -> None:
    key = KeySet().int_("a", 5, HIGH, ACTED, between(1, 9))
    assert key.parse(" 9 ") == 9
    for text in ("0", "10", "x"):
        with pytest.raises(ConfigError) as caught:
            key.parse(text)
        assert str(caught.value) == f"a={text} must be a whole number from 1 to 9"
        assert (caught.value.key, caught.value.value, caught.value.place) == ("a", text, "")


def test_lists_lose_their_repetitions() -> None:
    key = KeySet().list_("a", (), HIGH, ACTED, ListOf())
    assert key.parse("b, a ,b") == ("b", "a")
    assert key.format(("b", "a")) == "b,a"


def test_the_requirement_is_said_in_words() -> None:
    keys = KeySet()
    assert keys.boolean("a", True, LOW, ACTED).requirement == "true or false"
    assert keys.int_("b", 1, LOW, ACTED).requirement == "a whole number from -2147483648 to 2147483647"
    assert keys.int_("c", 1, LOW, ACTED, at_least(1)).requirement == "a whole number from 1 to 2147483647"
    assert keys.long("d", 1, LOW, ACTED, at_least(1)).requirement == "a whole number, at least 1"
    assert keys.double("e", 0.5, LOW, ACTED, between(0, 1)).requirement == "a decimal number from 0 to 1"
    assert keys.string("f", "x", LOW, ACTED, OneOf("x", "y")).requirement == "one of x, y"


def test_a_password_is_not_repeated_in_an_error() -> None:
    key = KeySet().password("p", None, LOW, ACTED)
    assert key.sensitive
    assert str(key.error("hunter2", "longer")) == "p=[hidden] must be longer"


def test_an_error_can_be_given_its_place() -> None:
    error = ConfigError("a", "1", "must be 2")
    assert str(error.at("file line 3")) == "file line 3: a=1 must be 2"
    assert str(ConfigError("a", None, "is unknown")) == "a is unknown"


def test_an_answer_has_kafkas_phrase_and_no_place() -> None:
    error = ConfigError("a", "1", "must be 2", "the file")
    assert error.answer == "Invalid value 1 for configuration a: must be 2"
    assert ConfigError("a", None, "is unknown").answer == "a is unknown"
    own = ConfigError("a", "1", "must be 2", phrase="a is wrong").at("the file")
    assert own.answer == "a is wrong (a=1 must be 2)"
