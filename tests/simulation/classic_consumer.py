"""A consumer of the classic protocol, eager or cooperative, as Java's ConsumerCoordinator and librdkafka behave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.simulation.assignors import (
    assign,
    pack_assignment,
    pack_subscription,
    unpack_assignment,
    unpack_subscription,
)
from tests.simulation.consumer import Consumer, FencedError
from tests.simulation.network import DisconnectedError
from tests.simulation.node import GROUP, RetryError

if TYPE_CHECKING:
    from tests.simulation.world import World

NO_GENERATION: Final = -1
SKIPS_ASSIGNMENT: Final = 9
"""The version of JoinGroup from which on a leader that returns as a static member learns that it leads (KIP-814)."""

COOPERATIVE: Final = "cooperative-sticky"


class ClassicConsumer(Consumer):
    """One member. It joins, syncs, and continues until a heartbeat or a commit reports a rebalance."""

    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        topics: Sequence[str],
        assignors: Sequence[str],
        *,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(world, name, group, topics, instance_id)
        if instance_id is not None:
            self.needs = {
                ApiKey.JOIN_GROUP: (5, 9),
                ApiKey.SYNC_GROUP: (3, 5),
                ApiKey.HEARTBEAT: (3, 4),
                ApiKey.LEAVE_GROUP: (3, 5),
                ApiKey.OFFSET_COMMIT: (7, 10),
            }
        self.assignors = list(assignors)
        self.session_timeout_s = self.rng.choice((6.0, 10.0))
        self.rebalance_timeout_s = self.rng.choice((8.0, 15.0))
        self.heartbeat_interval_s = self.session_timeout_s / 4
        self.rejoin = True
        self._joining = False
        self._protocol = self.assignors[0]
        self._leads = False
        self._leads_on = False

    @property
    def cooperative(self) -> bool:
        return COOPERATIVE in self.assignors

    async def run(self) -> None:
        self.spawn(self._heartbeats())
        while not self.leaving:
            try:
                await self._turn()
            except (DisconnectedError, RetryError):
                await self.sleep(0.1)
            except FencedError as fenced:
                await self._fenced(fenced.code)
        await self._leave()

    async def _turn(self) -> None:
        if await self.maybe_refresh_topics() and self._leads:
            self.rejoin = True
        if not self.known_topics:
            await self.sleep(0.3)
        elif self.rejoin or self.epoch == NO_GENERATION:
            await self._join()
        else:
            await self.commit_now_and_then()
            await self.poll()

    def subscribe(self, topics: Sequence[str]) -> None:
        before = self.subscribed
        super().subscribe(topics)
        self.rejoin = self.rejoin or self.subscribed != before

    def rejoin_as_possible_leader(self) -> None:
        """Joins again where it may be a leader that does not know it, and so does not react to new partitions.

        So does one that leads on with the assignment of its predecessor: it takes the partitions that it finds for
        those that were assigned. Java's consumer does the same.
        """
        is_old = self.version(ApiKey.JOIN_GROUP) < SKIPS_ASSIGNMENT
        if self.instance_id is not None and ((is_old and not self._leads) or self._leads_on):
            self.rejoin = True

    # -- membership --

    async def _join(self) -> None:
        """One attempt to complete a rebalance."""
        await self.find_coordinator(self.group, GROUP)
        if self.owned:
            await self.last_commit()
        if not self.cooperative or self.epoch == NO_GENERATION:
            await self.before_revocation()
            self.release(self.owned, lost=self.epoch == NO_GENERATION)
        self._joining = True
        try:
            subscribed = self.subscribed
            answer = await self.ask(self._join_request(), timeout_s=self.rebalance_timeout_s + 5)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                return
            self.check(answer.error_code)
            if self._missed_generation(answer.generation_id):
                await self._lose_all()
            self.epoch, self.member_id = answer.generation_id, answer.member_id
            self._protocol = answer.protocol_name or ""
            self._leads = answer.leader == answer.member_id
            self._leads_on = self._leads and answer.skip_assignment
            synced = await self.ask(await self._sync_request(answer), timeout_s=self.rebalance_timeout_s + 5)
            self.check(synced.error_code)
        finally:
            self._joining = False
        self.rejoin = subscribed != self.subscribed
        await self._apply_assignment(synced.assignment)

    def _missed_generation(self, generation: int) -> bool:
        """Whether it missed a generation, as only a static member can do and stay in the group.

        Others may own its partitions by then. Java's consumer and librdkafka see that in the SyncGroup response, and
        commit nothing until it arrives. Partitions that return are read from the last position, though others
        may have read further; here the consumer fetches the committed offset.
        """
        return self.instance_id is not None and generation > self.epoch + 1

    def _join_request(self) -> JoinGroupRequest:
        metadata = pack_subscription(
            self.subscribed, list(self.owned) if self.cooperative else [], self.epoch
        )
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(self.session_timeout_s * 1000),
            rebalance_timeout_ms=int(self.rebalance_timeout_s * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in self.assignors
            ],
        )

    async def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments = []
        generation, member_id = joined.generation_id, joined.member_id
        if self._leads and not joined.skip_assignment:
            members = [unpack_subscription(one.member_id, one.metadata) for one in joined.members]
            found = await self.topics(sorted({topic for member in members for topic in member.topics}))
            counts = {topic: count for topic, (_, count) in found.items()}
            assignments = [
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member_id, assignment=pack_assignment(partitions)
                )
                for member_id, partitions in assign(self._protocol, members, counts).items()
            ]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=assignments,
        )

    async def _apply_assignment(self, assignment: bytes) -> None:
        assigned = unpack_assignment(assignment)
        revoked = [partition for partition in self.owned if partition not in assigned]
        if revoked:  # only with the cooperative protocol; the others revoked everything before
            await self.commit_before_revocation()
            await self.before_revocation()
            self.release(revoked)
            self.rejoin = True
        self.claim(assigned)

    async def before_revocation(self) -> None:
        """Called before partitions are revoked; subclasses finish their work in it."""

    async def _fenced(self, code: int) -> None:
        """Abandons the generation and what belongs to it."""
        self.say("is fenced:", ErrorCode(code).name)
        self.epoch = NO_GENERATION
        self.rejoin = True
        if code != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        await self._lose_all()
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.die()

    async def _lose_all(self) -> None:
        await self.lost()
        self.release(self.owned, lost=True)

    async def lost(self) -> None:
        """Called when partitions are lost; subclasses undo their work in it."""

    async def _heartbeats(self) -> None:
        while True:
            await self.sleep(self.heartbeat_interval_s)
            if self.epoch == NO_GENERATION or self._joining or self.leaving:
                continue
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
            try:
                await self.find_coordinator(self.group, GROUP)
                answer = await self.ask(request)
                if (self.epoch, self.member_id) == (request.generation_id, request.member_id):
                    self.check(answer.error_code)
            except (RetryError, DisconnectedError) as error:
                if str(error) == ErrorCode.REBALANCE_IN_PROGRESS.name:
                    self.rejoin = True
            except FencedError as fenced:
                if not self._joining:
                    await self._fenced(fenced.code)

    async def _leave(self) -> None:
        if self.owned:
            await self.commit_before_revocation()
        await self.before_revocation()
        self.release(self.owned)
        if self.instance_id is None and self.member_id:
            try:
                await self.find_coordinator(self.group, GROUP)
                await self.ask(self._leave_request())
            except DisconnectedError:
                pass  # its session will expire
        self.die()

    def _leave_request(self) -> LeaveGroupRequest:
        if self.version(ApiKey.LEAVE_GROUP) < 3:
            return LeaveGroupRequest(group_id=self.group, member_id=self.member_id)
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None)
        return LeaveGroupRequest(group_id=self.group, members=[identity])
