"""Records of __consumer_offsets: streams groups."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, struct, uint16


class StreamsGroupMetadataKey(Message, api_key=17, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class StreamsGroupMetadataValue(Message, api_key=17, versions="0", flexible="0+"):
    class LastAssignmentConfig(Struct):
        key: str = string()
        value: str = string()

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0, tagged="0+")
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = array(
        "LastAssignmentConfig", nullable="0+", tag=1, tagged="0+"
    )


class StreamsGroupMemberMetadataKey(Message, api_key=19, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class StreamsGroupMemberMetadataValue(Message, api_key=19, versions="0", flexible="0+"):
    class Endpoint(Struct):
        host: str = string()
        port: int = uint16()

    class KeyValue(Struct):
        key: str = string()
        value: str = string()

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = struct(
        "Endpoint", nullable="0+", default=None
    )
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = array("KeyValue")


class StreamsGroupTargetAssignmentMetadataKey(Message, api_key=20, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class StreamsGroupTargetAssignmentMetadataValue(Message, api_key=20, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0, tagged="0+")


class StreamsGroupTargetAssignmentMemberKey(Message, api_key=21, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class StreamsGroupTargetAssignmentMemberValue(Message, api_key=21, versions="0", flexible="0+"):
    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(int32)

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds")
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds")
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds")


class StreamsGroupCurrentMemberAssignmentKey(Message, api_key=22, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class StreamsGroupCurrentMemberAssignmentValue(Message, api_key=22, versions="0", flexible="0+"):
    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(int32)
        assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, tagged="0+")

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array(
        "TaskIds"
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")


class StreamsGroupTopologyKey(Message, api_key=23, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class StreamsGroupTopologyValue(Message, api_key=23, versions="0", flexible="0+"):
    class TopicConfig(Struct):
        key: str = string()
        value: str = string()

    class TopicInfo(Struct):
        name: str = string()
        partitions: int = int32()
        replication_factor: int = int16()
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = array("TopicConfig")

    class CopartitionGroup(Struct):
        source_topics: list[int] = array(int16)
        source_topic_regex: list[int] = array(int16)
        repartition_source_topics: list[int] = array(int16)

    class Subtopology(Struct):
        subtopology_id: str = string()
        source_topics: list[str] = array(string)
        source_topic_regex: list[str] = array(string)
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = array("TopicInfo")
        repartition_sink_topics: list[str] = array(string)
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = array("TopicInfo")
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = array("CopartitionGroup")

    epoch: int = int32()
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = array("Subtopology")
