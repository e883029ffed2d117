"""The tester itself: the differences it finds between fake brokers, how it shrinks them, and what it ignores."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from barnabas.protocol.codec import encode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest, ListOffsetsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.producers import (
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from barnabas.protocol.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.schema import Message
from tests.conformance.differential import campaign as campaigns
from tests.conformance.differential import exceptions, player, settling
from tests.conformance.differential.answers import TreeBuilder, assignment, plain_times
from tests.conformance.differential.areas import Script
from tests.conformance.differential.batches import plain, with_producer_ids
from tests.conformance.differential.campaign import Campaign, describe_finding, summary
from tests.conformance.differential.exceptions import Difference, Known
from tests.conformance.differential.fakes import VERSIONS, FakeBroker, FakeEndpoint, FaultyBroker
from tests.conformance.differential.names import Names, topic_token
from tests.conformance.differential.player import Outcome, RecordedSteps, Source, differences
from tests.conformance.differential.shrinking import shrink
from tests.conformance.differential.steps import PREFIX, Step, fit, prefix_of

SEQUENCES = range(25)
OWN = prefix_of(7)
NEVER = time.monotonic() + 10**6


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens timeouts: fake brokers answer at once or never."""
    for name in ("QUIET_S", "STILL_S", "LATE_S"):
        monkeypatch.setattr(player, name, 0.001)


def a_campaign(*endpoints: FakeEndpoint, seed: int = 1) -> Campaign:
    return Campaign(endpoints, VERSIONS, seed, has_barrier=False)


async def test_equal_brokers_have_no_differences() -> None:
    tally = await a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(FakeBroker())).run(SEQUENCES, NEVER)
    assert (tally.sequences, tally.findings, tally.vanished) == (len(SEQUENCES), [], 0)
    assert tally.requests > 20 * len(SEQUENCES)
    assert "0 new differences" in summary(tally, 1.0)


async def test_fault_is_found_once_and_shrunk() -> None:
    tally = await a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(FaultyBroker())).run(SEQUENCES, NEVER)
    finding = tally.findings[0]
    assert {one.outcome.signature for one in tally.findings} == {
        ("ProduceRequest", ".responses[].partition_responses[].base_offset")
    }
    assert len(tally.findings) == 1
    assert [type(step.request) for step in finding.outcome.steps] == [DeleteRecordsRequest, ProduceRequest]
    assert "base_offset: Kafka 0, Barnabas 1" in describe_finding(finding)
    assert sum(tally.repeated.values()) > 0


async def test_same_seed_and_number_give_the_same_sequence() -> None:
    async def steps() -> list[str]:
        campaign = a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(FakeBroker()))
        outcome = await campaign.play(Script(7, 3, VERSIONS))
        return [str(step) for step in outcome.steps]

    assert await steps() == await steps()


async def test_difference_that_does_not_show_again_does_not_count() -> None:
    class Once(FakeBroker):
        left = 1

        def append(self, name: str, partition: int) -> int:
            wrong, self.left = self.left, 0
            return super().append(name, partition) + wrong

    tally = await a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(Once())).run(SEQUENCES, NEVER)
    assert (tally.findings, tally.vanished) == ([], 1)


async def test_difference_of_kafka_with_itself_does_not_count() -> None:
    class Moody(FakeBroker):
        """Numbers offsets across all partitions."""

        made = 100

        def append(self, name: str, partition: int) -> int:
            self.made += 1
            return self.made

    tally = await a_campaign(FakeEndpoint(Moody()), FakeEndpoint(FakeBroker())).run(SEQUENCES, NEVER)
    assert tally.findings == []
    assert tally.vanished > 0


async def test_campaign_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "ANALYSIS_S", -1.0)
    tally = await a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(FaultyBroker())).run(
        range(1), time.monotonic() + 0.5
    )
    assert (tally.sequences, tally.cut) == (0, 1)
    assert "did not end in time: sequence 0" in capsys.readouterr().out


async def test_difference_that_is_not_shrunk_in_time_counts() -> None:
    async def play(_: Source) -> Outcome:
        raise TimeoutError

    outcome = Outcome(steps=[Step(at, 0, MetadataRequest(), 12) for at in range(4)])
    assert await shrink(outcome, play) is outcome


async def test_missing_response_of_one_broker_is_a_difference() -> None:
    def waits(request: Message) -> bool:
        return isinstance(request, FetchRequest) and request.max_wait_ms > 0

    steps = [Step(0, 0, FetchRequest(max_wait_ms=100), 12), Step(1, 0, MetadataRequest(topics=[]), 12)]
    both = a_campaign(FakeEndpoint(FakeBroker(), waits), FakeEndpoint(FakeBroker(), waits))
    assert not (await both.play(RecordedSteps(steps))).is_new
    one = a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(FakeBroker(), waits))
    outcome = await one.play(RecordedSteps(steps))
    assert outcome.at == steps[0]
    assert outcome.actual == "no answer"


async def test_requests_follow_one_that_waits_on_two_of_the_connections() -> None:
    def waits(request: Message) -> bool:
        return isinstance(request, FetchRequest)

    def endpoints() -> tuple[FakeEndpoint, FakeEndpoint]:
        return FakeEndpoint(FakeBroker(), waits, in_order=True), FakeEndpoint(FakeBroker(), waits)

    wait, look = FetchRequest(max_wait_ms=100), MetadataRequest(topics=[])
    behind = [Step(0, 0, wait, 12), Step(1, 0, look, 12)]
    outcome = await a_campaign(*endpoints()).play(RecordedSteps(behind))
    assert (outcome.at, outcome.expected) == (behind[1], "no answer")
    in_order, _ = endpoints()
    assert not (await a_campaign(in_order, in_order).play(RecordedSteps(behind))).is_new
    elsewhere = [Step(0, 3, wait, 12), Step(1, 3, look, 12)]
    assert not (await a_campaign(*endpoints()).play(RecordedSteps(elsewhere))).is_new
    settled = [Step(0, 0, wait, 12), Step(1, 0, EndTxnRequest(transactional_id="x"), 3)]
    assert not (await a_campaign(*endpoints()).play(RecordedSteps(settled))).is_new
    one_by_one = Campaign(endpoints(), VERSIONS, 1, pipelined=False, has_barrier=False)
    assert not (await one_by_one.play(RecordedSteps(behind))).is_new


async def test_transaction_that_ends_on_one_broker_only_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Prepared(FakeBroker):
        def answer(self, request: Message, version: int) -> Message:
            if isinstance(request, DescribeTransactionsRequest):
                state = DescribeTransactionsResponse.TransactionState(transaction_state="PrepareCommit")
                return DescribeTransactionsResponse(transaction_states=[state])
            return super().answer(request, version)

    monkeypatch.setattr(settling, "PATIENCE_S", 0.01)
    steps = [Step(0, 0, EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0), 3)]
    outcome = await a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(Prepared())).play(
        RecordedSteps(steps)
    )
    assert (outcome.expected, outcome.actual) == ("all is done", "a transaction does not end")
    again = await a_campaign(FakeEndpoint(Prepared()), FakeEndpoint(FakeBroker())).play(RecordedSteps(steps))
    assert not again.is_new
    assert again.known


async def test_known_differences_end_a_sequence_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Known("Produce", r".*base_offset", "planted")
    monkeypatch.setattr(exceptions, "KNOWN", (entry,))
    tally = await a_campaign(FakeEndpoint(FakeBroker()), FakeEndpoint(FaultyBroker())).run(SEQUENCES, NEVER)
    assert tally.findings == []
    assert tally.known["planted"] > 0


async def test_topics_of_a_sequence_are_deleted_at_its_end() -> None:
    endpoint = FakeEndpoint(FakeBroker())
    topic = CreateTopicsRequest.CreatableTopic(name=f"{PREFIX}-t", num_partitions=1, replication_factor=1)
    await a_campaign(endpoint, FakeEndpoint(FakeBroker())).play(
        RecordedSteps([Step(0, 0, CreateTopicsRequest(topics=[topic]), 7)])
    )
    last = endpoint.received[-1]
    assert isinstance(last, DeleteTopicsRequest)
    assert last.topic_names == list(endpoint.broker.ids)
    assert PREFIX not in last.topic_names[0]


def test_exception_matches_api_place_and_values() -> None:
    entry = Known("Produce", r"\.a\[\d+\]", "because", lambda _, difference: bool(difference.actual == 2))
    step = Step(0, 0, ProduceRequest(), 9)
    assert entry.covers(step, Difference(".a[3]", 1, 2))
    assert not entry.covers(step, Difference(".a[3]", 1, 3))
    assert not entry.covers(step, Difference(".a[3].b", 1, 2))
    assert not entry.covers(Step(0, 0, MetadataRequest(), 9), Difference(".a[3]", 1, 2))


def test_unknown_server_error_of_kafka_covers_the_whole_response() -> None:
    step = Step(0, 0, FetchRequest(), 12)
    other = Difference(".responses[0].partitions[0].high_watermark", -1, 3)
    failure = Difference(".responses[0].partitions[0].error_code", -1, 0)
    assert None not in exceptions.known(step, [other, failure])
    assert exceptions.known(step, [other]) == [None]


def test_exception_may_require_an_earlier_step() -> None:
    entry = Known("DeleteGroups", ".*", "because", after=(exceptions.joins_as_classic,))
    step = Step(3, 0, DeleteGroupsRequest(groups_names=["g"]), 2)
    difference = Difference(".a", 1, 2)
    assert entry.covers(step, difference, [Step(1, 0, JoinGroupRequest(group_id="g"), 9)])
    assert not entry.covers(step, difference, [Step(1, 0, JoinGroupRequest(group_id="h"), 9)])
    assert not entry.covers(step, difference)


def test_exception_checks_the_struct_around_the_difference() -> None:
    step = Step(0, 0, FetchRequest(), 12)
    part = {"log_start_offset": 8, "last_stable_offset": 7}
    (found,) = differences({"a": [part]}, {"a": [{**part, "last_stable_offset": 8}]})
    assert exceptions.known(step, [found]) != [None]
    (found,) = differences({"a": [part]}, {"a": [{**part, "last_stable_offset": 9}]})
    assert exceptions.known(step, [found]) == [None]


def fetched(**fields: Any) -> dict[str, Any]:
    part = {"partition_index": 1, "error_code": 0, "last_stable_offset": 4, "records": [0], **fields}
    return {"error_code": 0, "responses": [{"partitions": [part]}]}


def test_early_response_to_committed_reads_past_the_last_stable_offset_is_known() -> None:
    def is_known(offset: int, answer: Any, isolation: int = 1, actual: Any = "no answer") -> bool:
        wanted = FetchRequest.FetchPartition(partition=1, fetch_offset=offset)
        topics = [FetchRequest.FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(isolation_level=isolation, session_epoch=-1, max_wait_ms=9, topics=topics)
        return exceptions.known(Step(0, 0, request, 12), [Difference("", answer, actual)]) != [None]

    assert is_known(5, fetched())
    assert not is_known(4, fetched())
    assert not is_known(5, fetched(), isolation=0)
    assert not is_known(5, fetched(records=[70, {}]))
    assert not is_known(5, fetched(error_code=1))
    unknown = {"partition_index": 0, "error_code": 3, "last_stable_offset": -1, "records": [0]}
    assert is_known(5, {"error_code": 0, "responses": [{"partitions": [unknown]}, *fetched()["responses"]]})
    assert not is_known(
        4, {"error_code": 0, "responses": [{"partitions": [unknown]}, *fetched()["responses"]]}
    )
    assert not is_known(5, "no answer", actual=fetched())


def test_old_fetch_versions_need_deleted_records_for_the_log_start_exception() -> None:
    deleted = Step(1, 0, DeleteRecordsRequest(), 2)
    (found,) = differences(
        {"a": {"log_start_offset": -1, "last_stable_offset": 3}},
        {"a": {"log_start_offset": -1, "last_stable_offset": 4}},
    )
    for version, earlier, is_known in ((4, [deleted], True), (4, [], False), (5, [deleted], False)):
        step = Step(2, 0, FetchRequest(), version)
        assert (exceptions.known(step, [found], earlier) != [None]) == is_known


def test_failed_produce_without_acks_is_known_by_its_codec() -> None:
    difference = Difference(".responses[0].partition_responses[0].base_offset", 0, 2)
    for codec, acks, is_known in ((5, 0, True), (5, 1, False), (3, 0, False)):
        records = bytearray(build_batch([(b"k", b"v", 1, ())]))
        records[22] = codec
        data = [
            ProduceRequest.PartitionProduceData(index=0, records=bytes(records)),
            ProduceRequest.PartitionProduceData(index=1, records=build_batch([(b"k", b"v", 1, ())])),
        ]
        topics = [ProduceRequest.TopicProduceData(name="t", partition_data=data)]
        earlier = Step(1, 0, ProduceRequest(acks=acks, topic_data=topics), 9)
        assert (
            exceptions.known(Step(2, 0, ProduceRequest(), 9), [difference], [earlier]) != [None]
        ) == is_known


def test_shorter_fetch_is_known_only_after_a_marker() -> None:
    fetching = Step(2, 0, FetchRequest(), 12)
    marker = Step(1, 0, WriteTxnMarkersRequest(), 1)
    batches = [{"base_offset": 0}, {"base_offset": 2}]
    for expected, actual, is_known in (
        ([70, batches[0]], [140, *batches], True),
        ([140, *batches], [70, batches[0]], False),
        ([70, batches[1]], [140, *batches], False),
        ([0], [140, *batches], False),
    ):
        difference = Difference(".responses[0].partitions[0].records", expected, actual)
        assert (exceptions.known(fetching, [difference], [marker]) != [None]) == is_known
        assert exceptions.known(fetching, [difference]) == [None]


def test_group_that_kafka_lost_is_known_by_earlier_steps() -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    consumer = Step(1, 0, heartbeat, 1)
    stranger = Step(2, 0, JoinGroupRequest(group_id="g", member_id="stranger"), 9)
    new = Step(2, 0, JoinGroupRequest(group_id="g"), 9)
    again = Step(3, 0, heartbeat, 1)
    begins_again, goes_on = Difference(".member_epoch", 2, 4), Difference(".member_epoch", 4, 2)
    assert exceptions.known(again, [begins_again], [consumer, stranger]) != [None]
    assert exceptions.known(again, [goes_on], [consumer, stranger]) == [None]
    assert exceptions.known(again, [begins_again], [consumer, new]) == [None]
    listing = Step(4, 0, ListGroupsRequest(), 5)
    empty = {"group_id": "g", "group_state": "Empty", "group_type": "consumer"}
    for one, is_known in ((empty, True), ({**empty, "group_state": "Stable"}, False)):
        found = exceptions.known(listing, [Difference(".groups", [], [one])], [consumer, stranger])
        assert (found != [None]) == is_known


def test_consumer_that_cannot_join_is_known_by_the_assignment() -> None:
    joining = JoinGroupRequest(group_id="g", member_id="m")
    consumer = Step(3, 0, ConsumerGroupHeartbeatRequest(group_id="g", member_epoch=0), 1)
    difference = Difference("", {"error_code": 27}, "no answer")
    good = b"\0\1" + encode(ConsumerProtocolAssignment(), 1)
    own = b"\0\1" + encode(ConsumerProtocolAssignment(user_data=b"mine"), 1)
    for data, is_known in ((b"\0\1", True), (own, True), (good, False)):
        given = SyncGroupRequest.SyncGroupRequestAssignment(member_id="m", assignment=data)
        leader = Step(1, 0, SyncGroupRequest(group_id="g", assignments=[given]), 5)
        found = exceptions.known(Step(2, 0, joining, 9), [difference], [leader, consumer])
        assert (found != [None]) == is_known


def test_differences_have_paths() -> None:
    found = differences({"a": [1, {"b": 2}], "c": [1]}, {"a": [1, {"b": 3}], "c": []})
    assert sorted(str(each) for each in found) == [
        ".a[1].b: Kafka 2, Barnabas 3",
        ".c: Kafka [1], Barnabas []",
    ]


# ---- names


def test_prefixes_differ_and_have_one_hash_code() -> None:
    prefixes = {prefix_of(run) for run in range(2000)}
    assert len(prefixes) == 2000
    assert {len(prefix) for prefix in prefixes} == {len(PREFIX)}
    codes = {sum(ord(c) * 31**at for at, c in enumerate(reversed(prefix))) % 2**32 for prefix in prefixes}
    assert len(codes) == 1


def test_topic_ids_are_translated_in_requests_and_responses() -> None:
    names = Names(OWN)
    theirs = MetadataResponse.MetadataResponseTopic(name=OWN + "-t", topic_id=b"i" * 16)
    step = Step(3, 0, MetadataRequest(), 12)
    tree = TreeBuilder(names).tree(step, MetadataResponse(topics=[theirs]))
    token = topic_token(f"{PREFIX}-t")
    assert (tree["topics"][0]["name"], tree["topics"][0]["topic_id"]) == (f"{PREFIX}-t", token)
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=f"{PREFIX}-t", topic_id=token)]
    )
    sent = names.theirs(request)
    assert (sent.topics[0].name, sent.topics[0].topic_id) == (OWN + "-t", b"i" * 16)  # type: ignore[index]


def test_next_topic_of_a_name_has_another_id() -> None:
    names = Names(OWN)
    owner = MetadataResponse.MetadataResponseTopic(name=OWN + "-t")
    step = Step(3, 0, MetadataRequest(), 12)
    assert names.topic_id(b"i" * 16, owner, step) == topic_token(f"{PREFIX}-t")
    assert names.topic_id(b"j" * 16, owner, step) == topic_token(f"{PREFIX}-t", 1)
    assert names.topic_id(b"i" * 16, None, step) == topic_token(f"{PREFIX}-t")


def test_producer_ids_are_translated_inside_batches() -> None:
    names = Names(OWN)
    step = Step(5, 0, InitProducerIdRequest(transactional_id=None), 4)
    shared = TreeBuilder(names).tree(step, InitProducerIdResponse(producer_id=77, producer_epoch=0))[
        "producer_id"
    ]
    records = build_batch([(b"k", b"v", 1, ())], producer_id=shared, producer_epoch=0, base_sequence=0)
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    sent: Any = names.theirs(ProduceRequest(topic_data=[topic])).topic_data[0].partition_data[0].records
    batch = RecordBatch(sent)
    assert (batch.producer_id, batch.is_valid_crc()) == (77, True)
    assert names.records(sent) == records


def test_wrong_checksums_stay_wrong_and_fragments_unchanged() -> None:
    records = bytearray(build_batch([(b"k", b"v", 1, ())], producer_id=5))
    records[17] ^= 1
    changed = with_producer_ids(bytes(records), {5: 6})
    assert (RecordBatch(changed).producer_id, RecordBatch(changed).is_valid_crc()) == (6, False)
    assert with_producer_ids(bytes(records[:30]), {5: 6}) == bytes(records[:30])
    struct.pack_into(">i", records, 8, -7)
    assert len(with_producer_ids(bytes(records), {5: 6})) == len(records)


def test_members_are_named_after_the_steps_that_created_them() -> None:
    theirs = "differential-8b0e2bd6-32a4-4fb7-b06a-d3ae0e6f3a2f"
    names = Names(OWN)
    noter = TreeBuilder(names)
    describing = Step(1, 0, MetadataRequest(), 12)
    assert names.member_id(theirs, describing) == "not known yet"
    answer = JoinGroupResponse(member_id=theirs, leader=theirs)
    tree = noter.tree(Step(7, 0, JoinGroupRequest(member_id=""), 9), answer)
    assert tree["member_id"] == tree["leader"] == "member 7 0"
    assert names.member_id("mine", describing) == "mine"
    assert names.theirs(JoinGroupRequest(member_id="member 7 0")).member_id == theirs
    leaving = LeaveGroupResponse(members=[LeaveGroupResponse.MemberResponse(member_id="chosen")])
    tree = noter.tree(Step(9, 0, LeaveGroupRequest(), 5), leaving)
    assert [member["member_id"] for member in tree["members"]] == ["chosen"]


# ---- masks


def test_times_near_now_own_addresses_and_texts_are_left_out() -> None:
    now = int(time.time() * 1000)
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=5)
    tree = TreeBuilder(Names(OWN)).tree(Step(0, 0, MetadataRequest(), 12), MetadataResponse(brokers=[broker]))
    assert tree["brokers"][0] == {"node_id": 1, "host": "host", "port": "port", "rack": None}
    assert "throttle_time_ms" not in tree
    batches = plain(build_batch([(None, b"v", now, ()), (None, b"w", 5, ())]))
    shown = plain_times(batches)[1]
    assert (shown["base_timestamp"], shown["max_timestamp"], shown["records"]) == ("now", "now", 2)


def test_lists_are_sorted() -> None:
    partition = DescribeProducersResponse.PartitionResponse
    topic = DescribeProducersResponse.TopicResponse(
        name="t", partitions=[partition(partition_index=2), partition(partition_index=1)]
    )
    step = Step(0, 0, MetadataRequest(), 12)
    tree = TreeBuilder(Names(OWN)).tree(step, DescribeProducersResponse(topics=[topic]))
    assert [each["partition_index"] for each in tree["topics"][0]["partitions"]] == [1, 2]
    owned = ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=b"i" * 16, partitions=[2, 0, 1])
    given = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[owned])
    tree = TreeBuilder(Names(OWN)).tree(step, ConsumerGroupHeartbeatResponse(assignment=given))
    assert tree["assignment"]["topic_partitions"][0]["partitions"] == [0, 1, 2]


def test_assignments_are_compared_by_topic() -> None:
    kinds = ConsumerProtocolAssignment.TopicPartition
    topics = [kinds(topic="b", partitions=[1]), kinds(topic="a", partitions=[0, 2])]
    data = b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=topics), 1)
    assert assignment(data) == [1, [("a", [0, 2]), ("b", [1])], None]
    for other in (b"", b"\0", b"\0\1abc", b"\xff\xff"):
        assert assignment(other) == other


def test_requests_have_only_fields_of_their_version() -> None:
    topic = FetchRequest.FetchTopic(topic="t", topic_id=b"i" * 16)
    whole = FetchRequest(topics=[topic], session_id=5, rack_id="r")
    assert fit(whole, 4).session_id == 0
    assert (fit(whole, 12).topics[0].topic, fit(whole, 13).topics[0].topic) == ("t", "")
    assert fit(whole, 12).topics[0].topic_id == bytes(16)
    assert fit(MetadataRequest(topics=None), 0).topics == []


def test_steps_as_text() -> None:
    step = Step(4, 2, ListOffsetsRequest(replica_id=-1, isolation_level=1), 5)
    assert str(step) == "[4] connection 2: ListOffsets v5 (replica_id=-1, isolation_level=1)"
    assert not step.may_wait
    assert Step(0, 0, FetchRequest(max_wait_ms=1), 4).may_wait
    assert campaigns.SIDE_BY_SIDE > 1
