"""MetadataQuorum: what the metadata log's quorum is, for those who ask: this node, alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.metadata.versions import FEATURES_BY_NAME, KRAFT_VERSION
from protocol.messages.control_records import VotersRecord
from protocol.wire import Uuid

if TYPE_CHECKING:
    from broker.metadata.raft_log import EmbeddedRaftLog
    from config.listeners import Listener


class MetadataQuorum:
    """The quorum of the log that this node leads. `listeners` are those of the controller, which are not open."""

    __slots__ = ("_log", "_now_ms", "listeners")

    def __init__(
        self, log: EmbeddedRaftLog, listeners: Sequence[Listener], now_ms: Callable[[], int]
    ) -> None:
        self._log = log
        self._now_ms = now_ms
        self.listeners = listeners

    @property
    def node_id(self) -> int:
        """The leader, and the only voter."""
        return self._log.node_id

    @property
    def directory_id(self) -> Uuid:
        """Of the voter's directory."""
        return self._log.directory_id

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""
        return self._log.control.kraft_version

    @property
    def leader_epoch(self) -> int:
        return self._log.leader_epoch

    @property
    def high_watermark(self) -> int:
        """Everything that is in the log is committed."""
        return self._log.end_offset

    def now_ms(self) -> int:
        """When the leader last heard of itself."""
        return self._now_ms()

    def upgrade(self, kraft_version: int) -> None:
        """Has the log name its voters from now on. Blocks. Raises StorageError, OSError."""
        self._log.change_quorum(kraft_version, voters_record(self.node_id, self.directory_id, self.listeners))


def voters_record(node_id: int, directory_id: Uuid, listeners: Sequence[Listener]) -> VotersRecord:
    """The set of voters that has this node alone in it."""
    supported = VotersRecord.KRaftVersionFeature(
        min_supported_version=0, max_supported_version=FEATURES_BY_NAME[KRAFT_VERSION].latest
    )
    voter = VotersRecord.Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=[
            VotersRecord.Endpoint(name=at.name, host=at.host or "localhost", port=at.port) for at in listeners
        ],
        kraft_version_feature=supported,
    )
    return VotersRecord(version=0, voters=[voter])
