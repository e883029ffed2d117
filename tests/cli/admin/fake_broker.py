"""A fake broker with the responses that a test sets, on real sockets, by the project's own protocol package.

    with FakeCluster() as cluster:
        cluster.topics["t"] = 3
        cluster.on(ApiKey.CREATE_TOPICS, lambda request, version: CreateTopicsResponse(...))
        ... cluster.bootstrap ...
        assert cluster.asked(ApiKey.CREATE_TOPICS)[0].topics[0].name == "t"

An answer may be a message, bytes to be sent as they are, CLOSE (the connection is closed), or a function of request and
version that makes one; several are given in turn, and the last one stays.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from barnabas.protocol.api_keys import ApiKey, request_header_version, request_type, response_header_version
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.groups import FindCoordinatorResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.metadata import (
    DescribeClusterResponse,
    DescribeTopicPartitionsResponse,
    MetadataResponse,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

LOCALHOST: Final = "127.0.0.1"
CLUSTER_ID: Final = "fake"
CLOSE: Final = ConnectionResetError
"""As an answer: close the connection without a response."""

Answer = Any
Handler = Callable[[Any, int], Answer]


def id_of(topic: str) -> Uuid:
    """The id of a topic in the fake cluster."""
    return topic.encode().ljust(16, b"\x01")[:16]


class FakeBroker:
    """One listening socket, and a thread for each connection."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self.node_id = node_id
        self._cluster = cluster
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stop(self) -> None:
        """Closes the socket and its connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, accepted: socket.socket) -> None:
        tls = self._cluster.tls
        with accepted, suppress(OSError, EOFError):
            connection = accepted if tls is None else _secured(accepted, tls)
            self._open.append(connection)  # TLS is given the descriptor of the socket
            with connection:
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        while True:
            (size,) = struct.unpack(">i", _read(connection, 4))
            answer = self._answer(_read(connection, size))
            if answer is None:
                return
            connection.sendall(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        key, version = struct.unpack_from(">hh", frame)
        header, position = decoder(RequestHeader, request_header_version(key, version))(frame, 0, len(frame))
        request = None
        if request_type(key).versions.has(version):
            request = decode(request_type(key), version, frame[position:])
        answer = self._cluster.answer(self, ApiKey(key), request, version)
        if isinstance(answer, type):
            return None
        if isinstance(answer, bytes):
            return answer
        said, answered_version = answer if isinstance(answer, tuple) else (answer, version)
        head = ResponseHeader(correlation_id=header.correlation_id)
        body = encode(head, response_header_version(key, version)) + encode(said, answered_version)
        return struct.pack(">i", len(body)) + body


def _secured(accepted: socket.socket, tls: ssl.SSLContext) -> socket.socket:
    connection = tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    try:
        connection.do_handshake()
    except OSError:
        with (
            connection,
            suppress(OSError),
        ):  # bytes that are left unread would reset it before the alert is read
            while socket.socket.recv(connection, 1 << 16):
                pass
        raise
    return connection


class FakeCluster:
    """Some brokers in one cluster, and their responses.

    `topics` has the number of partitions of each topic, led by the brokers in turn. `served` can be narrowed.
    """

    def __init__(self, brokers: int = 1) -> None:
        self.topics: dict[str, int] = {}
        self.tls: ssl.SSLContext | None = None
        """Of connections that are accepted from now on."""
        self.coordinator = 1
        self.served = {key: request_type(key).versions for key in ApiKey}
        self.requests: list[tuple[int, ApiKey, Any, int]] = []
        self._handlers: dict[ApiKey, Handler] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self._describe_partitions,
        }
        self._lock = threading.Lock()
        self.brokers = {number: FakeBroker(self, number) for number in range(1, brokers + 1)}

    @property
    def bootstrap(self) -> str:
        """The first broker."""
        return f"{LOCALHOST}:{self.brokers[1].port}"

    def on(self, key: ApiKey, *answers: Answer) -> None:
        """Sets the responses to an API: one after the other, or by a function of request and version."""
        left = list(answers)

        def next_answer(request: Any, version: int) -> Answer:
            answer = left.pop(0) if len(left) > 1 else left[0]
            return answer(request, version) if callable(answer) and not isinstance(answer, type) else answer

        self._handlers[key] = next_answer

    def without(self, *keys: ApiKey) -> None:
        """Removes APIs from the served ones."""
        for key in keys:
            del self.served[key]

    def asked(self, key: ApiKey) -> list[Any]:
        """The requests of an API that were received, in order."""
        return [request for _, asked, request, _ in self.requests if asked == key]

    def who(self, key: ApiKey) -> list[int]:
        """The brokers that received them."""
        return [node_id for node_id, asked, _, _ in self.requests if asked == key]

    def versions(self, key: ApiKey) -> list[int]:
        """Their versions."""
        return [version for _, asked, _, version in self.requests if asked == key]

    def answer(self, broker: FakeBroker, key: ApiKey, request: Any, version: int) -> Answer:
        with self._lock:
            self.requests.append((broker.node_id, key, request, version))
            assert key in self._handlers, f"no response is set for {key.name}"
            return self._handlers[key](request, version)

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            broker.stop()

    # ---- default responses

    def _api_versions(self, request: Any, version: int) -> Answer:
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=served.low, max_version=served.high)
            for key, served in self.served.items()
        ]
        if request is None or not self.served[ApiKey.API_VERSIONS].has(version):
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), 0
        features = [ApiVersionsResponse.SupportedFeatureKey(name="group.version", max_version=1)]
        features.append(
            ApiVersionsResponse.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)
        )
        finalized = [ApiVersionsResponse.FinalizedFeatureKey(name="metadata.version", max_version_level=30)]
        return ApiVersionsResponse(
            api_keys=keys,
            supported_features=features,
            finalized_features=finalized,
            finalized_features_epoch=5,
        )

    def _metadata(self, request: Any, version: int) -> Message:
        names = self._wanted(request)
        return MetadataResponse(
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=number, host=LOCALHOST, port=broker.port)
                for number, broker in self.brokers.items()
            ],
            cluster_id=CLUSTER_ID,
            controller_id=max(self.brokers),
            topics=[self._topic(name) for name in names],
        )

    def _wanted(self, request: Any) -> list[Any]:
        if request.topics is None:
            return list(self.topics)
        by_id = {id_of(name): name for name in self.topics}
        return [topic.name or by_id.get(topic.topic_id, topic.topic_id) for topic in request.topics]

    def _topic(self, name: Any) -> Any:
        if name not in self.topics:
            is_name = isinstance(name, str)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponse.MetadataResponseTopic(name=name if is_name else None, error_code=code)
        return MetadataResponse.MetadataResponseTopic(
            name=name,
            topic_id=id_of(name),
            is_internal=name.startswith("__"),
            partitions=[
                MetadataResponse.MetadataResponsePartition(
                    partition_index=index, leader_id=self._leader(index), replica_nodes=[1], isr_nodes=[1]
                )
                for index in range(self.topics[name])
            ],
        )

    def _leader(self, partition: int) -> int:
        return partition % len(self.brokers) + 1

    def _describe_partitions(self, request: Any, version: int) -> Message:
        """In pages of as many partitions as the request allows."""
        start = (request.cursor.topic_name, request.cursor.partition_index) if request.cursor else ("", 0)
        wanted = [
            (topic.name, index)
            for topic in request.topics
            for index in range(self.topics.get(topic.name, 0))
            if (topic.name, index) >= start
        ]
        page = wanted[: request.response_partition_limit]
        following = wanted[len(page) :]
        response = DescribeTopicPartitionsResponse
        topics = [
            response.DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=id_of(name),
                partitions=[
                    response.DescribeTopicPartitionsResponsePartition(
                        partition_index=index,
                        leader_id=self._leader(index),
                        replica_nodes=[1],
                        isr_nodes=[1],
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                    )
                    for topic, index in page
                    if topic == name
                ],
            )
            for name in dict.fromkeys(topic for topic, _ in page)
        ]
        topics += [
            response.DescribeTopicPartitionsResponseTopic(
                name=topic.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for topic in request.topics
            if topic.name not in self.topics
        ]
        cursor = (
            response.Cursor(topic_name=following[0][0], partition_index=following[0][1])
            if following
            else None
        )
        return response(topics=topics, next_cursor=cursor)

    def _describe_cluster(self, request: Any, version: int) -> Message:
        return DescribeClusterResponse(
            cluster_id=CLUSTER_ID,
            controller_id=max(self.brokers),
            brokers=[
                DescribeClusterResponse.DescribeClusterBroker(
                    broker_id=number, host=LOCALHOST, port=broker.port
                )
                for number, broker in self.brokers.items()
            ],
        )

    def _find_coordinator(self, request: Any, version: int) -> Message:
        found = [
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=self.coordinator, host=LOCALHOST, port=self.brokers[self.coordinator].port
            )
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
