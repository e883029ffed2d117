"""The limits of the session cache, and its evictions."""

from __future__ import annotations

from barnabas.broker.fetch.cache import EVICTION_MS, FetchSessionCache
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.session import NO_SESSION
from barnabas.protocol.errors import ErrorCode
from tests.broker.fetch.readers import Reader, keys


def test_a_full_cache_gives_newcomers_full_fetches() -> None:
    reader = Reader(slots=1)
    first = reader.begin(("a", 0), ("a", 1))
    assert reader.begin(("b", 0), ("b", 1), ("b", 2)) == NO_SESSION
    assert reader.cache.get(first) is not None
    assert Reader(slots=0).begin(("a", 0)) == NO_SESSION


def test_a_reader_of_more_partitions_than_fit_gets_full_fetches() -> None:
    reader = Reader(max_partitions=4)
    first = reader.begin(("a", 0), ("a", 1))
    assert reader.begin(("b", 0), ("b", 1), ("b", 2)) == NO_SESSION
    second = reader.begin(("b", 0), ("b", 1))
    assert reader.cache.partition_count() == 4
    reader.clock.ms += EVICTION_MS + 1
    reader.context(second, 1, forgotten=[("b", 1)])
    assert reader.begin(*(("c", number) for number in range(5))) == NO_SESSION  # evicts no session
    assert (len(reader.cache), reader.cache.partition_count()) == (2, 3)
    assert reader.begin(("c", 0), ("c", 1), ("c", 2)) != NO_SESSION
    assert (reader.cache.get(first), reader.cache.get(second) is None) == (None, False)
    assert reader.cache.partition_count() == 4


def test_a_session_that_grows_beyond_the_limit_is_closed() -> None:
    reader = Reader(max_partitions=4)
    other = reader.begin(("a", 0))
    growing = reader.begin(("b", 0), ("b", 1))
    assert keys(reader.context(growing, 1, [("b", 2)])) == [("b", 0), ("b", 1), ("b", 2)]
    assert reader.context(growing, 2, [("b", 3)]).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (reader.cache.get(growing), reader.cache.get(other) is None) == (None, False)
    assert reader.cache.partition_count() == 1


def test_an_id_that_is_in_use_or_reserved_is_drawn_again() -> None:
    drawn = iter([0, 5, 0, 5, 6])
    cache = FetchSessionCache(10, lambda: next(drawn))
    reader = Reader()
    reader.manager = FetchManager(cache, reader.clock)
    assert [reader.begin(("a", 0)), reader.begin(("a", 0))] == [5, 6]


def test_an_idle_session_is_evicted() -> None:
    reader = Reader(slots=2)
    unused = reader.begin(("a", 0), ("a", 1), ("a", 2), is_follower=1)
    used = reader.begin(("b", 0))
    reader.clock.ms += EVICTION_MS
    reader.context(used, 1)
    assert reader.begin(("c", 0)) == NO_SESSION  # not long enough yet
    reader.clock.ms += 1
    assert reader.begin(("c", 0)) != NO_SESSION
    assert (reader.cache.get(unused), reader.cache.get(used) is None) == (None, False)
    assert reader.cache.eviction_count == 1


def test_a_larger_reader_evicts_a_smaller_one_after_its_time() -> None:
    reader = Reader(slots=2)
    small = reader.begin(("a", 0), ("a", 1))
    large = reader.begin(("b", 0), ("b", 1), ("b", 2))
    reader.clock.ms += EVICTION_MS + 1
    for session_id in (small, large):
        reader.context(session_id, 1)
    assert reader.begin(("c", 0), ("c", 1)) == NO_SESSION  # no larger than the smallest
    assert reader.begin(("c", 0), ("c", 1), ("c", 2)) != NO_SESSION
    assert (reader.cache.get(small), reader.cache.get(large) is None) == (None, False)


def test_a_follower_evicts_any_consumer_and_a_consumer_no_follower() -> None:
    reader = Reader(slots=1)
    consumer = reader.begin(("a", 0), ("a", 1), ("a", 2))
    follower = reader.begin(("b", 0), is_follower=1)
    assert follower != NO_SESSION
    assert reader.cache.get(consumer) is None
    assert reader.begin(("c", 0), is_follower=1) == NO_SESSION
    reader.clock.ms += EVICTION_MS + 1
    reader.context(follower, 1)
    assert reader.begin(("c", 0), ("c", 1), ("c", 2)) == NO_SESSION
