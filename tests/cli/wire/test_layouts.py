"""Messages and APIs by name, and the layout of every message, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.cli.wire.layouts import (
    UnknownNameError,
    as_json,
    find_api,
    find_message,
    header_of,
    message_types,
    text_lines,
    version_of,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.group_state import OffsetCommitValue
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.reference import layout
from barnabas.protocol.schema import Message
from tests.protocol.samples import every_version, version_id
from tests.protocol.samples import message_types as all_messages


@pytest.mark.parametrize(("message_type", "version"), every_version(), ids=version_id)
def test_every_field_of_every_version_is_shown(message_type: type[Message], version: int) -> None:
    text = "\n".join(text_lines(message_type, version))
    shown = as_json(message_type, version)
    assert json.loads(json.dumps(shown)) == shown
    assert text.startswith(f"{message_type.__name__} version {version}\n")
    struct = layout(message_type, version)
    known = struct.tagged.known if struct.tagged is not None else {}
    expected = [
        *(field.name for field, _ in struct.members),
        *(entry.field.name for entry in known.values()),
    ]
    top = [each["name"] for each in [*shown["fields"], *(shown["tagged_fields"] or [])]]
    assert top == expected
    lines = text.splitlines()
    for name in names_in(shown):
        assert any(line.lstrip().startswith(f"{name} ") for line in lines), name


def names_in(struct: dict[str, Any]) -> Iterator[str]:
    for field in [*struct["fields"], *(struct["tagged_fields"] or [])]:
        yield field["name"]
        if "struct" in field:
            yield from names_in(field["struct"])


def test_heartbeat_by_example() -> None:
    assert list(text_lines(HeartbeatRequest, 3)) == [
        "HeartbeatRequest version 3",
        "  versions 0-4; flexible from 4; no tagged fields here; API key 12, behind RequestHeader v1",
        "  Says that a member of a classic group is alive.",
        "",
        "group_id                                     string                         versions 0+",
        "generation_id                                int32                          versions 0+",
        "member_id                                    string                         versions 0+",
        "group_instance_id                            nullable string                versions 3+; default null",
    ]


def test_nested_tagged_and_absent_fields() -> None:
    lines = list(text_lines(FetchRequest, 12))
    fields = [" ".join(line.split()) for line in lines]
    assert "partitions compact array of FetchPartition versions 0+" in fields
    assert "cluster_id compact nullable string tag 0; versions 12+; default null" in fields
    assert "not in this version: topic_id (13+)" in fields
    assert any(line.startswith("    fetch_offset") for line in lines)


def test_a_nullable_struct() -> None:
    lines = [" ".join(line.split()) for line in text_lines(ConsumerGroupHeartbeatResponse, 0)]
    assert "assignment nullable Assignment versions 0+; default null" in lines


def test_headers() -> None:
    assert header_of(ApiVersionsResponse, 3) == "ResponseHeader v0"
    assert header_of(FetchRequest, 12) == "RequestHeader v2"
    assert header_of(OffsetCommitValue, 3) is None


# -- names --


def test_every_message_is_found_by_its_name() -> None:
    assert list(message_types().values()) == list(all_messages())
    for name, message in message_types().items():
        assert find_message(name) is find_message(name.lower()) is message


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Fetch", "FetchRequest, FetchResponse"),
        ("FetchReqest", "FetchRequest"),
        ("tokenre", "CreateDelegationTokenRequest"),
    ],
)
def test_a_wrong_name_suggests_similar_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=near):
        find_message(name)


def test_a_name_without_similar_names() -> None:
    with pytest.raises(UnknownNameError, match=r"no message is named 'zzzzzzzz'$"):
        find_message("zzzzzzzz")
    with pytest.raises(UnknownNameError):
        find_message("")


def test_versions() -> None:
    assert version_of(FetchRequest, None) == FetchRequest.versions.high
    assert version_of(FetchRequest, 4) == 4
    with pytest.raises(UnknownNameError, match="4-18, not 3"):
        version_of(FetchRequest, 3)


@pytest.mark.parametrize("text", ["ListOffsets", "listoffsets", "LIST_OFFSETS", "list-offsets", "2"])
def test_an_api_by_name_or_key(text: str) -> None:
    assert find_api(text) is ApiKey.LIST_OFFSETS


@pytest.mark.parametrize(
    ("text", "said"), [("999", "key 999"), ("Fech", "similar: Fetch"), ("-1", "named '-1'")]
)
def test_a_wrong_api(text: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        find_api(text)


def test_names_of_apis_are_those_of_their_messages() -> None:
    for key in ApiKey:
        assert f"{key.title}Request" in message_types()
