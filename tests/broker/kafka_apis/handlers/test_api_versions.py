"""ApiVersions, the first request of a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker.kafka_apis.handlers.api_versions import MAX_SOFTWARE_CHARACTERS
from barnabas.broker.request import REGISTRY, ApiHandler
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.schema import VersionRange
from tests.broker.broker_fixture import InProcessBroker
from tests.support.difference import Like

VERSIONS = range(5)
WITH_SOFTWARE = (3, 4)


def hello(name: str = "a-client.1", version: str = "2.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def asked(broker: InProcessBroker, version: int) -> ApiVersionsResponse:
    answer = broker.client(version=version).ask(hello())
    assert isinstance(answer, ApiVersionsResponse)
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_lists_the_apis_with_a_handler(broker: InProcessBroker, version: int) -> None:
    answer = asked(broker, version)
    assert answer.error_code == ErrorCode.NONE
    assert [entry.api_key for entry in answer.api_keys] == sorted(REGISTRY)
    for entry in answer.api_keys:
        assert (entry.min_version, entry.max_version) == REGISTRY[entry.api_key].advertised


def test_produce_is_advertised_from_version_0_for_librdkafka(broker: InProcessBroker) -> None:
    ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in asked(broker, 0).api_keys}
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert ranges[ApiKey.FETCH] == (4, 18)


def test_versions_before_3_have_no_features(broker: InProcessBroker) -> None:
    assert broker.client(version=2) >> hello() << Like(supported_features=[], finalized_features=[])


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (3, ["metadata.version"]),
        (
            4,
            [
                "eligible.leader.replicas.version",
                "group.version",
                "kraft.version",
                "metadata.version",
                "share.version",
                "streams.version",
                "transaction.version",
            ],
        ),
    ],
)
def test_features_whose_lowest_level_is_0_come_with_version_4(
    broker: InProcessBroker, version: int, names: list[str]
) -> None:
    answer = asked(broker, version)
    assert sorted(feature.name for feature in answer.supported_features) == names
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert levels == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert all(one.min_version_level == one.max_version_level for one in answer.finalized_features)
    assert answer.finalized_features_epoch == broker.broker.image.offset > 0


@pytest.mark.parametrize("version", WITH_SOFTWARE)
def test_the_connection_remembers_the_clients_software(broker: InProcessBroker, version: int) -> None:
    client = broker.client(version=version)
    assert client >> hello("kafka-python", "3.0.1") << Like(error_code=ErrorCode.NONE)
    assert (client.info.client_software_name, client.info.client_software_version) == (
        "kafka-python",
        "3.0.1",
    )


@pytest.mark.parametrize("version", WITH_SOFTWARE)
@pytest.mark.parametrize(
    ("name", "software_version"),
    [
        ("", "1"),
        ("a", ""),
        ("-a", "1"),
        ("a-", "1"),
        ("a", ".1"),
        ("a", "1."),
        ("a b", "1"),
        ("ä", "1"),
        ("a", "1_0"),
    ],
)
def test_invalid_software_names_are_rejected(
    broker: InProcessBroker, version: int, name: str, software_version: str
) -> None:
    client = broker.client(version=version)
    assert client >> hello(name, software_version) << Like(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    assert client.info.client_software_name == "unknown"


def test_a_client_without_a_software_name_is_unknown(broker: InProcessBroker) -> None:
    client = broker.client(version=2)
    assert client >> hello("", "") << Like(error_code=ErrorCode.NONE)
    assert client.info.client_software_name == "unknown"


class OtherController:
    """The Forwarder of a member whose controller serves CreateTopics in versions 3 to 5, and nothing else."""

    handlers: Mapping[ApiKey, ApiHandler] = {}

    def controller_versions(self, key: int) -> VersionRange | None:
        return VersionRange(3, 5) if key == ApiKey.CREATE_TOPICS else None


def test_apis_of_the_controller_are_offered_in_the_versions_that_both_serve(broker: InProcessBroker) -> None:
    broker.broker.forwarder = cast("Any", OtherController())
    offered = {entry.api_key: (entry.min_version, entry.max_version) for entry in asked(broker, 4).api_keys}
    assert offered[ApiKey.CREATE_TOPICS] == (3, 5)
    assert ApiKey.DELETE_TOPICS not in offered, "the controller does not serve it"
    assert offered[ApiKey.PRODUCE] == (0, 13), "a broker's own"


def test_an_api_without_a_common_version_is_not_offered(broker: InProcessBroker) -> None:
    class Newer(OtherController):
        def controller_versions(self, key: int) -> VersionRange | None:
            return VersionRange(1000, 1001)

    broker.broker.forwarder = cast("Any", Newer())
    assert ApiKey.CREATE_TOPICS not in {entry.api_key for entry in asked(broker, 4).api_keys}


def test_what_is_encoded_once_follows_what_it_is_made_of(broker: InProcessBroker) -> None:
    """The controller that a member follows changes its versions, and a feature gets another level."""
    known = asked(broker, 4)
    assert asked(broker, 4) == known
    controller = OtherController()
    broker.broker.forwarder = cast("Any", controller)
    served = {entry.api_key: entry.max_version for entry in asked(broker, 4).api_keys}
    assert served[ApiKey.CREATE_TOPICS] == 5
    controller.controller_versions = lambda key: VersionRange(2, 4)  # type: ignore[method-assign]
    assert {entry.api_key: entry.max_version for entry in asked(broker, 4).api_keys}[
        ApiKey.CREATE_TOPICS
    ] == 4
    broker.broker.forwarder = None
    assert asked(broker, 4) == known
    image = broker.broker.image
    broker.broker.controller = cast(
        "Any", SimpleNamespace(image=replace(image, features={"group.version": 1}))
    )
    assert [(one.name, one.max_version_level) for one in asked(broker, 4).finalized_features] == [
        ("group.version", 1)
    ]


def test_of_long_names_of_software_the_beginning_is_kept(broker: InProcessBroker) -> None:
    """A client may send them before it has logged in, and keep its connection open."""
    client = broker.client(version=3)
    assert client >> hello("n" * 30_000, "1" * 30_000) << Like(error_code=0)
    kept = client.info.client_software_name, client.info.client_software_version
    assert kept == ("n" * MAX_SOFTWARE_CHARACTERS, "1" * MAX_SOFTWARE_CHARACTERS)
