"""The oracle of existence: a client without rights gets the same answers whether or not there is what it asks for.

Each request of each API in each version, as the matrix of conformance has them, to a broker where all that it names
exists, and to one that has other topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from barnabas.broker.kafka_apis.api_checks import API_CHECKS
from barnabas.broker.request import KafkaPrincipal
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import AclResourceType
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.wire import Uuid
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.conformance.authorization.requests import (
    GROUP,
    HIDDEN,
    OTHER_GROUP,
    OTHER_TXN,
    REQUESTS,
    SEEN,
    TXN,
    Make,
    World,
    cases,
)
from tests.support.difference import Like

DOOMED = ("del-1", "del-2")
TOPICS = (SEEN, HIDDEN, *DOOMED)
OTHERS = ("other-1", "other-2", "other-3", "other-4")
"""Topics of the other broker."""
BY_ID = {
    (ApiKey.PRODUCE, 13),
    (ApiKey.OFFSET_COMMIT, 10),
    (ApiKey.OFFSET_FETCH, 10),
    *((ApiKey.FETCH, version) for version in range(13, 19)),
}
"""Requests that name topics by their ids, which nobody can guess: as in Kafka an unknown id is said to be unknown.

So do those whose function is named so.
"""

CLUSTER_GRANTS_TOPICS = {
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
}
"""A right on the cluster is one on all topics."""
CLUSTER_ALONE = {
    key
    for key, row in API_CHECKS.items()
    if not any(check.resource_type is AclResourceType.TOPIC for check in row.checks)
}
"""Who may use them sees topics."""


class Side(NamedTuple):
    """A broker, and its client without rights on topics."""

    broker: GuardedBroker
    ids: dict[str, Uuid]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    full, empty = (GuardedBroker(tmp_path_factory.mktemp("side")) for _ in range(2))
    ids = {name: full.create_topic(name) for name in TOPICS}
    ids["t-absent"] = b"absent".rjust(16, b"\1")
    for name in OTHERS:
        empty.create_topic(name)
    for broker, topics in ((full, TOPICS), (empty, OTHERS)):
        begin_groups_and_transactions(broker, topics)
    for side in (full, empty):
        for key in API_CHECKS:
            grant_all_but_topics(side, key)
    yield Side(full, ids), Side(empty, ids)
    full.kill()
    empty.kill()


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory, sides: tuple[Side, Side]) -> Iterator[Side]:
    empty = GuardedBroker(tmp_path_factory.mktemp("nothing"))
    yield Side(empty, sides[0].ids)
    empty.kill()


def begin_groups_and_transactions(broker: GuardedBroker, topics: Sequence[str]) -> None:
    for key_type, keys in ((0, (GROUP, OTHER_GROUP)), (1, (TXN, OTHER_TXN))):
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        assert broker.admin(version=6) >> find << Like()
    for transactional_id in (TXN, OTHER_TXN):
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)
        assert broker.admin(version=5) >> init << Like(error_code=0)
    kind = OffsetCommitRequest
    for group in (GROUP, OTHER_GROUP):
        part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        named = [kind.OffsetCommitRequestTopic(name=name, partitions=[part]) for name in topics]
        committed = Like(topics=[Like(partitions=[Like(error_code=0)])] * len(topics))
        assert broker.admin(version=8) >> kind(group_id=group, topics=named) << committed


def beside_topics(key: ApiKey) -> str:
    """The user that may do all that an API asks for, but nothing with topics."""
    return f"beside-{key.name.lower()}"


def grant_all_but_topics(broker: GuardedBroker, key: ApiKey) -> None:
    row = API_CHECKS[key]
    checks = [gate.check for gate in row.gates] + list(row.checks)
    names: dict[AclResourceType, tuple[str, ...]] = {
        AclResourceType.GROUP: (GROUP,),
        AclResourceType.TRANSACTIONAL_ID: (TXN,),
    }
    if key not in CLUSTER_GRANTS_TOPICS:
        names[AclResourceType.CLUSTER] = ()
    for operation, kind in {(check.operation, check.resource_type) for check in checks}:
        if kind in names:
            principal = f"User:{beside_topics(key)}"
            broker.allow(operation, kind, *names[kind], principal=principal)


def is_by_id(key: ApiKey, make: Make, version: int) -> bool:
    return (key, version) in BY_ID or make.__name__.endswith("_by_id")


def asked(side: Side, make: Make, version: int, user: str) -> str:
    """What the user is told; nothing where it has to wait."""
    client = side.broker.client(version=version, principal=KafkaPrincipal(user))
    client >> make(World(side.ids, DOOMED), version)
    answers, client._answers = client._answers, []
    return re.sub("0x[0-9a-f]+", "", repr(answers))


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.title)
def test_who_may_do_nothing_learns_nothing(sides: tuple[Side, Side], nothing: Side, key: ApiKey) -> None:
    """Not even of groups and transactional ids."""
    full, empty = sides[0], nothing
    for number, make, version in cases(key, every_version=True):
        if not is_by_id(key, make, version):
            told, untold = (asked(side, make, version, "nobody") for side in (full, empty))
            assert told == untold, (number, version)


@pytest.mark.parametrize(
    "key", [key for key in REQUESTS if key not in CLUSTER_ALONE], ids=lambda key: key.title
)
def test_who_may_do_nothing_with_topics_learns_nothing_of_them(sides: tuple[Side, Side], key: ApiKey) -> None:
    full, empty = sides
    for number, make, version in cases(key, every_version=True):
        if not is_by_id(key, make, version):
            told, untold = (asked(side, make, version, beside_topics(key)) for side in (full, empty))
            assert told == untold, (number, version)


def test_the_broker_that_is_asked_has_what_the_other_has_not(sides: tuple[Side, Side]) -> None:
    full, empty = sides
    assert isinstance(full.broker, InProcessBroker)
    assert {SEEN, HIDDEN, *DOOMED} <= full.broker.broker.image.topics.keys()
    assert SEEN not in empty.broker.broker.image.topics
