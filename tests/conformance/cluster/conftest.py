"""One cluster for each layout, for as long as it can be put right, and what it did where a scenario failed."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.conformance.cluster.layouts import Layout, layouts
from tests.conformance.kafka_jars import require_classpath
from tests.support.cluster.rig import ClusterRig


class Rigs:
    """At most one running cluster: two of them would be too much for the processors."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._rig: ClusterRig | None = None
        self._is: tuple[Layout, int] | None = None
        self.errors: list[str] = []

    def get(self, layout: Layout, log_dirs: int = 1) -> ClusterRig:
        """The running cluster if it has this layout, else a new one."""
        if self._rig is None or self._is != (layout, log_dirs):
            self.drop()
            directory = self._factory.mktemp(f"cluster-{layout.brokers}")
            self._rig = ClusterRig(
                directory,
                layout.brokers,
                require_classpath(layout.version),
                controllers=layout.controllers,
                log_dirs=log_dirs,
            ).__enter__()
            self._is = layout, log_dirs
        return self._rig

    def put_right(self, rig: ClusterRig, layout: Layout) -> None:
        """Makes the cluster ready for the next scenario, or drops it."""
        try:
            rig.restore(layout.brokers)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Ends the cluster, if there is one."""
        if self._rig is not None:
            self._rig.close()
            self._rig = None


@pytest.fixture(scope="session")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rigs]:
    rigs = Rigs(tmp_path_factory)
    yield rigs
    rigs.drop()


@pytest.fixture(params=layouts(), ids=str)
def rig(request: pytest.FixtureRequest, rigs: Rigs) -> Iterator[ClusterRig]:
    """A cluster that runs, in which all replicas are in sync."""
    yield from lent(rigs, request, log_dirs=1)


@pytest.fixture(params=layouts(), ids=str)
def jbod(request: pytest.FixtureRequest, rigs: Rigs) -> Iterator[ClusterRig]:
    """The same with two log directories in each broker."""
    yield from lent(rigs, request, log_dirs=2)


def lent(rigs: Rigs, request: pytest.FixtureRequest, log_dirs: int) -> Iterator[ClusterRig]:
    """A cluster for one test, put right after it."""
    rig = rigs.get(request.param, log_dirs)
    rig.note(f"==== {request.node.name}")
    request.node.stash[RIG] = rig
    yield rig
    rigs.put_right(rig, request.param)


RIG = pytest.StashKey[ClusterRig]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the timeline and the logs to the report of a failed scenario."""
    report = yield
    if report.failed and (rig := item.stash.get(RIG, None)) is not None:
        report.sections.append(("cluster", rig.report()))
    return report
