"""Each API under each set of ACLs, on Apache Kafka and on Barnabas: the responses are the same.

The usual run has the more telling sets, in each request's last version; with the marker `slow` (-m slow) it has all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.broker.kafka_apis.api_checks import API_CHECKS
from barnabas.protocol.api_keys import ApiKey
from tests.conformance.authorization.grants import grants
from tests.conformance.authorization.matrix import Matrix
from tests.conformance.authorization.requests import REQUESTS, cases

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """Both brokers with the ACLs of all tests here."""
    sets = [(key, grant) for key in REQUESTS for grant in grants(key, all_of_them=True)]
    running = Matrix(tmp_path_factory.mktemp("matrix"), sets)
    yield running
    running.kill()


def differences(matrix: Matrix, key: ApiKey, *, everything: bool) -> list[str]:
    found = []
    for grant in grants(key, all_of_them=everything):
        for number, make, version in cases(key, every_version=everything):
            kafka, ours = matrix.compare(key, grant.name, make, version)
            if kafka != ours:
                found.append(
                    f"{key.title} v{version}, request {number}, ACLs {grant.name}:\n  {kafka}\n  {ours}"
                )
    return found


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.title)
def test_what_is_denied_is_denied_alike(matrix: Matrix, key: ApiKey) -> None:
    found = differences(matrix, key, everything=False)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.title)
def test_every_version_under_every_set_of_acls(matrix: Matrix, key: ApiKey) -> None:
    found = differences(matrix, key, everything=True)
    assert not found, "\n".join(found)


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
