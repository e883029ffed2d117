"""Requests: the context of a request, and one handler for each API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.broker import request
from barnabas.broker.request import (
    ANONYMOUS,
    REGISTRY,
    ConnectionInfo,
    KafkaPrincipal,
    PartitionCharge,
    RequestContext,
    api,
)
from barnabas.protocol.api_keys import ApiKey


def test_a_context_has_the_header_and_the_connection() -> None:
    connection = ConnectionInfo(
        connection_id=7,
        listener_name="PLAINTEXT",
        client_host="192.0.2.7",
        client_port=50_000,
        local_host="192.0.2.1",
        local_port=9092,
    )
    context = RequestContext(connection, ApiKey.METADATA, 12, "me")
    assert (context.api_key, context.api_version) == (ApiKey.METADATA, 12)
    assert context.client_id == "me"
    assert context.connection.principal is ANONYMOUS
    assert context.connection.client_software_name == "unknown"


def test_a_request_may_have_a_context_of_its_own_with_a_meter() -> None:
    connection = ConnectionInfo(
        connection_id=1, listener_name="L", client_host="", client_port=0, local_host="", local_port=0
    )
    shared, meter = RequestContext(connection, ApiKey.METADATA, 12, "me"), NoMeter()
    own = shared.metered(meter)
    assert (own.connection, own.api_key, own.api_version, own.client_id) == (
        connection,
        ApiKey.METADATA,
        12,
        "me",
    )
    assert (own.meter, shared.meter) == (meter, None)


class NoMeter:
    """A meter without quotas."""

    def fetch_limit_bytes(self) -> int:
        raise NotImplementedError

    def fetched(self, response_bytes: int) -> int:
        raise NotImplementedError

    def exempt(self) -> None:
        raise NotImplementedError

    def mutation_charge(self, *, is_strict: bool, throttles: bool = True) -> PartitionCharge | None:
        raise NotImplementedError


def test_principals_are_equal_by_type_and_name() -> None:
    alice = KafkaPrincipal("alice")
    by_token = KafkaPrincipal("alice", token_authenticated=True)
    assert {alice, by_token, KafkaPrincipal("alice")} == {alice}
    assert alice not in [KafkaPrincipal("alice", "Group"), KafkaPrincipal("Alice"), "User:alice"]
    assert [str(by_token), repr(alice), repr(by_token)] == [
        "User:alice",
        "<KafkaPrincipal User:alice>",
        "<KafkaPrincipal User:alice by token>",
    ]


@pytest.fixture
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    saved = dict(REGISTRY)
    REGISTRY.clear()
    yield
    REGISTRY.clear()
    REGISTRY.update(saved)


@pytest.mark.usefixtures("empty_registry")
def test_a_handler_is_registered_with_its_versions_and_returned_unchanged() -> None:
    @api(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13))
    def produce(broker: object, context: RequestContext, message: object) -> object:
        return message

    @api(ApiKey.METADATA, versions=(0, 13))
    def metadata(broker: object, context: RequestContext, message: object) -> object:
        return message

    assert REGISTRY[ApiKey.PRODUCE].handle is produce
    assert REGISTRY[ApiKey.PRODUCE].versions == (3, 13)
    assert REGISTRY[ApiKey.PRODUCE].advertised == (0, 13)
    assert REGISTRY[ApiKey.METADATA].handle is metadata
    assert REGISTRY[ApiKey.METADATA].advertised == (0, 13)


@pytest.mark.usefixtures("empty_registry")
def test_two_handlers_for_one_api_raise_an_error() -> None:
    @api(ApiKey.METADATA, versions=(0, 13))
    def first(broker: object, context: RequestContext, message: object) -> object:
        return message

    with pytest.raises(AssertionError, match="METADATA has two handlers"):
        api(ApiKey.METADATA, versions=(0, 1))(first)


def test_no_response_is_distinct_from_a_response() -> None:
    assert {request.NO_RESPONSE, request.CLOSE_CONNECTION} == set(request.NoResponse)
