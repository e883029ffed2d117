"""Responses in which everything has failed alike."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.kafka_apis.api_checks import API_CHECKS
from barnabas.broker.kafka_apis.error_places import error_places, errors_in
from barnabas.broker.kafka_apis.error_responses import error_response, has_error_response
from barnabas.broker.request import REGISTRY
from barnabas.protocol.api_keys import ApiKey, request_type
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.protocol.samples import random_message

handlers.register_all()
ERROR = ErrorCode.REQUEST_TIMED_OUT
REJECTED_AS_A_WHOLE = [
    (key, version)
    for key, handler in REGISTRY.items()
    if handler.forwardable or API_CHECKS[ApiKey(key)].gates
    for version in range(handler.versions[0], handler.versions[1] + 1)
]
FORWARDABLE = [(key, version) for key, version in REJECTED_AS_A_WHOLE if REGISTRY[key].forwardable]


def codes_in(response: Any) -> list[int]:
    own = response.error_code if hasattr(response, "error_code") else 0
    return [*errors_in(response, error_places(type(response))), *([own] if own else [])]


@pytest.mark.parametrize(("key", "version"), REJECTED_AS_A_WHOLE)
def test_every_api_and_version_that_may_be_rejected_as_a_whole_has_a_form(key: ApiKey, version: int) -> None:
    codes = []
    for seed in range(10):
        request = random_message(Random(seed), request_type(key), version)
        response = error_response(request, version, ERROR, "too late")
        codes += codes_in(response)
        decoded = decode(type(response), version, encode(response, version))
        codes += codes_in(decoded)
    assert set(codes) == {ERROR}
    assert len(codes) >= 10


def test_each_part_of_the_request_is_answered() -> None:
    topic_id = bytes(15) + b"\1"
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicsRequest.DeleteTopicState(name="a"),
            DeleteTopicsRequest.DeleteTopicState(topic_id=topic_id),
        ]
    )
    response = error_response(request, 6, ERROR, "too late")
    assert isinstance(response, DeleteTopicsResponse)
    assert [(each.name, each.topic_id, each.error_message) for each in response.responses] == [
        ("a", bytes(16), "too late"),
        (None, topic_id, "too late"),
    ]


@pytest.mark.parametrize(("key", "version"), FORWARDABLE)
def test_what_is_forwardable_has_a_place_for_an_error(key: ApiKey, version: int) -> None:
    assert has_error_response(request_type(key)(), version)


def test_which_other_requests_have_a_place_for_an_error() -> None:
    assert has_error_response(HeartbeatRequest(), 4)
    assert not has_error_response(MetadataRequest(), 12)
    assert has_error_response(MetadataRequest(), 13)
