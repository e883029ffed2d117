"""Brokers that may be ill-treated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of a module; in the end it must still be there, have nothing to regret, and stop."""
    with BrokerProcess(tmp_path_factory.mktemp("faults") / "data") as process:
        yield process
        assert process.stop() == 0, process.output
        assert "Traceback" not in process.output, process.output
