"""Quotas of changes to topics: how many partitions a client may create, delete and add (KIP-599).

    strict      no change while tokens are missing: THROTTLING_QUOTA_EXCEEDED. One may take more than there are.
    permissive  for clients that do not know that error: every change is made, and the client throttled for it

Source: ControllerMutationQuotaManager, StrictControllerMutationQuota, PermissiveControllerMutationQuota.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.quotas.client_quotas import ClientCounter
from barnabas.protocol.errors import ApiError, ErrorCode


class MutationQuota:
    """The quota of one request. `now_ms` is the clock of the counter, called when something is charged.

    A topic is charged once: where the controller has to decide again, the same is decided.
    """

    def __init__(self, counter: ClientCounter, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._counter = counter
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._allowed: dict[str, bool] = {}
        self._throttle_ms = 0
        self._since_ms = 0

    def charge(self, topic: str, partitions: int) -> None:
        """Charges a change of so many of the topic's partitions.

        Raises ApiError(THROTTLING_QUOTA_EXCEEDED) where it may not be made.
        """
        allowed = self._allowed.get(topic)
        if allowed is None:
            allowed = self._allowed[topic] = self._take(partitions)
        if not allowed:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def _take(self, partitions: int) -> bool:
        """Whether the change may be made, which is charged then."""
        bucket, limit, now_ms = self._counter.bucket, self._counter.limit, self._now_ms()
        assert bucket is not None, "a counter of another type of quota"
        if self._is_strict and bucket.tokens(limit, now_ms) < 0:
            self._throttle(bucket.throttle_time_ms(limit, now_ms), now_ms)
            return False
        self._counter.rate.record(partitions, now_ms)
        bucket.take(partitions, limit, now_ms)
        if not self._is_strict and bucket.tokens(limit, now_ms) < 0:
            self._throttle(bucket.throttle_time_ms(limit, now_ms), now_ms)
        return True

    def _throttle(self, throttle_ms: int, now_ms: int) -> None:
        self._throttle_ms = throttle_ms
        self._since_ms = now_ms

    def throttle_time_ms(self) -> int:
        """How long the client is throttled, less what has passed since the last charge."""
        return max(0, self._throttle_ms - (self._now_ms() - self._since_ms))
