"""What is measured: each row is a team of workers at one listener of one broker."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bench import accounting
from bench.cluster.figures import Figure
from bench.security import administration
from bench.security.contestants import ROOT, USER, Secured
from bench.side_by_side import crew
from bench.side_by_side.job import Job, Settings
from bench.side_by_side.rounds import figures_of
from bench.side_by_side.workloads import READERS, Fill, paced, scaled_job

_PATIENCE_S: Final = 120.0
_NO_LIMIT: Final = 1e12
_SETTLE_S: Final = 1.0


class Group(StrEnum):
    """A table; the values are the titles."""

    RECORDS = "Records over TLS 1.3, of a user with ACLs, and of one with a quota"
    LOGINS = "Handshakes and logins"
    OTHERS = "What others notice"


_RATE: Final = (Figure("rate", "a second", 0), Figure("cpu_us", "processor time of the broker, us each"))
SHOWN: Final[Mapping[Group, tuple[Figure, ...]]] = {
    Group.RECORDS: _RATE,
    Group.LOGINS: _RATE,
    Group.OTHERS: (
        Figure("p50_ms", "p50, ms", 2),
        Figure("p99_ms", "p99, ms", 2),
        Figure("mib", "resident memory of the broker, MiB", 0),
    ),
}


@dataclass(frozen=True)
class Row:
    """One row: its jobs, the listener of the first one's kind and the user who logs in there.

    Jobs of another kind are let in by PLAINTEXT, unless they have settings of their own.
    """

    name: str
    title: str
    group: Group
    team: tuple[Job, ...]
    listener: str = ""
    user: str = USER
    settings: Settings | None = None
    """More settings of the clients."""
    fill: Fill | None = None
    has_quota: bool = False

    def measure(self, broker: Secured, scale: float) -> dict[str, float]:
        """The figures of one measurement."""
        jobs = [self._bound(scaled_job(job, scale), broker) for job in self.team]
        topic = None
        if self.fill is not None:
            source = broker.filled(replace(self.fill, count=max(round(self.fill.count * scale), 1000)))
            firsts, ends = broker.offsets(source, self.fill.partitions)
            jobs = [replace(job, topic=source, firsts=firsts, ends=ends) for job in jobs]
        elif any(job.kind not in _WITHOUT_TOPIC for job in jobs):
            topic = f"{self.name}-{time.time_ns()}"
            partitions = max(job.partitions for job in jobs if job.kind not in _WITHOUT_TOPIC)
            broker.create(topic, partitions)
            ends = [0] * partitions
            jobs = [replace(job, topic=topic, ends=ends) for job in jobs]
        try:
            return self._figures(jobs, broker)
        finally:
            if topic is not None:
                broker.delete(topic)

    def _bound(self, job: Job, broker: Secured) -> Job:
        """The job at the listener that it is for."""
        if self.listener and job.kind == self.team[0].kind:
            settings = {**broker.settings(self.listener, self.user), **job.settings, **(self.settings or {})}
            job = replace(job, settings=settings)
        elif "listener" in job.settings:
            more = {name: value for name, value in job.settings.items() if name != "listener"}
            job = replace(job, settings={**broker.settings(str(job.settings["listener"])), **more})
        return replace(job, bootstrap=broker.broker.bootstrap)

    def _figures(self, jobs: Sequence[Job], broker: Secured) -> dict[str, float]:
        if self.team[0].kind == "stay":
            return _memory(jobs, broker)
        if self.has_quota:
            with administration.connection(broker.broker.bootstrap) as connection:
                administration.set_quota(connection, self.user, _NO_LIMIT)
                try:
                    return figures_of(jobs, crew.measure(jobs, broker.pid, _PATIENCE_S))
                finally:
                    administration.set_quota(connection, self.user, None)
        return figures_of(jobs, crew.measure(jobs, broker.pid, _PATIENCE_S))


_WITHOUT_TOPIC: Final = frozenset({"log-in", "stay", *READERS})


def _memory(jobs: Sequence[Job], broker: Secured) -> dict[str, float]:
    """The memory of the whole broker while connections are there that do nothing.

    Not its growth: an allocator keeps the memory of the connections of earlier rounds, and uses it again.
    """
    with crew.Crew(jobs, _PATIENCE_S) as team:
        team.go()
        time.sleep(jobs[0].seconds)  # they are there, and leave when the time is over
        held = accounting.rss_mib(broker.pid)
        team.outcomes()
    time.sleep(_SETTLE_S)
    return {"mib": held}


def _log_ins(name: str, title: str, listener: str, **settings: str) -> Row:
    job = Job("log-in", seconds=3, clients=4)
    return Row(f"log-in-{name}", title, Group.LOGINS, (job, job), listener, settings=settings)


def _small(name: str, title: str, listener: str, **more: bool | str) -> Row:
    job = Job("one-each", size=200, acks="1", seconds=3, clients=8)
    return Row(name, title, Group.RECORDS, (job, job), listener, **more)  # type: ignore[arg-type]  # of its fields


def _beside(name: str, title: str, rate: float = 0.0, **settings: str) -> Row:
    """Records from producer to consumer, beside clients that connect so often."""
    others = (Job("log-in", rate=rate, clients=16, seconds=4, settings=settings),) if rate else ()
    return Row(name, title, Group.OTHERS, (*paced("", "", 500, 4).team, *others))


ROWS: Final[tuple[Row, ...]] = (
    Row(
        "tls-produce",
        "produce over TLS, 1 KiB in batches",
        Group.RECORDS,
        (Job("produce", count=200_000),),
        "ECDSA",
    ),
    Row(
        "tls-consume",
        "consume over TLS, 1 KiB",
        Group.RECORDS,
        (Job("consume"),),
        "ECDSA",
        fill=Fill(200_000),
    ),
    _small("tls-small", "produce over TLS, 200 B a request, 16 producers", "ECDSA"),
    _small("login-small", "the same after a login, of a super user", "LOGIN", user=ROOT),
    _small("acl-small", "the same of a user with ACLs, beside 10,000 of others", "LOGIN"),
    _small("quota-small", "the same with a quota that is never reached", "LOGIN", has_quota=True),
    _log_ins("ecdsa", "TLS 1.3, ECDSA P-256", "ECDSA"),
    _log_ins("resumed", "TLS 1.3, resumed", "ECDSA", resumes="yes"),
    _log_ins("rsa", "TLS 1.3, RSA-2048", "RSA"),
    _log_ins("plain", "PLAIN", "LOGIN", **{"sasl.mechanism": "PLAIN"}),
    _log_ins("scram", "SCRAM-SHA-512", "LOGIN"),
    _log_ins("scram-tls", "SCRAM-SHA-512 over TLS 1.3, ECDSA P-256", "TLSLOGIN"),
    _beside("beside-nothing", "500 records a second, one by one"),
    _beside(
        "beside-reconnects",
        "the same beside 1,000 logins by PLAIN a second",
        1000,
        listener="LOGIN",
        **{"sasl.mechanism": "PLAIN"},
    ),
    _beside("beside-logins", "the same beside 500 logins by SCRAM a second", 500, listener="LOGIN"),
    _beside("beside-handshakes", "the same beside 200 handshakes of TLS a second", 200, listener="ECDSA"),
    Row(
        "idle-tls",
        "1,000 idle connections over TLS",
        Group.OTHERS,
        (Job("stay", count=1000, seconds=5),),
        "ECDSA",
    ),
)
