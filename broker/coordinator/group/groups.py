"""Groups: the registry of one shard, whatever kind they are of.

Replay fills it. Who looks a group up says what it has to be; a group of another kind is an error that Kafka has a code
for. Source: GroupMetadataManager (group, maybeDeleteGroup, getOrMaybeCreate...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.coordinator.group.group import Group
from barnabas.protocol.errors import ApiError, ErrorCode


class Groups:
    """The groups of one partition of __consumer_offsets, by id.

    `make_classic` makes a classic group of an id, without members; ClassicGroups brings it.
    """

    __slots__ = ("_groups", "make_classic")

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.make_classic: Callable[[str], Group]

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def get(self, group_id: str) -> Group:
        """Raises ApiError(GROUP_ID_NOT_FOUND)."""
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def get_or_make(self, group_id: str) -> Group:
        """The group; where there is none, a classic one that is there from now on: somebody keeps offsets in it."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = self.make_classic(group_id)
        return group

    def put(self, group: Group) -> None:
        """Takes in a group, in place of one with the same id (of another kind, where it has migrated)."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._groups.pop(group_id, None)
