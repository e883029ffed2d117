"""What a value must satisfy, and the words for it."""

from __future__ import annotations

import pytest

from barnabas.config.validators import (
    ListOf,
    NonEmpty,
    OneOf,
    Range,
    Satisfies,
    Validator,
    at_least,
    between,
    is_authorizer_class,
    is_list_of_hosts,
    is_list_of_http_hosts,
    is_list_of_voters,
    is_share_offset_reset,
    is_throttled_replica_list,
)


@pytest.mark.parametrize(
    ("validator", "accepted", "refused", "requirement"),
    [
        (at_least(1), [1, 2.5], [0, -1], "at least 1"),
        (Range(None, 5), [5, -9], [6], "at most 5"),
        (between(0, 1), [0, 0.5, 1], [-0.1, 1.1], "from 0 to 1"),
        (OneOf("a", "b"), ["a"], ["A", "c", ""], "one of a, b"),
        (OneOf("A", "B", ignore_case=True), ["a", "B"], ["c"], "one of A, B in any case"),
        (ListOf(), [("x",)], [(), ("x", "")], "a comma-separated list of non-empty entries, at least one"),
        (ListOf("a", "b"), [("b", "a")], [("c",), ()], "a comma-separated list of any of a, b, at least one"),
        (ListOf("a", may_be_empty=True), [(), ("a",)], [("",)], "a comma-separated list of any of a"),
        (NonEmpty(), ["x"], [""], "a non-empty string"),
        (Satisfies(lambda value: value == 4, "four"), [4], [5], "four"),
    ],
)
def test_a_validator_accepts_rejects_and_states_its_requirement(
    validator: Validator, accepted: list[object], refused: list[object], requirement: str
) -> None:
    assert [validator.accepts(value) for value in accepted] == [True] * len(accepted)
    assert [validator.accepts(value) for value in refused] == [False] * len(refused)
    assert validator.requirement == requirement


def test_a_range_lets_nan_pass_as_kafka_does() -> None:
    assert between(0, 1).accepts(float("nan"))


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        Validator().accepts(1)


@pytest.mark.parametrize(
    ("entries", "good"), [((), True), (("*",), True), (("1:2", ""), True), (("1:x",), False)]
)
def test_throttled_replicas(entries: tuple[str, ...], good: bool) -> None:
    assert is_throttled_replica_list(entries) is good


@pytest.mark.parametrize(
    ("entry", "good"), [("1@a:1", True), ("1@[::1]:9", True), ("a@b:1", False), ("1@b", False)]
)
def test_voters(entry: str, good: bool) -> None:
    assert is_list_of_voters((entry,)) is good


@pytest.mark.parametrize(
    ("entry", "good"),
    [("a:1", True), (":1", True), ("SSL://a:1", True), ("a", False), ("a b:1", False), ("a:x", False)],
)
def test_hosts(entry: str, good: bool) -> None:
    assert is_list_of_hosts((entry,)) is good


@pytest.mark.parametrize(
    ("entry", "good"),
    [
        ("a", True),
        ("a_b.example-1.com.", True),
        (".example.com", True),
        ("*", True),
        ("*.example.com", False),
        ("a:9644", False),
        ("http://a", False),
        ("a b", False),
        ("\u00e4", False),
        (".", False),
        ("", False),
    ],
)
def test_http_hosts(entry: str, good: bool) -> None:
    assert is_list_of_http_hosts((entry,)) is good
    assert is_list_of_http_hosts(())


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("latest", True),
        ("earliest", True),
        ("by_duration:PT1H", True),
        ("by_duration:p1dt2.5s", True),
        ("by_duration:PT", False),
        ("by_duration:P", False),
        ("by_duration:-PT1H", False),
        ("by_duration:", False),
        ("none", False),
    ],
)
def test_share_offset_resets(text: str, good: bool) -> None:
    assert is_share_offset_reset(text) is good


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("", True),
        ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", True),
        ("python:acme.access:Authorizer", True),
        ("kafka.security.authorizer.AclAuthorizer", False),
        ("com.example.Authorizer", False),
        ("python:acme.access", False),
        ("python::Authorizer", False),
        ("python:acme.access: ", False),
        ("java:acme.access:Authorizer", False),
    ],
)
def test_classes_of_authorizers(name: str, is_one: bool) -> None:
    assert is_authorizer_class(name) is is_one
