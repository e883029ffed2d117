"""Which records there are in the topics of the coordinators: the messages of their keys, each with that of its value.

Source: CoordinatorRecordType of the group coordinator and of the transaction coordinator.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from barnabas.protocol.messages import group_state, share_group_state, streams_group_state, transaction_state
from barnabas.protocol.schema import Message

RecordTypes = tuple[tuple[type[Message], type[Message]], ...]

_KEY: Final = "Key"


def _records_of(*modules: ModuleType) -> RecordTypes:
    """GroupMetadataKey belongs with GroupMetadataValue, and so on."""
    return tuple(
        (key, getattr(module, f"{name.removesuffix(_KEY)}Value"))
        for module in modules
        for name, key in vars(module).items()
        if name.endswith(_KEY)
    )


GROUP_RECORDS: Final = _records_of(group_state, share_group_state, streams_group_state)
OFFSET_KEY_TYPES: Final = frozenset(
    {group_state.LegacyOffsetCommitKey.api_key, group_state.OffsetCommitKey.api_key}
)
"""Key types of committed offsets; all others of __consumer_offsets are of groups."""

TRANSACTION_RECORDS: Final = _records_of(transaction_state)
