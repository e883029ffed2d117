"""Declaring messages: ranges of versions, structs, constructors, defaults."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.schema import (
    NO_VERSIONS,
    Message,
    Struct,
    VersionRange,
    array,
    bool_,
    bytes_,
    default_struct,
    float64,
    int32,
    string,
    struct,
    uuid,
    version_range,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid


class Empty(Message, api_key=8, versions="0", flexible="none"):
    """No fields."""


class Sample(Message, api_key=7, versions="1-4", flexible="3+"):
    """One field of every shape."""

    class Point(Struct):
        x: int = int32(default=-1)
        name: str | None = string(nullable="2+", default=None)

    flag: bool = bool_()
    number: int = int32(versions="2+", default=60_000, ignorable=True)
    ratio: float = float64()
    text: str = string()
    blob: bytes = bytes_()
    id: Uuid = uuid()
    numbers: list[int] = array(int32)
    points: list[Sample.Point] | None = array("Point", nullable="3+", default=None)
    home: Sample.Point = struct("Point")
    away: Sample.Point | None = struct("Point", nullable="1+", default=None, tag=0, tagged="3+")


def field(name: str) -> Any:
    return next(field for field in Sample.fields if field.name == name)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0", 0, 0), ("3-5", 3, 5), ("12-13", 12, 13), ("0+", 0, 32767), ("10+", 10, 32767)],
)
def test_ranges_of_versions(text: str, low: int, high: int) -> None:
    versions = version_range(text)
    assert versions == VersionRange(low, high)
    assert (versions.has(low - 1), versions.has(low), versions.has(high), versions.has(high + 1)) == (
        False,
        True,
        True,
        False,
    )
    assert str(versions) == text


def test_the_empty_range() -> None:
    assert version_range("none") == NO_VERSIONS
    assert not any(NO_VERSIONS.has(version) for version in range(-2, 3))
    assert str(NO_VERSIONS) == "none"


def test_a_message_knows_its_key_and_versions() -> None:
    assert (Sample.api_key, Sample.versions, Sample.flexible_versions) == (7, (1, 4), (3, 32767))
    assert not Sample.latest_unstable


def test_fields_keep_the_order_and_the_facts_of_the_declaration() -> None:
    names = ["flag", "number", "ratio", "text", "blob", "id", "numbers", "points", "home", "away"]
    assert [field.name for field in Sample.fields] == names
    assert (field("number").type, field("number").versions, field("number").ignorable) == (
        "int32",
        (2, 32767),
        True,
    )
    assert (field("points").is_array, field("points").struct) == (True, Sample.Point)
    assert (field("away").tag, field("away").tagged, field("flag").tag) == (0, (3, 32767), -1)
    assert repr(field("points")) == "Field(points: []Point, versions 0+)"


def test_a_constructor_without_arguments_gives_the_defaults() -> None:
    sample = Sample()
    assert (sample.flag, sample.number, sample.ratio, sample.text, sample.blob) == (
        False,
        60_000,
        0.0,
        "",
        b"",
    )
    assert (sample.id, sample.numbers, sample.points, sample.away) == (ZERO_UUID, [], None, None)
    assert sample.home == Sample.Point(x=-1, name=None)
    assert sample.unknown_tagged_fields is None


def test_each_message_has_lists_of_its_own() -> None:
    first, second = Sample(), Sample()
    first.numbers.append(1)
    assert second.numbers == []
    assert Sample().numbers == []


def test_null_can_be_passed_where_the_default_is_a_list() -> None:
    assert FetchResponse.PartitionData().aborted_transactions == []
    assert FetchResponse.PartitionData(aborted_transactions=None).aborted_transactions is None


def test_the_default_of_a_struct_is_shared_and_cannot_be_changed_by_mistake() -> None:
    sample = Sample()
    assert sample.home is Sample().home is default_struct(Sample.Point)
    with pytest.raises(AttributeError, match="assign a new one"):
        sample.home.x = 3
    assert isinstance(sample.home, Sample.Point)
    sample.home = Sample.Point(x=3)
    assert (sample.home.x, Sample().home.x) == (3, -1)


def test_arguments_are_keywords_that_exist() -> None:
    with pytest.raises(TypeError, match="numbr"):
        Sample(numbr=1)  # type: ignore[call-arg]
    constructor: Any = Sample
    with pytest.raises(TypeError, match="positional"):
        constructor(1)


def test_a_message_has_no_attributes_but_its_fields() -> None:
    with pytest.raises(AttributeError):
        Sample().numbr = 1  # type: ignore[attr-defined]


def test_equality_is_field_by_field() -> None:
    assert Sample(text="a", numbers=[1]) == Sample(text="a", numbers=[1])
    assert Sample(text="a") != Sample(text="b")
    assert Sample(unknown_tagged_fields={5: b"x"}) != Sample()
    assert Sample(unknown_tagged_fields={}) == Sample(unknown_tagged_fields=None)
    assert Sample() != "Sample()"
    assert Sample(home=Sample.Point(x=-1)) == Sample(), "the shared default equals one of its own"
    assert Empty() == Empty()
    assert Empty(unknown_tagged_fields={5: b"x"}) != Empty()
    assert FetchResponse.LeaderIdAndEpoch() != FetchResponse.EpochEndOffset()


def test_messages_are_mutable_and_so_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Sample())


def test_repr_can_be_read() -> None:
    assert repr(Sample.Point(x=1, name="a")) == "Sample.Point(x=1, name='a')"
    assert repr(Sample.Point(unknown_tagged_fields={1: b"z"})) == (
        "Sample.Point(x=-1, name=None, unknown_tagged_fields={1: b'z'})"
    )


def test_constructors_are_compiled_once() -> None:
    ProduceRequest()
    constructor = ProduceRequest.__init__
    ProduceRequest(acks=-1)
    assert ProduceRequest.__init__ is constructor


def test_make_is_the_constructor_in_another_form() -> None:
    given: dict[str, Any] = {"number": 5, "points": [Sample.Point(x=1)], "unknown_tagged_fields": {9: b"!"}}
    assert Sample.make() == Sample()
    assert Sample.make(**given) == Sample(**given)
    assert type(Sample.make(**given)) is Sample
    assert Sample.make().numbers is not Sample.make().numbers
    assert Sample.Point.make(x=3, name="a") == Sample.Point(x=3, name="a")
    with pytest.raises(TypeError, match="unexpected keyword"):
        Sample.make(nothing=1)  # type: ignore[call-arg]
