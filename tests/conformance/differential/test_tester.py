"""The tester itself: what it finds in brokers of which one has a fault, how it shrinks it, and what it leaves out."""

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
from tests.conformance.differential.answers import Noter, assignment, plain_times
from tests.conformance.differential.areas import Script
from tests.conformance.differential.batches import plain, with_producer_ids
from tests.conformance.differential.campaign import Campaign, summary, told
from tests.conformance.differential.exceptions import Difference, Known
from tests.conformance.differential.fakes import VERSIONS, FakeBroker, FakeDoor, FaultyBroker
from tests.conformance.differential.names import Names, topic_token
from tests.conformance.differential.player import Kept, Outcome, Source, differences
from tests.conformance.differential.shrinking import shrunk
from tests.conformance.differential.steps import PREFIX, Step, fit, prefix_of

SEQUENCES = range(25)
OWN = prefix_of(7)
NEVER = time.monotonic() + 10**6


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake brokers answer at once or never."""
    for name in ("QUIET_S", "STILL_S", "LATE_S"):
        monkeypatch.setattr(player, name, 0.001)


def a_campaign(*doors: FakeDoor, seed: int = 1) -> Campaign:
    return Campaign(doors, VERSIONS, seed, has_barrier=False)


async def test_two_of_a_kind_do_not_differ() -> None:
    tally = await a_campaign(FakeDoor(FakeBroker()), FakeDoor(FakeBroker())).run(SEQUENCES, NEVER)
    assert (tally.sequences, tally.findings, tally.vanished) == (len(SEQUENCES), [], 0)
    assert tally.requests > 20 * len(SEQUENCES)
    assert "0 new differences" in summary(tally, 1.0)


async def test_a_planted_fault_is_found_once_and_shrunk_to_what_it_takes() -> None:
    tally = await a_campaign(FakeDoor(FakeBroker()), FakeDoor(FaultyBroker())).run(SEQUENCES, NEVER)
    finding = tally.findings[0]
    assert {one.outcome.signature for one in tally.findings} == {
        ("ProduceRequest", ".responses[].partition_responses[].base_offset")
    }
    assert len(tally.findings) == 1
    assert [type(step.request) for step in finding.outcome.steps] == [DeleteRecordsRequest, ProduceRequest]
    assert "base_offset: Kafka 0, Barnabas 1" in told(finding)
    assert sum(tally.repeated.values()) > 0


async def test_a_sequence_is_the_same_whenever_it_is_drawn() -> None:
    async def steps() -> list[str]:
        campaign = a_campaign(FakeDoor(FakeBroker()), FakeDoor(FakeBroker()))
        outcome = await campaign.play(Script(7, 3, VERSIONS))
        return [str(step) for step in outcome.steps]

    assert await steps() == await steps()


async def test_what_does_not_show_again_does_not_count() -> None:
    class Once(FakeBroker):
        left = 1

        def append(self, name: str, partition: int) -> int:
            wrong, self.left = self.left, 0
            return super().append(name, partition) + wrong

    tally = await a_campaign(FakeDoor(FakeBroker()), FakeDoor(Once())).run(SEQUENCES, NEVER)
    assert (tally.findings, tally.vanished) == ([], 1)


async def test_what_kafka_shows_to_itself_does_not_count() -> None:
    class Moody(FakeBroker):
        """Numbers offsets on and on, whatever the partition."""

        made = 100

        def append(self, name: str, partition: int) -> int:
            self.made += 1
            return self.made

    tally = await a_campaign(FakeDoor(Moody()), FakeDoor(FakeBroker())).run(SEQUENCES, NEVER)
    assert tally.findings == []
    assert tally.vanished > 0


async def test_a_campaign_is_over_in_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "LOOKING_S", -1.0)
    tally = await a_campaign(FakeDoor(FakeBroker()), FakeDoor(FaultyBroker())).run(
        range(1), time.monotonic() + 0.5
    )
    assert (tally.sequences, tally.cut) == (0, 1)
    assert "came to no end: sequence 0" in capsys.readouterr().out


async def test_a_difference_counts_that_could_not_be_shrunk_in_time() -> None:
    async def play(_: Source) -> Outcome:
        raise TimeoutError

    outcome = Outcome(steps=[Step(at, 0, MetadataRequest(), 12) for at in range(4)])
    assert await shrunk(outcome, play) is outcome


async def test_what_only_one_broker_answers_is_a_difference() -> None:
    def waits(request: Message) -> bool:
        return isinstance(request, FetchRequest) and request.max_wait_ms > 0

    steps = [Step(0, 0, FetchRequest(max_wait_ms=100), 12), Step(1, 0, MetadataRequest(topics=[]), 12)]
    both = a_campaign(FakeDoor(FakeBroker(), waits), FakeDoor(FakeBroker(), waits))
    assert not (await both.play(Kept(steps))).is_new
    one = a_campaign(FakeDoor(FakeBroker()), FakeDoor(FakeBroker(), waits))
    outcome = await one.play(Kept(steps))
    assert outcome.at == steps[0]
    assert outcome.actual == "no answer"


async def test_requests_are_sent_behind_one_that_waits_on_two_of_the_connections() -> None:
    def waits(request: Message) -> bool:
        return isinstance(request, FetchRequest)

    def doors() -> tuple[FakeDoor, FakeDoor]:
        return FakeDoor(FakeBroker(), waits, in_order=True), FakeDoor(FakeBroker(), waits)

    wait, look = FetchRequest(max_wait_ms=100), MetadataRequest(topics=[])
    behind = [Step(0, 0, wait, 12), Step(1, 0, look, 12)]
    outcome = await a_campaign(*doors()).play(Kept(behind))
    assert (outcome.at, outcome.expected) == (behind[1], "no answer")
    in_order, _ = doors()
    assert not (await a_campaign(in_order, in_order).play(Kept(behind))).is_new
    elsewhere = [Step(0, 3, wait, 12), Step(1, 3, look, 12)]
    assert not (await a_campaign(*doors()).play(Kept(elsewhere))).is_new
    settled = [Step(0, 0, wait, 12), Step(1, 0, EndTxnRequest(transactional_id="x"), 3)]
    assert not (await a_campaign(*doors()).play(Kept(settled))).is_new
    one_by_one = Campaign(doors(), VERSIONS, 1, pipelined=False, has_barrier=False)
    assert not (await one_by_one.play(Kept(behind))).is_new


async def test_a_transaction_that_ends_on_one_broker_only_is_a_difference(
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
    outcome = await a_campaign(FakeDoor(FakeBroker()), FakeDoor(Prepared())).play(Kept(steps))
    assert (outcome.expected, outcome.actual) == ("all is done", "a transaction does not end")
    again = await a_campaign(FakeDoor(Prepared()), FakeDoor(FakeBroker())).play(Kept(steps))
    assert not again.is_new
    assert again.known


async def test_known_differences_end_a_sequence_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Known("Produce", r".*base_offset", "planted")
    monkeypatch.setattr(exceptions, "KNOWN", (entry,))
    tally = await a_campaign(FakeDoor(FakeBroker()), FakeDoor(FaultyBroker())).run(SEQUENCES, NEVER)
    assert tally.findings == []
    assert tally.known["planted"] > 0


async def test_topics_of_a_sequence_are_deleted_in_the_end() -> None:
    door = FakeDoor(FakeBroker())
    topic = CreateTopicsRequest.CreatableTopic(name=f"{PREFIX}-t", num_partitions=1, replication_factor=1)
    await a_campaign(door, FakeDoor(FakeBroker())).play(
        Kept([Step(0, 0, CreateTopicsRequest(topics=[topic]), 7)])
    )
    last = door.asked[-1]
    assert isinstance(last, DeleteTopicsRequest)
    assert last.topic_names == list(door.broker.ids)
    assert PREFIX not in last.topic_names[0]


def test_an_exception_looks_at_the_api_the_place_and_the_values() -> None:
    entry = Known("Produce", r"\.a\[\d+\]", "because", lambda _, difference: bool(difference.actual == 2))
    step = Step(0, 0, ProduceRequest(), 9)
    assert entry.covers(step, Difference(".a[3]", 1, 2))
    assert not entry.covers(step, Difference(".a[3]", 1, 3))
    assert not entry.covers(step, Difference(".a[3].b", 1, 2))
    assert not entry.covers(Step(0, 0, MetadataRequest(), 9), Difference(".a[3]", 1, 2))


def test_where_kafka_stumbles_all_of_the_answer_is_known() -> None:
    step = Step(0, 0, FetchRequest(), 12)
    other = Difference(".responses[0].partitions[0].high_watermark", -1, 3)
    stumbles = Difference(".responses[0].partitions[0].error_code", -1, 0)
    assert None not in exceptions.known(step, [other, stumbles])
    assert exceptions.known(step, [other]) == [None]


def test_an_exception_may_ask_for_an_earlier_step() -> None:
    entry = Known("DeleteGroups", ".*", "because", after=(exceptions.joins_as_classic,))
    step = Step(3, 0, DeleteGroupsRequest(groups_names=["g"]), 2)
    difference = Difference(".a", 1, 2)
    assert entry.covers(step, difference, [Step(1, 0, JoinGroupRequest(group_id="g"), 9)])
    assert not entry.covers(step, difference, [Step(1, 0, JoinGroupRequest(group_id="h"), 9)])
    assert not entry.covers(step, difference)


def test_an_exception_sees_what_stands_beside() -> None:
    step = Step(0, 0, FetchRequest(), 12)
    part = {"log_start_offset": 8, "last_stable_offset": 7}
    (found,) = differences({"a": [part]}, {"a": [{**part, "last_stable_offset": 8}]})
    assert exceptions.known(step, [found]) != [None]
    (found,) = differences({"a": [part]}, {"a": [{**part, "last_stable_offset": 9}]})
    assert exceptions.known(step, [found]) == [None]


def fetched(**fields: Any) -> dict[str, Any]:
    part = {"partition_index": 1, "error_code": 0, "last_stable_offset": 4, "records": [0], **fields}
    return {"error_code": 0, "responses": [{"partitions": [part]}]}


def test_only_committed_reads_past_the_last_stable_offset_are_answered_by_kafka_alone() -> None:
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
    assert not is_known(5, "no answer", actual=fetched())


def test_before_fetch_says_where_the_log_starts_records_must_have_been_deleted() -> None:
    deleted = Step(1, 0, DeleteRecordsRequest(), 2)
    (found,) = differences(
        {"a": {"log_start_offset": -1, "last_stable_offset": 3}},
        {"a": {"log_start_offset": -1, "last_stable_offset": 4}},
    )
    for version, earlier, is_known in ((4, [deleted], True), (4, [], False), (5, [deleted], False)):
        step = Step(2, 0, FetchRequest(), version)
        assert (exceptions.known(step, [found], earlier) != [None]) == is_known


def test_what_kafka_stumbles_over_unanswered_is_known_by_the_codec() -> None:
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


def test_a_fetch_that_ends_earlier_is_known_behind_a_marker_alone() -> None:
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


def test_a_group_that_kafka_forgot_is_known_by_what_came_before() -> None:
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


def test_a_consumer_that_cannot_join_is_known_by_the_assignment() -> None:
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


def test_differences_name_the_places() -> None:
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


def test_ids_of_topics_go_out_as_the_brokers_own_and_come_back_as_shared_ones() -> None:
    names = Names(OWN)
    theirs = MetadataResponse.MetadataResponseTopic(name=OWN + "-t", topic_id=b"i" * 16)
    step = Step(3, 0, MetadataRequest(), 12)
    tree = Noter(names).tree(step, MetadataResponse(topics=[theirs]))
    token = topic_token(f"{PREFIX}-t")
    assert (tree["topics"][0]["name"], tree["topics"][0]["topic_id"]) == (f"{PREFIX}-t", token)
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=f"{PREFIX}-t", topic_id=token)]
    )
    sent = names.theirs(request)
    assert (sent.topics[0].name, sent.topics[0].topic_id) == (OWN + "-t", b"i" * 16)  # type: ignore[index]


def test_the_next_topic_of_a_name_has_another_id() -> None:
    names = Names(OWN)
    owner = MetadataResponse.MetadataResponseTopic(name=OWN + "-t")
    step = Step(3, 0, MetadataRequest(), 12)
    assert names.topic_id(b"i" * 16, owner, step) == topic_token(f"{PREFIX}-t")
    assert names.topic_id(b"j" * 16, owner, step) == topic_token(f"{PREFIX}-t", 1)
    assert names.topic_id(b"i" * 16, None, step) == topic_token(f"{PREFIX}-t")


def test_producer_ids_are_exchanged_inside_batches_too() -> None:
    names = Names(OWN)
    step = Step(5, 0, InitProducerIdRequest(transactional_id=None), 4)
    shared = Noter(names).tree(step, InitProducerIdResponse(producer_id=77, producer_epoch=0))["producer_id"]
    records = build_batch([(b"k", b"v", 1, ())], producer_id=shared, producer_epoch=0, base_sequence=0)
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    sent: Any = names.theirs(ProduceRequest(topic_data=[topic])).topic_data[0].partition_data[0].records
    batch = RecordBatch(sent)
    assert (batch.producer_id, batch.is_valid_crc()) == (77, True)
    assert names.records(sent) == records


def test_a_wrong_checksum_stays_wrong_and_fragments_stay() -> None:
    records = bytearray(build_batch([(b"k", b"v", 1, ())], producer_id=5))
    records[17] ^= 1
    changed = with_producer_ids(bytes(records), {5: 6})
    assert (RecordBatch(changed).producer_id, RecordBatch(changed).is_valid_crc()) == (6, False)
    assert with_producer_ids(bytes(records[:30]), {5: 6}) == bytes(records[:30])
    struct.pack_into(">i", records, 8, -7)
    assert len(with_producer_ids(bytes(records), {5: 6})) == len(records)


def test_members_have_names_of_the_steps_that_made_them() -> None:
    theirs = "differential-8b0e2bd6-32a4-4fb7-b06a-d3ae0e6f3a2f"
    names = Names(OWN)
    noter = Noter(names)
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
    tree = Noter(Names(OWN)).tree(Step(0, 0, MetadataRequest(), 12), MetadataResponse(brokers=[broker]))
    assert tree["brokers"][0] == {"node_id": 1, "host": "host", "port": "port", "rack": None}
    assert "throttle_time_ms" not in tree
    batches = plain(build_batch([(None, b"v", now, ()), (None, b"w", 5, ())]))
    shown = plain_times(batches)[1]
    assert (shown["base_timestamp"], shown["max_timestamp"], shown["records"]) == ("now", "now", 2)


def test_lists_are_in_an_order_of_their_own() -> None:
    partition = DescribeProducersResponse.PartitionResponse
    topic = DescribeProducersResponse.TopicResponse(
        name="t", partitions=[partition(partition_index=2), partition(partition_index=1)]
    )
    step = Step(0, 0, MetadataRequest(), 12)
    tree = Noter(Names(OWN)).tree(step, DescribeProducersResponse(topics=[topic]))
    assert [each["partition_index"] for each in tree["topics"][0]["partitions"]] == [1, 2]
    owned = ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=b"i" * 16, partitions=[2, 0, 1])
    given = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[owned])
    tree = Noter(Names(OWN)).tree(step, ConsumerGroupHeartbeatResponse(assignment=given))
    assert tree["assignment"]["topic_partitions"][0]["partitions"] == [0, 1, 2]


def test_assignments_are_compared_by_topic() -> None:
    kinds = ConsumerProtocolAssignment.TopicPartition
    topics = [kinds(topic="b", partitions=[1]), kinds(topic="a", partitions=[0, 2])]
    data = b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=topics), 1)
    assert assignment(data) == [1, [("a", [0, 2]), ("b", [1])], None]
    for other in (b"", b"\0", b"\0\1abc", b"\xff\xff"):
        assert assignment(other) == other


def test_requests_are_cut_down_to_their_version() -> None:
    topic = FetchRequest.FetchTopic(topic="t", topic_id=b"i" * 16)
    whole = FetchRequest(topics=[topic], session_id=5, rack_id="r")
    assert fit(whole, 4).session_id == 0
    assert (fit(whole, 12).topics[0].topic, fit(whole, 13).topics[0].topic) == ("t", "")
    assert fit(whole, 12).topics[0].topic_id == bytes(16)
    assert fit(MetadataRequest(topics=None), 0).topics == []


def test_steps_say_what_they_are() -> None:
    step = Step(4, 2, ListOffsetsRequest(replica_id=-1, isolation_level=1), 5)
    assert str(step) == "[4] connection 2: ListOffsets v5 (replica_id=-1, isolation_level=1)"
    assert not step.may_wait
    assert Step(0, 0, FetchRequest(max_wait_ms=1), 4).may_wait
    assert campaigns.SIDE_BY_SIDE > 1
