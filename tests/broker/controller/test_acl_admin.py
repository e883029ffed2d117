"""The rules of ACLs: valid entries, and the matches of filters, compared with a model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.controller.acl_admin import (
    Acl,
    AclFilter,
    by_resource,
    create,
    delete,
    matching,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType, PatternType, PermissionType
from barnabas.protocol.wire import Uuid

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
EVERYTHING = AclFilter(
    AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY
)


def acl(  # noqa: PLR0917 (in the order of the fields)
    resource_type: int = TOPIC,
    name: str = "t",
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> Acl:
    return Acl(resource_type, name, pattern, principal, host, operation, permission)


class World:
    """ACLs that are created and deleted as in the metadata."""

    def __init__(self) -> None:
        self.image = MetadataImage.empty()
        self._ids: Iterator[int] = count(1)

    def new_id(self) -> Uuid:
        return next(self._ids).to_bytes(16, "big")

    def create(self, *wanted: Acl) -> list[ErrorCode]:
        records, outcomes = create(self.image.acls, wanted, self.new_id)
        self.image, _ = replayed(self.image, records)
        return [ErrorCode.NONE if error is None else error.code for error in outcomes]

    def delete(self, *filters: AclFilter) -> list[list[Acl] | ErrorCode]:
        records, outcomes = delete(self.image.acls, filters)
        self.image, _ = replayed(self.image, records)
        return [found.code if isinstance(found, ApiError) else found for found in outcomes]

    def found(self, wanted: AclFilter = EVERYTHING) -> list[Acl]:
        return [found for _, found in matching(self.image.acls, wanted)]


names = st.sampled_from(["*", "a", "ab", "abc", "b"])
acls = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    names,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:*"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([READ, AclOperation.ALL]),
    st.sampled_from([ALLOW, DENY]),
)
filters = st.builds(
    AclFilter,
    st.sampled_from([AclResourceType.ANY, TOPIC, GROUP, CLUSTER, 99]),
    st.one_of(st.none(), names, st.just("")),
    st.sampled_from([1, 2, 3, 4, 5]),
    st.sampled_from([None, "User:alice", "User:*", "alice"]),
    st.sampled_from([None, "*", "10.0.0.1"]),
    st.sampled_from([AclOperation.ANY, READ, AclOperation.ALL]),
    st.sampled_from([PermissionType.ANY, ALLOW, DENY]),
)


def fits(wanted: AclFilter, entry: Acl) -> bool:
    """The rules, one at a time, as documented for Kafka's ResourcePatternFilter and AccessControlEntryFilter."""
    plain = [
        wanted.resource_type in (1, entry.resource_type),
        wanted.principal is None or wanted.principal == entry.principal,
        wanted.host is None or wanted.host == entry.host,
        wanted.operation in (1, entry.operation),
        wanted.permission in (1, entry.permission),
    ]
    names_for_it = {
        1: {entry.resource_name},
        3: {entry.resource_name} if entry.pattern_type == 3 else set(),
        4: {entry.resource_name} if entry.pattern_type == 4 else set(),
    }
    if wanted.pattern_type == 2:
        if entry.pattern_type == 3:
            named = entry.resource_name in {"*", wanted.resource_name}
        else:
            named = wanted.resource_name is not None and wanted.resource_name.startswith(entry.resource_name)
        return all(plain) and (wanted.resource_name is None or named)
    if wanted.resource_name is None:
        return all(plain) and wanted.pattern_type in (1, entry.pattern_type)
    return all(plain) and wanted.resource_name in names_for_it.get(wanted.pattern_type, set())


@settings(deadline=None)
@given(st.lists(acls, unique=True, max_size=12), filters)
def test_a_filter_finds_what_the_model_finds(entries: list[Acl], wanted: AclFilter) -> None:
    world = World()
    world.create(*entries)
    assert world.found(wanted) == [entry for entry in entries if fits(wanted, entry)]


@settings(deadline=None)
@given(st.lists(acls, max_size=12), st.lists(filters, max_size=3))
def test_deletion_removes_the_matches_of_its_filters(entries: list[Acl], wanted: list[AclFilter]) -> None:
    world = World()
    world.create(*entries)
    there = list(dict.fromkeys(entries))
    known = [one for one in wanted if not one.is_unknown]
    outcomes = world.delete(*wanted)
    assert outcomes == [
        ErrorCode.INVALID_REQUEST if one.is_unknown else [entry for entry in there if fits(one, entry)]
        for one in wanted
    ]
    assert world.found() == [entry for entry in there if not any(fits(one, entry) for one in known)]


def test_existing_acls_are_not_stored_again() -> None:
    world = World()
    assert world.create(acl(), acl(), acl(operation=WRITE)) == [ErrorCode.NONE] * 3
    assert world.create(acl(), acl(host="h")) == [ErrorCode.NONE] * 2
    assert world.found() == [acl(), acl(operation=WRITE), acl(host="h")]
    assert len(world.image.acls) == 3


def test_an_id_in_use_is_not_assigned_again() -> None:
    world = World()
    world.create(acl())
    world._ids = count(1)
    world.create(acl(operation=WRITE))
    assert len(world.image.acls) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        acl(resource_type=8),
        acl(resource_type=-1),
        acl(name=""),
        acl(resource_type=CLUSTER, name="t"),
        acl(pattern=5),
        acl(operation=16),
        acl(permission=4),
        acl(principal="alice"),
        acl(principal=""),
    ],
)
def test_invalid_entries_do_not_fail_the_others(wrong: Acl) -> None:
    world = World()
    assert world.create(wrong, acl()) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert world.found() == [acl()]


@pytest.mark.parametrize(
    "filter_like",
    [
        acl(resource_type=AclResourceType.ANY),
        acl(pattern=PatternType.ANY),
        acl(pattern=PatternType.MATCH),
        acl(operation=AclOperation.ANY),
        acl(permission=PermissionType.ANY),
    ],
)
def test_an_entry_like_a_filter_fails_the_whole_request(filter_like: Acl) -> None:
    world = World()
    with pytest.raises(ApiError) as caught:
        world.create(acl(), filter_like)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.found() == []


def test_the_cluster_resource_has_one_name() -> None:
    assert World().create(acl(resource_type=CLUSTER, name="kafka-cluster")) == [ErrorCode.NONE]


def test_one_request_is_one_batch_of_bounded_length() -> None:
    world = World()
    many = [acl(name=str(number)) for number in range(MAX_RECORDS_PER_USER_OP + 1)]
    with pytest.raises(ApiError) as caught:
        world.create(*many)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    world.create(*many[1:])
    world.create(many[0])
    with pytest.raises(ApiError) as caught:
        world.delete(EVERYTHING)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_filters_that_name_a_zero_are_recognized() -> None:
    assert not EVERYTHING.names_zero
    for with_zero in (
        EVERYTHING._replace(resource_type=0),
        EVERYTHING._replace(pattern_type=0),
        EVERYTHING._replace(operation=0),
        EVERYTHING._replace(permission=0),
    ):
        assert with_zero.names_zero


def test_entries_by_resource() -> None:
    groups = by_resource([acl(), acl(name="u"), acl(operation=WRITE), acl(pattern=PREFIXED)])
    assert groups == {
        (TOPIC, "t", LITERAL): [acl(), acl(operation=WRITE)],
        (TOPIC, "u", LITERAL): [acl(name="u")],
        (TOPIC, "t", PREFIXED): [acl(pattern=PREFIXED)],
    }
