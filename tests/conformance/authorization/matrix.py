"""Both brokers of the matrix with all its ACLs, and the responses to a request from a client with some of them."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import CLUSTER_NAME, AclResourceType
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.conformance.authorization.grants import ANONYMOUS, SUPER_USER, USER, Grant
from tests.conformance.authorization.requests import (
    DOOMED,
    GROUP,
    HIDDEN,
    MEMBERS,
    OTHER_GROUP,
    SEEN,
    TXN,
    Make,
    World,
)
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import words
from tests.conformance.dialogues.acls import ALL, ALLOW, LITERAL, Entry, create, describe
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports
from tests.support.sasl import listener_settings, plain_entry, plain_token

ADMIN, BROKER = "127.0.0.2", "127.0.0.1"
"""The addresses of the administrator, and from which Kafka's broker reaches its controller."""
SETTINGS: Final = {
    "node.id": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Everyone may do everything until there are ACLs for all kinds of resources."""
LOGINS: Final = {
    "super.users": f"User:{SUPER_USER}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    **listener_settings("SASL", {"PLAIN": plain_entry(**dict.fromkeys((USER, SUPER_USER), "pencil"))}),
}
_WITH_NAMES: Final = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)
CHUNK: Final = 2000
"""ACLs in one request."""


def addresses() -> Iterable[str]:
    """127.1.0.1, 127.1.0.2 and so on."""
    return (f"127.1.{n // 250}.{1 + n % 250}" for n in count())


def first_acls() -> list[Entry]:
    """The rights of the administrator, and of Kafka's broker."""
    kinds: dict[AclResourceType, str] = dict.fromkeys(_WITH_NAMES, "*")
    kinds[AclResourceType.CLUSTER] = CLUSTER_NAME
    return [
        (kind, name, LITERAL, ANONYMOUS, host, ALL, ALLOW)
        for kind, name in kinds.items()
        for host in (ADMIN, BROKER)
    ]


class LoginConnection(BrokerConnection):
    """Logs in by PLAIN whenever it connects."""

    user = ""

    def _connected(self) -> socket.socket:
        is_new = self._socket is None
        connected = super()._connected()
        if is_new:
            self._succeed(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            self._succeed(SaslAuthenticateRequest(auth_bytes=plain_token(self.user, "pencil")), 2)
        return connected

    def _succeed(self, message: Message, version: int) -> None:
        answer: Any = self.request(message, version)
        assert answer.error_code == 0, answer


class Side:
    """One of the brokers. `sasl_port` is that of its listener with logins, where it has one."""

    def __init__(self, bootstrap: str, sasl_port: int = 0) -> None:
        self._host, _, port = bootstrap.rpartition(":")
        self._port, self._sasl_port = int(port), sasl_port
        self.admin = DialogueClient(self.connection(ADMIN), 0, "matrix")
        self._clients: dict[tuple[str, str | None], DialogueClient] = {}
        self.ids: dict[str, Uuid] = {}

    def connection(self, source: str, user: str | None = None) -> BrokerConnection:
        """Of a client at an address, which logs in where it has a name."""
        if user is None:
            connection = BrokerConnection(self._host, self._port)
        else:
            connection = LoginConnection(self._host, self._sasl_port)
            connection.user = user
        connection.source = source
        return connection

    def prepare(self, entries: list[Entry] | None) -> None:
        """Gives the administrator its rights, creates what there is to be, and then the ACLs of the clients.

        None: there are no ACLs at all.
        """
        first = [] if entries is None else first_acls()
        if first:
            self._create_acls(first)
        for name in (SEEN, HIDDEN):
            self._create_topic(name)
        for key_type, key in ((0, GROUP), (1, TXN)):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            self.admin.request_until(find, lambda answer: answer.coordinators[0].error_code == 0, 6)
        init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=10_000)
        self.admin.request_until(init, lambda answer: answer.error_code == 0, 5)
        for group in (GROUP, OTHER_GROUP):
            self._commit(group)
        known: Any = self.admin.connection.request(MetadataRequest(topics=None), 13)
        self.ids |= {topic.name: topic.topic_id for topic in known.topics}
        if entries is None:
            return
        for at in range(0, len(entries), CHUNK):
            self._create_acls(entries[at : at + CHUNK])
        everything = describe(1, None, 1, None, None, 1, 1)
        wanted = len(entries) + len(first)
        self.admin.request_until(
            everything, lambda answer: sum(len(one.acls) for one in answer.resources) == wanted, 3
        )

    def _create_acls(self, entries: list[Entry]) -> None:
        answer: Any = self.admin.connection.request(create(*entries), 3)
        assert all(result.error_code == 0 for result in answer.results), answer

    def _create_topic(self, name: str) -> None:
        from barnabas.protocol.messages.topics import CreateTopicsRequest

        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        answer: Any = self.admin.connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert answer.topics[0].error_code == 0, answer
        self.ids[name] = answer.topics[0].topic_id
        self.admin.request_until(
            words.list_offsets(name, 0), lambda a: a.topics[0].partitions[0].error_code == 0, 7
        )

    def _commit(self, group: str) -> None:
        kind = OffsetCommitRequest
        commit = kind(
            group_id=group,
            topics=[
                kind.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
                for name in (SEEN, HIDDEN)
            ],
        )
        self.admin.request_until(commit, lambda a: a.topics[0].partitions[0].error_code == 0, 8)

    def answer(self, key: ApiKey, make: Make, version: int, address: str, user: str | None) -> object:
        """The response to a request from an address, without what differs between any two brokers."""
        client = self._clients.get((address, user))
        if client is None:
            client = DialogueClient(self.connection(address, user), 0, "matrix")
            self._clients[address, user] = client
        doomed = f"{DOOMED}{address}-{make.__name__}-{version}", f"hid-{address}-{make.__name__}-{version}"
        if key is ApiKey.DELETE_TOPICS:
            for name in doomed:
                self._create_topic(name)
        if key is ApiKey.CONSUMER_GROUP_DESCRIBE:
            for group, topic in MEMBERS.items():
                self._join(group, topic)
        request = make(World(self.ids, doomed), version)
        del client.transcript[:]
        for name, topic_id in self.ids.items():
            client._ids[topic_id] = f"id of {name}"
        client.request(request, version, noting=_comparable)
        client.connection.close()
        if key is ApiKey.DELETE_TOPICS:
            for name in doomed:
                self._remove(name)
        return _sorted(client.transcript)

    def _join(self, group: str, topic: str) -> None:
        """A member of a consumer group begins, or begins again, with all partitions of a topic."""
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        self.admin.request_until(heartbeat, lambda answer: answer.error_code == 0 and answer.assignment, 1)

    def _remove(self, doomed: str) -> None:
        from barnabas.protocol.messages.topics import DeleteTopicsRequest

        self.admin.connection.request(DeleteTopicsRequest(topic_names=[doomed], timeout_ms=30_000), 5)
        del self.ids[doomed]


def _comparable(answer: Any) -> Any:
    """What is compared of a response: of some only whether they were allowed."""
    kind = type(answer).__name__
    if kind == "DescribeLogDirsResponse":
        return answer.error_code, bool(answer.results)
    if kind in {"DescribeQuorumResponse", "ListConfigResourcesResponse"}:
        return answer.error_code
    if kind == "ConsumerGroupDescribeResponse":
        return [
            (group.group_id, group.error_code, group.authorized_operations, len(group.members))
            for group in answer.groups
        ]
    if kind == "CreateTopicsResponse":
        for topic in answer.topics:
            topic.configs = ["some"] if topic.configs else []
    return answer


def _sorted(value: Any) -> Any:
    """The value with all lists sorted: their order is that of hash tables."""
    if isinstance(value, dict):
        return {
            key: _sorted(item)
            for key, item in value.items()
            if key not in ("error_message", "throttle_time_ms")
        }
    if isinstance(value, list | tuple):
        return sorted((_sorted(item) for item in value), key=repr)
    return value


class Matrix:
    """Both brokers. `clients` has the client's address and user for each API and set of ACLs."""

    def __init__(self, directory: Path, sets: Iterable[tuple[ApiKey, Grant]] | None) -> None:
        """Without sets there are no ACLs, and everyone may do everything."""
        at = iter(addresses())
        self.clients: dict[tuple[ApiKey, str], tuple[str, str | None]] = {}
        self.sides: dict[str, Side] = {}
        entries: list[Entry] = []
        for key, grant in sets or ():
            address = next(at)
            self.clients[key, grant.name] = address, grant.user
            entries += [(*entry[:4], entry[4] or address, *entry[5:]) for entry in grant.entries]
        entries = list(dict.fromkeys(entries))
        kafka_dir, our_dir = directory / "kafka", directory / "barnabas"
        kafka_dir.mkdir(parents=True)
        our_dir.mkdir()
        self._kafka = ApacheKafka(kafka_dir, require_classpath(), SETTINGS, QUICK_JVM)
        self._barnabas = BrokerProcess(our_dir, {**SETTINGS, "barnabas.profile": "kafka"})
        try:
            for name, broker in (("kafka", self._kafka), ("barnabas", self._barnabas)):
                self.sides[name] = Side(broker.bootstrap, add_listener(broker))
                broker.start()
            for side in self.sides.values():
                side.prepare(None if sets is None else entries)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Ends both, and the connections to them."""
        for side in self.sides:
            self.sides[side].admin.connection.close()
        self._kafka.kill()
        self._barnabas.kill()

    def compare(self, key: ApiKey, grant: str, make: Make, version: int) -> list[object]:
        """The responses of Kafka and of Barnabas."""
        address, user = self.clients.get((key, grant), (ADMIN, None))
        return [side.answer(key, make, version, address, user) for side in self.sides.values()]


def add_listener(broker: ApacheKafka | BrokerProcess) -> int:
    """Gives a broker a listener with logins beside the usual one; returns its port."""
    (port,) = held_ports(1)
    listeners = f"PLAINTEXT://{broker.bootstrap},SASL://127.0.0.1:{port}"
    controller = ""
    if isinstance(broker, ApacheKafka):
        broker.overrides["advertised.listeners"] = listeners
        controller = f",CONTROLLER://127.0.0.1:{broker.controller_port}"
    broker.overrides |= {**LOGINS, "listeners": listeners + controller}
    return port
