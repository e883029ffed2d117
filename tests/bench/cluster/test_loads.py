"""Tests the rows of clients, without any."""

from __future__ import annotations

import pytest

from bench.cluster.figures import Group
from bench.cluster.loads import LOADS, WARM_UPS, by_role
from bench.cluster.measuring import Used
from bench.side_by_side.job import Job
from bench.side_by_side.workers.__main__ import WORKERS


def test_rows_have_workers_that_exist_and_names_of_their_own() -> None:
    assert {job.kind for row in (*LOADS, *WARM_UPS) for job in row.team} <= set(WORKERS)
    assert len({row.name for row in (*LOADS, *WARM_UPS)}) == len(LOADS) + len(WARM_UPS)


def test_all_producers_wait_for_all_replicas_and_connect_before_they_are_measured() -> None:
    for row in LOADS:
        writers = [job for job in row.team if job.kind != "receive-paced"]
        assert all(job.acks == "all" and job.connects for job in writers), row.name


def test_roles_are_charged_where_one_broker_leads_all_partitions() -> None:
    for row in LOADS:
        leaders = {replicas[0] for replicas in row.assignment.values()}
        assert leaders == ({1} if row.group is Group.CPU else {1, 2, 3}), row.name
        assert {len(replicas) for replicas in row.assignment.values()} == {row.replication_factor}


def test_a_follower_is_charged_the_mean_of_all() -> None:
    used = Used({1: 3.0, 2: 1.0, 3: 2.0, 101: 9.0}, clients=0.0, others=0.0)
    assert by_role(used, 1_000_000) == {"leader_us": pytest.approx(3.0), "follower_us": pytest.approx(1.5)}


def test_the_partitions_of_all_jobs_are_those_of_the_topic() -> None:
    for row in LOADS:
        assert {job.partitions for job in row.team} == {row.partitions}
    assert Job().connects is False, "the rows of one broker are measured as before"
