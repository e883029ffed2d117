"""Which message and which header belong to an API key."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)


def test_keys_0_to_92_without_those_that_kafka_4_removed() -> None:
    assert [key.value for key in ApiKey] == [0, 1, 2, 3, *range(8, 93)]


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_request_and_response_carry_the_key_and_the_same_versions(key: ApiKey) -> None:
    request, response = request_type(key), response_type(key)
    assert request.__name__.removesuffix("Request") == response.__name__.removesuffix("Response")
    assert request.api_key == response.api_key == key
    assert request.versions == response.versions


@pytest.mark.parametrize("key", [-1, 4, 7, 93, 32767])
def test_a_key_that_does_not_exist_is_an_error(key: int) -> None:
    with pytest.raises(ValueError, match=str(key)):
        request_type(key)
    with pytest.raises(ValueError, match=str(key)):
        response_type(key)


def test_headers_are_flexible_where_their_message_is() -> None:
    assert [request_header_version(ApiKey.PRODUCE, version) for version in (3, 8, 9, 13)] == [1, 1, 2, 2]
    assert [response_header_version(ApiKey.PRODUCE, version) for version in (3, 8, 9, 13)] == [0, 0, 1, 1]
    assert [request_header_version(ApiKey.SASL_HANDSHAKE, version) for version in (0, 1)] == [1, 1]


def test_the_response_to_api_versions_has_the_oldest_header_in_every_version() -> None:
    assert [request_header_version(ApiKey.API_VERSIONS, version) for version in (0, 2, 3, 4)] == [1, 1, 2, 2]
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in range(5)] == [0] * 5


def test_a_future_version_has_the_header_of_the_newest() -> None:
    assert request_header_version(ApiKey.API_VERSIONS, 99) == 2


def test_importing_the_keys_imports_no_message() -> None:
    code = (
        "import sys, barnabas.protocol.api_keys; print([m for m in sys.modules if "
        "m.startswith('barnabas.protocol.messages')])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_titles_are_those_of_kafkas_documentation() -> None:
    assert ApiKey.ALTER_USER_SCRAM_CREDENTIALS.title == "AlterUserScramCredentials"


def test_the_versions_of_a_client_are_the_declared_ones_that_are_final() -> None:
    for key in ApiKey:
        request = request_type(key)
        newest = request.versions.high - 1 if request.latest_unstable else request.versions.high
        assert known_versions(key) == (request.versions.low, newest)
    assert any(request_type(key).latest_unstable for key in ApiKey)
