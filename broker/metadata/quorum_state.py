"""quorum-state: the election state of a member of the metadata quorum, beside its log.

Format: one line of JSON without an end of line, the fields in this order. Version 0 belongs to kraft.version 0,
where the configuration names the voters:

    {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}

Version 1 belongs to kraft.version 1, where the log names the voters; a vote names the voter's directory:

    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

There is no checksum. A file that cannot be parsed is ignored with a warning: the epoch is at least that of the last
batch in the log, and a single voter cannot vote twice.
Source: org.apache.kafka.raft.FileQuorumStateStore, QuorumStateData.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, NamedTuple

from barnabas.protocol.wire import ZERO_UUID, Uuid, uuid_from_string, uuid_to_string
from barnabas.storage.env import Env, write_atomically

FILE_NAME: Final = "quorum-state"
NO_NODE: Final = -1

logger = logging.getLogger("barnabas.metadata")


class QuorumState(NamedTuple):
    """The leader of an epoch (NO_NODE: not known), and the vote of this node in it (NO_NODE: none).

    `voters` are the ids of the voters that version 0 names; None in version 1.
    """

    leader_epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: Uuid = ZERO_UUID
    voters: tuple[int, ...] | None = None

    @property
    def version(self) -> int:
        """The version of the file that holds this."""
        return 1 if self.voters is None else 0

    def to_json(self) -> str:
        fields: dict[str, Any] = {} if self.version else {"clusterId": ""}
        fields |= {
            "leaderId": self.leader_id,
            "leaderEpoch": self.leader_epoch,
            "votedId": self.voted_id,
        }
        if self.voters is None:
            fields["votedDirectoryId"] = uuid_to_string(self.voted_directory_id)
        else:
            fields |= {"appliedOffset": 0, "currentVoters": [{"voterId": voter} for voter in self.voters]}
        fields["data_version"] = self.version
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> QuorumState:
        """Raises ValueError for invalid contents."""
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.get("data_version") not in (0, 1):
            raise ValueError("data_version is neither 0 nor 1")
        try:
            return cls._of(fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f"a field is missing or of another type: {error}") from error

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> QuorumState:
        state = cls(int(fields["leaderEpoch"]), int(fields["leaderId"]), int(fields["votedId"]))
        if fields["data_version"] == 0:
            voters = fields["currentVoters"] or ()
            return state._replace(voters=tuple(int(voter["voterId"]) for voter in voters))
        return state._replace(voted_directory_id=uuid_from_string(fields["votedDirectoryId"]))


class QuorumStateFile:
    """The file in a metadata log's directory."""

    def __init__(self, env: Env, directory: str) -> None:
        self._env = env
        self.path = f"{directory}/{FILE_NAME}"

    def read(self) -> QuorumState | None:
        """The state; None where the file is missing or invalid. Raises OSError."""
        try:
            return QuorumState.from_json(self._env.read_file(self.path).decode())
        except FileNotFoundError:
            return None
        except ValueError as error:
            logger.warning("%s is invalid and will be replaced: %s", self.path, error)
            return None

    def write(self, state: QuorumState) -> None:
        """Replaces the file; durable on return. Raises OSError."""
        write_atomically(self._env, self.path, state.to_json().encode())
