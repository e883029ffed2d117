"""The values that stand for a response that did not come."""

from __future__ import annotations

from typing import get_args

from barnabas.broker.node_client.channel import (
    NodeClientError,
    NodeUnavailable,
    ResponseCorrupt,
    UnsupportedVersion,
)
from barnabas.protocol.schema import Message


def test_each_error_is_one_kind_and_no_response() -> None:
    kinds = (NodeUnavailable, UnsupportedVersion, ResponseCorrupt)
    assert set(get_args(NodeClientError)) == set(kinds)
    for kind in kinds:
        error = kind("the reason")
        assert error.reason == "the reason"
        assert not isinstance(error, Message)
        assert [other for other in kinds if isinstance(error, other)] == [kind]
