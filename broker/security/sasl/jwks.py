"""ProviderKeys: the keys of an identity provider as they are now, and when to fetch them again.

No I/O: `fetch` is given, and who calls `refresh` runs it in a thread. What is fetched but is no set of keys counts as a
failure, and a failure keeps the keys that there are.

| when | then |
| --- | --- |
| sasl.oauthbearer.jwks.endpoint.refresh.ms have passed since the last fetch began | fetch |
| a token names a key that is not known | fetch now, but once a minute for one kid |
| a fetch fails | again after retry.backoff.ms, then twice as long, for retry.backoff.max.ms in all; then as above |

Of kids that are not known 16 are remembered, and those of more than 1000 characters have no effect. A flood of tokens
with new kids would have this broker ask the provider all the time, since 16 are soon forgotten; so there are
MIN_INTERVAL_MS between two early fetches, whatever their kids (Kafka has no such limit).

Source: org.apache.kafka.common.security.oauthbearer.internals.secured.RefreshingHttpsJwks, Retry.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.security.errors import ProviderError
from barnabas.security.json_web_keys import JsonWebKeys, JsonWebKeysError, parse_keys

logger = logging.getLogger("barnabas.security")

KEY_ID_INTERVAL_MS: Final = 60_000
"""Between two early fetches for the same unknown kid."""
MIN_INTERVAL_MS: Final = 1_000
"""Between two early fetches for any."""
REMEMBERED_KEY_IDS: Final = 16
MAX_KEY_ID_CHARACTERS: Final = 1000


class RefreshTimes(NamedTuple):
    """sasl.oauthbearer.jwks.endpoint.*: all in ms. `refresh_ms` 0: fetched once, as a file's keys are."""

    refresh_ms: int = 3_600_000
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000


class ProviderKeys:
    """The keys of one set. Lives on the event loop, but for `fetch_now`, `current` and `missed`: for any thread."""

    def __init__(
        self, url: str, fetch: Callable[[], bytes], times: RefreshTimes, now_ms: Callable[[], int]
    ) -> None:
        """`fetch` raises ProviderError; `now_ms` is a clock that never goes back. `refresh` has to come first."""
        self.url = url
        self.current = JsonWebKeys(())
        self.fetched_ms: int | None = None
        """When the current keys were fetched."""
        self.failures = 0
        self.wanted: Callable[[], object] | None = None
        """Called when the keys should be fetched earlier than planned, by any thread."""
        self._fetch = fetch
        self._times = times
        self._now_ms = now_ms
        self._lock = threading.Lock()  # of what `missed` changes
        self._missed: OrderedDict[str, int] = OrderedDict()  # the moments from which to ask for them again
        self._early_from_ms = 0
        self._failing_since_ms: int | None = None
        self._backoff_ms = 0

    def age_ms(self) -> int | None:
        """How old the keys are; None where there never were any."""
        return None if self.fetched_ms is None else self._now_ms() - self.fetched_ms

    # ---- fetching

    def fetch_now(self) -> JsonWebKeys:
        """What the provider has; may wait, and changes nothing here. Raises ProviderError."""
        try:
            return parse_keys(self._fetch())
        except JsonWebKeysError as error:
            raise ProviderError(f"what {self.url} returns cannot be used: {error}") from None

    def fetched(self, keys: JsonWebKeys) -> int | None:
        """They are the current keys now. Returns the ms until the next fetch; None: never."""
        self.current = keys
        self.fetched_ms = self._now_ms()
        self._failing_since_ms = None
        with self._lock:
            for key_id in keys.key_ids:
                if key_id is not None:
                    self._missed.pop(key_id, None)
        return self._times.refresh_ms or None

    def failed(self, error: ProviderError) -> int | None:
        """A fetch has failed. Returns the ms until the next one; None: never."""
        self.failures += 1
        now_ms = self._now_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
            self._backoff_ms = self._times.backoff_ms
        else:
            self._backoff_ms *= 2
        left_ms = self._failing_since_ms + self._times.backoff_max_ms - now_ms
        if left_ms > 0 and self._backoff_ms > 0:
            return min(self._backoff_ms, left_ms)
        self._failing_since_ms = None
        logger.error("the keys of the identity provider cannot be fetched, the old ones stay: %s", error)
        return self._times.refresh_ms or None

    # ---- unknown keys

    def missed(self, key_id: str | None) -> None:
        """A token names a key that is not known: perhaps the provider has a new one."""
        if self.wanted is not None and self._times.refresh_ms and self._may_ask(key_id):
            self.wanted()

    def _may_ask(self, key_id: str | None) -> bool:
        if key_id is None or len(key_id) > MAX_KEY_ID_CHARACTERS:
            return False
        with self._lock:
            now_ms = self._now_ms()
            if now_ms < self._missed.get(key_id, 0) or now_ms < self._early_from_ms:
                return False
            self._missed[key_id] = now_ms + KEY_ID_INTERVAL_MS
            self._missed.move_to_end(key_id)
            if len(self._missed) > REMEMBERED_KEY_IDS:
                self._missed.popitem(last=False)
            self._early_from_ms = now_ms + MIN_INTERVAL_MS
            return True
