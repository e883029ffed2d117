"""Files that Kafka keeps beside its logs in message format."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int16, int32, int64, string, uint32, uuid
from barnabas.protocol.wire import Uuid


class ProducerSnapshot(Message, versions="1", flexible="none"):
    """A *.snapshot file beside a log: the producers and their last batches."""

    class ProducerEntry(Struct):
        producer_id: int = int64(versions="1")
        epoch: int = int16(versions="1")
        last_sequence: int = int32(versions="1")
        last_offset: int = int64(versions="1")
        offset_delta: int = int32(versions="1")
        timestamp: int = int64(versions="1")
        coordinator_epoch: int = int32(versions="1")
        current_txn_first_offset: int = int64(versions="1")

    crc: int = uint32(versions="1")
    producer_entries: list[ProducerSnapshot.ProducerEntry] = array("ProducerEntry", versions="1")


class QuorumStateData(Message, versions="0-1", flexible="0+"):
    """The quorum-state file: the epoch, and for whom this node has voted."""

    class Voter(Struct):
        voter_id: int = int32(versions="0")

    cluster_id: str = string(versions="0")
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    voted_id: int = int32(default=-1)
    voted_directory_id: Uuid = uuid(versions="1+")
    applied_offset: int = int64(versions="0")
    current_voters: list[QuorumStateData.Voter] | None = array("Voter", versions="0", nullable="0")
