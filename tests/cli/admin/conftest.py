from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.settings import ClientSettings, parse_bootstrap
from barnabas.cli.main import main
from tests.cli.admin.fake_broker import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(ClientSettings(parse_bootstrap(cluster.bootstrap))) as client:
        yield client


@pytest.fixture
def barnabas(cluster: FakeCluster) -> Callable[..., Result]:
    """Runs `barnabas WORDS` against the fake cluster."""

    def run(*words: str, **environ: str) -> Result:
        result = CliRunner().invoke(
            main,
            list(words),
            env={"BARNABAS_BOOTSTRAP_SERVER": cluster.bootstrap, **environ},
            catch_exceptions=False,
        )
        assert "Traceback" not in result.output
        return result

    return run
