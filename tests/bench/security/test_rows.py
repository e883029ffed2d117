"""Tests the rows, and that their clients are let in by a broker of ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.security.command import start
from bench.security.contestants import Secured, contestants
from bench.security.rows import ROWS, Row
from bench.side_by_side.workers.__main__ import WORKERS
from bench.side_by_side.workloads import Fill

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    (ours,) = contestants(tmp_path_factory.mktemp("stores"), with_kafka=False)
    try:
        start(ours)
        yield ours
    finally:
        ours.remove()


def test_rows_have_workers_that_exist_and_names_of_their_own() -> None:
    assert {job.kind for row in ROWS for job in row.team} <= set(WORKERS)
    assert len({row.name for row in ROWS}) == len(ROWS)


def briefly(row: Row) -> Row:
    team = tuple(
        replace(
            job,
            seconds=min(job.seconds, 0.5),
            count=min(job.count, 20 if job.kind == "stay" else 200),
            least_s=0.1,
        )
        for job in row.team
    )
    return replace(row, team=team, fill=row.fill and Fill(1000))


@pytest.mark.parametrize(
    "name", ["tls-consume", "acl-small", "quota-small", "log-in-resumed", "log-in-scram-tls", "idle-tls"]
)
def test_clients_are_let_in(broker: Secured, name: str) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    figures = briefly(row).measure(broker, 1.0)
    assert figures.get("missing", 0.0) == 0.0
    assert figures.get("rate", 1.0) > 0


def test_the_memory_of_a_broker_with_idle_connections_is_that_of_all_of_it(broker: Secured) -> None:
    """Also where an earlier round has left it the memory that they need."""
    (row,) = (row for row in ROWS if row.name == "idle-tls")
    measured = [briefly(row).measure(broker, 1.0)["mib"] for _ in range(2)]
    assert min(measured) > 20
    assert measured[1] > measured[0] / 2


def test_who_has_no_rights_is_not_measured(broker: Secured) -> None:
    (row,) = (row for row in ROWS if row.name == "acl-small")
    with pytest.raises(Exception, match=r"(?i)authorization"):
        briefly(replace(row, name="0-not-allowed")).measure(broker, 1.0)
