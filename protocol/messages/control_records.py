"""The keys and values inside control batches."""

from __future__ import annotations

from protocol.schema import Message, Struct, array, int16, int32, int64, string, struct, uint16, uuid
from protocol.wire import Uuid


class ControlRecordTypeSchema(Message, versions="0", flexible="none"):
    type: int = int16()


class EndTxnMarker(Message, versions="0", flexible="none"):
    coordinator_epoch: int = int32()


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    class Voter(Struct):
        voter_id: int = int32()
        voter_directory_id: Uuid = uuid(versions="1+")

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessage.Voter] = array("Voter")
    granting_voters: list[LeaderChangeMessage.Voter] = array("Voter")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    kraft_version: int = int16()


class VotersRecord(Message, versions="0", flexible="0+"):
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
