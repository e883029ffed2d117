"""ApiVersions, and requests of APIs or versions that a broker does not serve."""

from __future__ import annotations

import struct

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.request import REGISTRY
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import decode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.conformance.broker_connection import ClosedError
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

NOT_SERVED_ALIKE = {
    ApiKey.PRODUCE: (0, 1, 2, 14),
    ApiKey.FETCH: (3, 19),
    ApiKey.METADATA: (14, -1),
    ApiKey.CREATE_TOPICS: (1, 8),
}


def request(name: str = "dialogue", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def ranges(answer: ApiVersionsResponse) -> object:
    """The version ranges of the APIs that Barnabas serves; the brokers differ in the others."""
    handlers.register_all()
    served = sorted(
        (a.api_key, a.min_version, a.max_version) for a in answer.api_keys if a.api_key in REGISTRY
    )
    return answer.error_code, answer.throttle_time_ms, served


@dialogue(ApiKey.API_VERSIONS, 0, 4)
def version_ranges(client: DialogueClient) -> None:
    client.request(request(), noting=ranges)


@dialogue(ApiKey.API_VERSIONS, 0, 4)
def features_of_the_cluster(client: DialogueClient) -> None:
    client.request(request(), noting=features)


def features(answer: ApiVersionsResponse) -> object:
    """Supported and finalized levels, sorted."""
    return (
        sorted((one.name, one.min_version, one.max_version) for one in answer.supported_features),
        sorted((one.name, one.min_version_level, one.max_version_level) for one in answer.finalized_features),
        answer.finalized_features_epoch > 0,
        answer.zk_migration_ready,
    )


@dialogue(ApiKey.API_VERSIONS, 0, 4)
def names_of_client_software(client: DialogueClient) -> None:
    for word in ("", "a", "a-b.c9", "-a", "a-", ".a", "a.", "a b", "ä", "a_b", "9", "--"):
        client.request(
            request(name=word), noting=lambda answer: (answer.error_code, len(answer.api_keys) > 0)
        )
        client.request(
            request(version=word), noting=lambda answer: (answer.error_code, len(answer.api_keys) > 0)
        )


@dialogue(ApiKey.API_VERSIONS, 0, 0)
def a_future_version(client: DialogueClient) -> None:
    """The response has version 0, and the connection stays usable."""
    for version in (5, 99, 32767):
        header = struct.pack(">hhih8s", ApiKey.API_VERSIONS, version, 77, 8, b"dialogue")
        client.connection.send_frame(header + b"\0\2a\2b\0")
        answer = client.connection.read_frame()
        correlation_id, body = int.from_bytes(answer[:4], "big"), answer[4:]
        client.note((correlation_id, decode(ApiVersionsResponse, 0, body)))
    client.request(request(), noting=lambda answer: answer.error_code)


@dialogue(ApiKey.API_VERSIONS, 0, 0)
def unsupported_requests_close_the_connection(client: DialogueClient) -> None:
    heads = [(key, version) for key, versions in NOT_SERVED_ALIKE.items() for version in versions]
    for key, version in [*heads, (93, 0), (999, 0), (-1, 0), (4, 0)]:
        try:
            client.connection.send_frame(struct.pack(">hhih", key, version, 1, -1) + bytes(40))
            client.note((int(key), version, len(client.connection.read_frame())))
        except ClosedError:
            client.note((int(key), version, "closed"))
