from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barnabas.cli.admin.errors import NotReachableError
from tests.support.cluster.waiting import NeverHappenedError, wait_for, wait_until


def one_after_the_other(*answers: object) -> Callable[[], object]:
    left: Iterator[object] = iter(answers)

    def look() -> object:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look


def test_the_first_answer_counts() -> None:
    look = one_after_the_other(None, False, OSError("gone"), NotReachableError("nobody"), 0, 7)
    assert wait_for("a number", look) == 0


def test_what_never_happens_is_reported_with_the_last_problem() -> None:
    def fail() -> None:
        raise ConnectionRefusedError("closed")

    with pytest.raises(NeverHappenedError, match=r"a leader \(ConnectionRefusedError\('closed'\)\)"):
        wait_for("a leader", fail, 0)


def test_other_errors_are_errors() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for("a number", lambda: 1 // 0)


def test_something_missing_is_waited_for() -> None:
    wait_until("all there", one_after_the_other({1}, [2], {}))
    with pytest.raises(NeverHappenedError, match=r"missing: \{1\}"):
        wait_until("all there", lambda: {1}, 0)
