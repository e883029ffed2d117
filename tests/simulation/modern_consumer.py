"""A consumer of the group protocol of KIP-848, as Java's ConsumerMembershipManager behaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.wire import Uuid
from tests.simulation.clock import Wakeup
from tests.simulation.consumer import Consumer, FencedError, grouped
from tests.simulation.network import DisconnectedError
from tests.simulation.node import GROUP, RetryError

if TYPE_CHECKING:
    from tests.simulation.world import World

JOINING, LEAVING, LEAVING_TEMPORARILY = 0, -1, -2


class ModernConsumer(Consumer):
    """One member: its heartbeats report its partitions and receive its assignment."""

    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        topics: Sequence[str],
        *,
        instance_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        super().__init__(world, name, group, topics, instance_id)
        self.needs = {ApiKey.OFFSET_COMMIT: (9, 10), ApiKey.OFFSET_FETCH: (9, 10)}
        self.assignor = assignor
        self.subscribes_by_pattern = False
        self.epoch = JOINING
        if self.version(ApiKey.CONSUMER_GROUP_HEARTBEAT) >= 1:
            self._new_id()
        self.rebalance_timeout_s = self.rng.choice((6.0, 15.0))
        self.heartbeat_interval_s = 1.0
        self.target: dict[Uuid, list[int]] | None = None  # the assignment, while it is not reconciled yet
        self._last_content: tuple[Any, ...] | None = (
            None  # the contents of the last heartbeat that was answered
        )
        self._wakeup = Wakeup(world.clock)

    def _new_id(self) -> None:
        self.member_id = str(UUID(int=self.rng.getrandbits(128), version=4))

    @property
    def knows_patterns(self) -> bool:
        return self.version(ApiKey.CONSUMER_GROUP_HEARTBEAT) >= 1

    def fetching_member(self) -> tuple[str | None, int]:
        return self.member_id, self.epoch

    async def run(self) -> None:
        self.spawn(self._heartbeats())
        while not self.leaving:
            try:
                await self._turn()
            except (DisconnectedError, RetryError):
                await self.sleep(0.1)
            except FencedError:
                await self.sleep(0.1)  # the next heartbeat reports it as well
        await self._leave()

    async def _turn(self) -> None:
        await self.maybe_refresh_topics()
        if self.target is not None:
            await self._reconcile()
        elif self.epoch > 0:
            await self.commit_now_and_then()
            await self.poll()
        else:
            await self.sleep(0.3)

    # -- reconciliation --

    async def _reconcile(self) -> None:
        target = self.target
        assert target is not None
        if any(self.named(topic_id) is None for topic_id in target):
            await self.refresh_topics()
        wanted = [
            (name, index)
            for topic_id, indexes in target.items()
            for index in indexes
            if (name := self.named(topic_id)) is not None
        ]
        revoked = [partition for partition in self.owned if partition not in wanted]
        if revoked:
            await self.commit_before_revocation()
            await self.before_revocation()
        if self.target is not target:
            return  # a newer target came in the meantime, or the member was fenced
        self.release([partition for partition in revoked if partition in self.owned])
        self.claim(wanted)
        if all(self.named(topic_id) is not None for topic_id in target):
            self.target = None
        self._wakeup.wake()

    async def before_revocation(self) -> None:
        """Called before partitions are revoked; subclasses finish their work in it."""

    async def lost(self) -> None:
        """Called when partitions are lost; subclasses undo their work in it."""

    # -- heartbeats --

    async def _heartbeats(self) -> None:
        while True:
            if not self.leaving and self.known_topics:
                await self._heartbeat()
            await self._wakeup.wait(self.heartbeat_interval_s)

    async def _heartbeat(self) -> None:
        try:
            await self.find_coordinator(self.group, GROUP)
        except DisconnectedError:
            self._last_content = None  # the next heartbeat has all fields again
            return
        if self._has_ended():
            return
        request = self._request()  # not before: it says what is owned when it is sent
        content = self._content(request)
        if self.epoch != JOINING and content == self._last_content:
            request.rebalance_timeout_ms, request.subscribed_topic_names = -1, None
            request.server_assignor = request.topic_partitions = request.subscribed_topic_regex = None
        try:
            answer = await self.ask(request)
        except DisconnectedError:
            self._last_content = None
            return
        if self._has_ended():
            return
        if request.member_epoch != self.epoch:
            return
        try:
            if answer.error_code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
                await self.sleep(1.0)
                return
            self.check(answer.error_code)
        except RetryError:
            self._last_content = None
            return
        except FencedError as fenced:
            await self._fenced(fenced.code)
            return
        self._last_content = content
        self._apply_response(answer)

    def _has_ended(self) -> bool:
        return self.leaving or not self.alive

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        owned = {} if self.epoch == JOINING else grouped(self.owned)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=int(self.rebalance_timeout_s * 1000),
            subscribed_topic_names=[] if self.subscribes_by_pattern else self.subscribed,
            subscribed_topic_regex="|".join(self.subscribed) if self.subscribes_by_pattern else None,
            server_assignor=self.assignor,
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=self.topic_id(topic), partitions=indexes
                )
                for topic, indexes in owned.items()
                if topic in self.known_topics
            ],
        )

    @staticmethod
    def _content(request: ConsumerGroupHeartbeatRequest) -> tuple[Any, ...]:
        partitions = [(one.topic_id, tuple(one.partitions)) for one in request.topic_partitions or ()]
        topics = (*(request.subscribed_topic_names or ()), request.subscribed_topic_regex)
        return tuple(sorted(partitions)), topics

    def _apply_response(self, answer: Any) -> None:
        if answer.member_id:
            self.member_id = answer.member_id
        self.epoch = answer.member_epoch
        self.heartbeat_interval_s = answer.heartbeat_interval_ms / 1000 or self.heartbeat_interval_s
        if answer.assignment is not None:
            self.target = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}

    async def _fenced(self, code: int) -> None:
        self.say("is fenced:", ErrorCode(code).name)
        self.epoch = JOINING
        self.target = self._last_content = None
        await self.lost()
        self.release(self.owned, lost=True)
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.die()

    async def _leave(self) -> None:
        if self.owned:
            await self.commit_before_revocation()
        await self.before_revocation()
        self.release(self.owned)
        if self.member_id and self.epoch > 0:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=LEAVING if self.instance_id is None else LEAVING_TEMPORARILY,
                instance_id=self.instance_id,
            )
            try:
                await self.find_coordinator(self.group, GROUP)
                await self.ask(request)
            except DisconnectedError:
                pass  # its session will expire
        self.die()
