"""The rules of client quotas: valid ones, and the matches of filters, compared with a model."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.controller.quota_admin import (
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    Component,
    QuotaAlteration,
    QuotaFilter,
    alter_quotas,
    entity_of,
    entity_text,
    hosts_in,
)
from barnabas.broker.metadata.image import MetadataImage, QuotaEntity
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.errors import ApiError, ErrorCode

ALICE: QuotaEntity = (("user", "alice"),)
RATE = "producer_byte_rate"

names = st.sampled_from(["a", "b", None])
entities = st.one_of(
    st.builds(lambda user: (("user", user),), names),
    st.builds(lambda program: (("client-id", program),), names),
    st.builds(lambda program, user: (("client-id", program), ("user", user)), names, names),
    st.builds(lambda address: (("ip", address),), names),
)


@st.composite
def components(draw: st.DrawFn) -> list[Component]:
    types = draw(st.sampled_from([(), ("user",), ("client-id",), ("client-id", "user"), ("ip",)]))
    return [
        (
            kind,
            *draw(
                st.sampled_from(
                    [
                        (MATCH_EXACT, "a"),
                        (MATCH_EXACT, "b"),
                        (MATCH_EXACT, "c"),
                        (MATCH_DEFAULT, None),
                        (MATCH_SPECIFIED, None),
                    ]
                )
            ),
        )
        for kind in types
    ]


@settings(deadline=None)
@given(entities, components(), st.booleans())
def test_a_filter_finds_what_the_model_finds(
    entity: QuotaEntity, wanted: list[Component], strict: bool
) -> None:
    """The model lists every entity that the filter matches, among few values."""
    choices = {
        (kind, match, name): [name]
        if match == MATCH_EXACT
        else [None]
        if match == MATCH_DEFAULT
        else ["a", "b", None]
        for kind, match, name in wanted
    }
    meant = [tuple((component[0], name) for component, name in zip(choices, each, strict=True))
             for each in product(*choices.values())]  # fmt: skip
    fits = any(set(one) == set(entity) if strict else set(one) <= set(entity) for one in meant)
    assert QuotaFilter(wanted, strict=strict).matches(entity) == fits


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([("", MATCH_EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", MATCH_EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", MATCH_EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", MATCH_DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", MATCH_SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", MATCH_EXACT, "a"), ("user", MATCH_DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", MATCH_SPECIFIED, None), ("ip", MATCH_SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filters_are_rejected(wanted: list[Component], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        QuotaFilter(wanted, strict=False)
    assert caught.value.code is code


class World:
    """Quotas that alterations change as in the metadata."""

    def __init__(self) -> None:
        self.image = MetadataImage.empty()

    def alter(self, *alterations: QuotaAlteration) -> dict[QuotaEntity, ErrorCode]:
        records, outcomes = alter_quotas(self.image.quotas, alterations, {"localhost"}.__contains__)
        self.image, _ = replayed(self.image, records)
        return {entity: ErrorCode.NONE if error is None else error.code for entity, error in outcomes.items()}

    def of(self, entity: QuotaEntity) -> dict[str, float] | None:
        limits = self.image.quotas.get(entity)
        return None if limits is None else dict(limits)


def test_quotas_can_be_set_changed_and_removed() -> None:
    world = World()
    assert world.alter(QuotaAlteration(ALICE, [(RATE, 1.0), ("request_percentage", 0.5)])) == {
        ALICE: ErrorCode.NONE
    }
    assert world.of(ALICE) == {RATE: 1.0, "request_percentage": 0.5}
    world.alter(QuotaAlteration(ALICE, [(RATE, 2.0), ("request_percentage", None)]))
    assert world.of(ALICE) == {RATE: 2.0}
    world.alter(QuotaAlteration(ALICE, [(RATE, None), ("consumer_byte_rate", None)]))
    assert world.of(ALICE) is None


def test_unchanged_quotas_need_no_record() -> None:
    quotas = {ALICE: {RATE: 1.0, "request_percentage": math.nan}}
    for ops in ([(RATE, 1.0)], [("request_percentage", math.nan)], [("consumer_byte_rate", None)], []):
        records, outcomes = alter_quotas(quotas, [QuotaAlteration(ALICE, ops)], bool)
        assert records == []
        assert outcomes == {ALICE: None}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("group", "g")],
        [("user", "")],
        [("ip", "10.0.0.1"), ("user", "alice")],
        [("ip", "no such host")],
    ],
)
def test_invalid_entities_are_rejected(parts: list[tuple[str, str | None]]) -> None:
    world = World()
    assert world.alter(QuotaAlteration(parts, [])) == {entity_of(parts): ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "localhost", None])
def test_addresses_and_hosts_have_only_the_connection_quota(address: str | None) -> None:
    world, entity = World(), (("ip", address),)
    assert world.alter(QuotaAlteration(entity, [(RATE, 1.0)])) == {entity: ErrorCode.INVALID_REQUEST}
    assert world.alter(QuotaAlteration(entity, [("connection_creation_rate", 5.0)])) == {
        entity: ErrorCode.NONE
    }
    assert world.of(entity) == {"connection_creation_rate": 5.0}


@pytest.mark.parametrize(
    ("key", "value", "is_right"),
    [
        (RATE, 1.0, True),
        (RATE, 1.0 + 1e-7, True),
        (RATE, 1.5, False),
        (RATE, 0.0, False),
        (RATE, -1.0, False),
        (RATE, float(1 << 63), True),
        (RATE, 1e19, False),
        (RATE, math.inf, False),
        (RATE, math.nan, True),
        ("request_percentage", 0.01, True),
        ("request_percentage", math.inf, True),
        ("connection_creation_rate", 1.0, False),
        ("retention.ms", 1.0, False),
    ],
)
def test_quota_values(key: str, value: float, is_right: bool) -> None:
    world = World()
    expected = ErrorCode.NONE if is_right else ErrorCode.INVALID_REQUEST
    assert world.alter(QuotaAlteration(ALICE, [(key, value)])) == {ALICE: expected}
    assert (world.of(ALICE) is not None) == is_right


def test_an_entity_given_twice_applies_the_first_and_returns_an_error() -> None:
    world = World()
    first, second = QuotaAlteration(ALICE, [(RATE, 1.0)]), QuotaAlteration(ALICE, [(RATE, 2.0)])
    assert world.alter(first, second) == {ALICE: ErrorCode.INVALID_REQUEST}
    assert world.of(ALICE) == {RATE: 1.0}


def test_a_quota_given_twice_changes_nothing() -> None:
    world = World()
    assert world.alter(QuotaAlteration(ALICE, [(RATE, 1.0), (RATE, 2.0)])) == {
        ALICE: ErrorCode.INVALID_REQUEST
    }
    assert world.of(ALICE) is None


def test_one_request_is_one_batch_of_bounded_length() -> None:
    many = [
        QuotaAlteration([("user", str(number))], [(RATE, 1.0)])
        for number in range(MAX_RECORDS_PER_USER_OP + 1)
    ]
    with pytest.raises(ApiError) as caught:
        alter_quotas({}, many, bool)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert len(alter_quotas({}, many[1:], bool)[0]) == MAX_RECORDS_PER_USER_OP


def test_only_host_names_are_resolved() -> None:
    parts = ("10.0.0.1", "::1", "localhost", "300.1.1.1", None, "")
    alterations = [QuotaAlteration([("ip", name)], []) for name in parts]
    assert hosts_in([*alterations, QuotaAlteration(ALICE, [])]) == {"localhost", "300.1.1.1"}


def test_an_entity_as_text() -> None:
    assert entity_text(entity_of([("user", None), ("client-id", "x")])) == "client-id 'x', user <default>"
