from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from barnabas.cli.admin.shapes import ROWS, TopicRow, camel_case, json_object, type_name


def test_json_objects() -> None:
    row = TopicRow("t", "id", False, 1, None, None, None)
    assert list(json_object(row)) == [
        *(
            "type",
            "topic",
            "topicId",
            "isInternal",
            "partitionCount",
            "replicationFactor",
            "configs",
            "partitions",
        )
    ]
    assert camel_case("a_b_cd") == "aBCd"


@pytest.mark.parametrize("row", ROWS)
def test_each_field_of_each_shape_is_described(row: type[Any]) -> None:
    assert row.__doc__
    assert type_name(row) == row.__name__[0].lower() + row.__name__[1:-3]
    for field, hint in get_type_hints(row, include_extras=True).items():
        assert get_origin(hint) is Annotated, f"{field} of {row.__name__} is not explained"
        assert get_args(hint)[1]
