"""Messages and APIs by name."""

from __future__ import annotations

import pytest

from barnabas.cli.wire.names import (
    UnknownNameError,
    api_name,
    find_api,
    find_message,
    message_types,
    version_of,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import FetchRequest
from tests.protocol.samples import message_types as all_messages


def test_every_message_has_its_name() -> None:
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
def test_a_wrong_name_brings_those_near_it(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=near):
        find_message(name)


def test_a_name_that_is_near_to_none() -> None:
    with pytest.raises(UnknownNameError, match=r"no message is named 'zzzzzzzz'$"):
        find_message("zzzzzzzz")
    with pytest.raises(UnknownNameError):
        find_message("")


def test_versions() -> None:
    assert version_of(FetchRequest, None) == FetchRequest.versions.high
    assert version_of(FetchRequest, 4) == 4
    with pytest.raises(UnknownNameError, match="4-18, and not 3"):
        version_of(FetchRequest, 3)


@pytest.mark.parametrize("text", ["ListOffsets", "listoffsets", "LIST_OFFSETS", "list-offsets", "2"])
def test_an_api_by_name_or_key(text: str) -> None:
    assert find_api(text) is ApiKey.LIST_OFFSETS


@pytest.mark.parametrize(
    ("text", "said"), [("999", "key 999"), ("Fech", "near it: Fetch"), ("-1", "named '-1'")]
)
def test_a_wrong_api(text: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        find_api(text)


def test_names_of_apis_are_those_of_their_messages() -> None:
    for key in ApiKey:
        assert f"{api_name(key)}Request" in message_types()
