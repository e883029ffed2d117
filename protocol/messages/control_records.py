"""The keys and values inside control batches."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int16, int32, int64, string, struct, uint16, uuid
from barnabas.protocol.wire import Uuid


class ControlRecordTypeSchema(Message, versions="0", flexible="none"):
    """The key of every control record; which value follows depends on the type."""

    type: int = int16()


class EndTxnMarker(Message, versions="0", flexible="none"):
    """The value under COMMIT and ABORT."""

    coordinator_epoch: int = int32()


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The value under LEADER_CHANGE, the first record of a KRaft epoch."""

    class Voter(Struct):
        voter_id: int = int32()
        voter_directory_id: Uuid = uuid(versions="1+")

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessage.Voter] = array("Voter")
    granting_voters: list[LeaderChangeMessage.Voter] = array("Voter")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The value under SNAPSHOT_HEADER, the first record of a snapshot."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The value under SNAPSHOT_FOOTER, the last record of a snapshot."""

    version: int = int16()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The value under KRAFT_VERSION."""

    version: int = int16()
    kraft_version: int = int16()


class VotersRecord(Message, versions="0", flexible="0+"):
    """The value under KRAFT_VOTERS: the whole set of voters."""

    class Endpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    class KRaftVersionFeature(Struct):
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    class Voter(Struct):
        voter_id: int = int32()
        voter_directory_id: Uuid = uuid()
        endpoints: list[VotersRecord.Endpoint] = array("Endpoint")
        kraft_version_feature: VotersRecord.KRaftVersionFeature = struct("KRaftVersionFeature")

    version: int = int16()
    voters: list[VotersRecord.Voter] = array("Voter")
