from __future__ import annotations

import pytest

from barnabas.cli.admin.errors import ServerError, check, code_name
from barnabas.protocol.errors import ErrorCode


def test_errors_name_the_cause() -> None:
    assert str(ServerError(ErrorCode.INVALID_PARTITIONS, "Too few.")) == "Too few (INVALID_PARTITIONS)"
    assert str(ServerError(ErrorCode.INVALID_PARTITIONS, about="t")).startswith("t: ")
    assert code_name(999) == "error 999"
    assert str(ServerError(999)) == "The broker answered with error 999 (error 999)"
    check(0)
    with pytest.raises(ServerError):
        check(ErrorCode.UNKNOWN_SERVER_ERROR)
