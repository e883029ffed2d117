"""Each API under each set of ACLs, on Apache Kafka and on Barnabas: the responses are the same.

Each run has the more telling sets, in each request's last version. With the marker `slow` (-m slow, as in make
conformance) it draws as many of all sets and versions as BARNABAS_MATRIX_CASES says, for each API; 0 is all of them,
which takes a quarter of an hour.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import product

import pytest

from barnabas.broker.kafka_apis.api_checks import API_CHECKS
from barnabas.protocol.api_keys import ApiKey
from tests.conformance.authorization.grants import Grant, grants
from tests.conformance.authorization.matrix import Matrix
from tests.conformance.authorization.requests import REQUESTS, Make, cases
from tests.support.chance import seed_or

pytestmark = pytest.mark.conformance

CASES = int(os.environ.get("BARNABAS_MATRIX_CASES", "40"))
"""Of an API in the run that draws them; 0 for all."""
Case = tuple[Grant, tuple[int, Make, int]]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """Both brokers with the ACLs of all tests here."""
    sets = [(key, grant) for key in REQUESTS for grant in grants(key, all_of_them=True)]
    running = Matrix(tmp_path_factory.mktemp("matrix"), sets)
    yield running
    running.kill()


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """Both brokers without ACLs, and with allow.everyone.if.no.acl.found."""
    running = Matrix(tmp_path_factory.mktemp("open"), None)
    yield running
    running.kill()


def drawn(key: ApiKey) -> list[Case]:
    """Sets of ACLs, and requests in versions."""
    everything = list(product(grants(key, all_of_them=True), cases(key, every_version=True)))
    if not 0 < CASES < len(everything):
        return everything
    return random.Random(f"{seed_or(1)} {key.name}").sample(everything, CASES)


def differences(matrix: Matrix, key: ApiKey, chosen: list[Case]) -> list[str]:
    found = []
    for grant, (number, make, version) in chosen:
        kafka, ours = matrix.compare(key, grant.name, make, version)
        if kafka != ours:
            found.append(f"{key.title} v{version}, request {number}, ACLs {grant.name}:\n  {kafka}\n  {ours}")
    return found


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.title)
def test_what_is_denied_is_denied_alike(matrix: Matrix, key: ApiKey) -> None:
    chosen = list(product(grants(key, all_of_them=False), cases(key, every_version=False)))
    found = differences(matrix, key, chosen)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.title)
def test_every_version_under_every_set_of_acls(matrix: Matrix, key: ApiKey) -> None:
    found = differences(matrix, key, drawn(key))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.title)
def test_while_there_are_no_acls_everyone_may_do_everything(open_to_all: Matrix, key: ApiKey) -> None:
    for number, make, version in cases(key, every_version=False):
        kafka, ours = open_to_all.compare(key, "", make, version)
        assert kafka == ours, number


def test_every_api_with_checks_is_in_the_matrix() -> None:
    untested = {
        *(ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER),  # a node that is alone does not serve them
        *(
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ),  # test_delegation_tokens: with logins
    }
    with_checks = {key for key, row in API_CHECKS.items() if row.gates or row.checks}
    assert with_checks - untested == REQUESTS.keys()
