from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.config.alteration import AlterOperation, altered, split

SET, DELETE, APPEND, SUBTRACT = AlterOperation


@pytest.mark.parametrize(
    ("operation", "current", "text", "default", "result"),
    [
        (SET, "a", "b", "c", "b"),
        (SET, None, "", "c", ""),
        (DELETE, "a", None, "c", None),
        (DELETE, None, "x", "c", None),
        (APPEND, "a", "b", "c", "a,b"),
        (APPEND, None, "b", "c", "c,b"),
        (APPEND, None, "b", None, "b"),
        (APPEND, "", "b", "c", "b"),
        (APPEND, "a,b", "b,a", None, "a,b"),
        (APPEND, "a", "b,b", None, "a,b"),
        (APPEND, "a", "", None, "a,"),
        (APPEND, "a", ",", None, "a"),
        (APPEND, "a", "b,", None, "a,b"),
        (APPEND, "a", " a", None, "a, a"),
        (SUBTRACT, "a,b", "a", None, "b"),
        (SUBTRACT, "a,a,b", "a", None, "a,b"),
        (SUBTRACT, "a", "a", "c", ""),
        (SUBTRACT, None, "c", "c", ""),
        (SUBTRACT, "a,b", "x", None, "a,b"),
        (SUBTRACT, None, "x", None, ""),
    ],
)
def test_values_after_operations(
    operation: AlterOperation, current: str | None, text: str | None, default: str | None, result: str | None
) -> None:
    assert altered(operation, current, text, default) == result


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, []),
        ("", [""]),
        ("a", ["a"]),
        (",", []),
        ("a,,", ["a"]),
        (",a", ["", "a"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_parts_are_those_of_java(text: str | None, parts: list[str]) -> None:
    assert split(text) == parts


WORDS = st.sampled_from("abcde")
OPERATIONS = st.lists(st.tuples(st.sampled_from([APPEND, SUBTRACT]), st.lists(WORDS, min_size=1, max_size=3)))


@settings(deadline=None)
@given(st.lists(WORDS, unique=True, min_size=1), OPERATIONS)
def test_lists_without_repetition_follow_a_model_of_ordered_sets(
    default: list[str], operations: list[tuple[AlterOperation, list[str]]]
) -> None:
    model = list(default)
    value: str | None = None
    for operation, words in operations:
        value = altered(operation, value, ",".join(words), ",".join(default))
        if operation is APPEND:
            model += [word for word in dict.fromkeys(words) if word not in model]
        else:
            model = [word for word in model if word not in words]
        assert value == ",".join(model)
