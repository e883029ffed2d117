"""MetadataQuorum: the quorum of the metadata log, which is this node alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from barnabas.broker.metadata.versions import FEATURES_BY_NAME, KRAFT_VERSION
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner
from barnabas.protocol.messages.control_records import VotersRecord
from barnabas.protocol.wire import Uuid

if TYPE_CHECKING:
    from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
    from barnabas.broker.metadata.raft_log import RaftLog
    from barnabas.config.listeners import Listener


R = TypeVar("R")


class KRaftLevel(Protocol):
    """What a broker knows of the quorum of its metadata, whoever the voters are."""

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""


class MetadataQuorum:
    """The quorum of the log that this node leads. `listeners` are those of the controller, which are not opened.

    `runner` runs blocking work: in place, until the server sets one that does not block the event loop.
    """

    def __init__(
        self, log: EmbeddedRaftLog, listeners: Sequence[Listener], now_ms: Callable[[], int]
    ) -> None:
        self.log = log
        self.now_ms = now_ms
        self.listeners = listeners
        self.runner: BlockingRunner = InlineRunner()

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""
        return self.log.raft.control.kraft_version

    @property
    def can_name_voters(self) -> bool:
        """Whether the configuration has a listener to name this voter by."""
        return bool(self.listeners)

    def upgrading(
        self,
        answer: Pending[R],
        kraft_version: int,
        is_due: Callable[[R], bool],
        failed: Callable[[BaseException], R],
    ) -> Pending[R]:
        """Delays the answer until kraft.version is raised, where `is_due(answer)`.

        `failed(error)` replaces it when that could not be recorded.
        """
        after: Pending[R] = Pending()

        def decided(response: R) -> None:
            if not is_due(response):
                after.complete(response)
                return
            self.runner.submit(
                lambda: self.upgrade(kraft_version),
                lambda error: after.complete(response if error is None else failed(error)),
            )

        answer.add_done_callback(decided)
        return after

    def upgrade(self, kraft_version: int) -> None:
        """Records the voters in the log. Blocks. Needs `can_name_voters`. Raises OSError."""
        at = self.listeners[0]
        voter = InitialVoter(self.log.node_id, self.log.directory_id, at.host or "localhost", at.port)
        self.log.change_quorum(kraft_version, voters_record([voter], at.name))


class ObservedQuorum:
    """The quorum whose log this node follows without a vote."""

    def __init__(self, raft: RaftLog) -> None:
        self._raft = raft

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version, as far as this node has read the log."""
        return self._raft.control.kraft_version


class InitialVoter(NamedTuple):
    """A voter of a quorum that is named in the log."""

    node_id: int
    directory_id: Uuid
    host: str
    port: int


def voters_record(voters: Iterable[InitialVoter], listener: str) -> VotersRecord:
    """The record that names the voters of a quorum, each with the listener of that name."""
    supported = VotersRecord.KRaftVersionFeature(
        min_supported_version=0, max_supported_version=FEATURES_BY_NAME[KRAFT_VERSION].latest
    )
    return VotersRecord(
        version=0,
        voters=[
            VotersRecord.Voter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[VotersRecord.Endpoint(name=listener, host=voter.host, port=voter.port)],
                kraft_version_feature=supported,
            )
            for voter in sorted(voters)
        ],
    )
