"""The progress of an ingest, for Prometheus and for callers that wait for its end.

`Progress` keeps the numbers of batches; `listener` has Spark report them. The names of
the metrics begin with barnabas_pipeline_; `job` distinguishes several ingests of one machine.
"""

from __future__ import annotations

import json
import threading
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQueryListener

_PREFIX: Final = "barnabas_pipeline_"


class BatchProgress(NamedTuple):
    """The numbers of a batch."""

    batch_id: int
    rows: int
    duration_s: float
    rows_per_s: float
    at_s: float
    """Epoch seconds when the batch began."""
    lag: dict[tuple[str, int], int]
    """The lag of each partition in records, up to the end that Spark saw when it began the batch."""


class Progress:
    """The numbers of one job. Spark's listener calls it from a thread of its own."""

    def __init__(self, job: str, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.rows = 0
        self.batches = 0
        self.ended = threading.Event()
        """Set when Spark has reported everything."""
        self.port = 0
        """Where the metrics are served."""
        self._job = job
        self._rows = self._metric(Counter, "rows", "Records read from the topics")
        self._batches = self._metric(Counter, "batches", "Batches that are in the tables")
        self._quarantined = self._metric(
            Counter, "quarantined_records", "Records put into the quarantine", "reason"
        )
        self._lag = self._metric(
            Gauge, "lag_records", "Records between the table and the end of a partition", "topic", "partition"
        )
        self._batch_id = self._metric(Gauge, "batch_id", "The number of the newest batch")
        self._duration = self._metric(Gauge, "batch_duration_seconds", "How long the newest batch took")
        self._rate = self._metric(
            Gauge, "processed_rows_per_second", "Records of the newest batch by its time"
        )
        self._seen = self._metric(
            Gauge, "last_progress_timestamp_seconds", "When the newest batch began, in epoch seconds"
        )
        self._running = self._metric(Gauge, "running", "1 while the query runs")

    def _metric(self, kind: Any, name: str, text: str, *labels: str) -> Any:
        return kind(_PREFIX + name, text, ("job", *labels), registry=self.registry)

    def started(self) -> None:
        """Notes that the query runs."""
        self.ended.clear()
        self._running.labels(self._job).set(1)

    def progressed(self, batch: BatchProgress) -> None:
        """Counts a batch that is in the tables, or an empty one."""
        self.rows += batch.rows
        self.batches += batch.rows > 0
        self._rows.labels(self._job).inc(batch.rows)
        self._batches.labels(self._job).inc(batch.rows > 0)
        self._batch_id.labels(self._job).set(batch.batch_id)
        self._duration.labels(self._job).set(batch.duration_s)
        self._rate.labels(self._job).set(batch.rows_per_s)
        self._seen.labels(self._job).set(batch.at_s)
        for (topic, partition), records in batch.lag.items():
            self._lag.labels(self._job, topic, str(partition)).set(records)

    def quarantined(self, counts: Counts[str]) -> None:
        """Counts the records of a batch that went into the quarantine."""
        for reason, records in counts.items():
            self._quarantined.labels(self._job, reason).inc(records)

    def terminated(self) -> None:
        """Notes the end of the query, failed or not."""
        self._running.labels(self._job).set(0)
        self.ended.set()

    def serve(self, port: int) -> Callable[[], None]:
        """Serves GET /metrics on the port until the returned function is called."""
        try:
            server, thread = start_http_server(port, registry=self.registry)
        except OSError as error:
            raise OSError(
                error.errno, f"the metrics cannot be served on port {port}: {error.strerror}"
            ) from error
        self.port = server.server_port

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return close


def batch_progress(progress: Any, readings: int = 1) -> BatchProgress:
    """From Spark's StreamingQueryProgress of a batch that was read so many times: it counts the rows of each."""
    return BatchProgress(
        batch_id=progress.batchId,
        rows=progress.numInputRows // readings,
        duration_s=progress.durationMs.get("triggerExecution", 0) / 1000,
        rows_per_s=_number(progress.processedRowsPerSecond) / readings,
        at_s=datetime.fromisoformat(progress.timestamp).timestamp(),
        lag=dict(_lag(progress.sources)),
    )


def _number(value: float) -> float:
    return value if value == value else 0.0  # Spark says NaN where it had nothing to do  # noqa: PLR0124


def _lag(sources: Any) -> Iterator[tuple[tuple[str, int], int]]:
    for source in sources:
        ends, reached = _offsets(source.latestOffset), _offsets(source.endOffset)
        for place, end in ends.items():
            yield place, max(0, end - reached.get(place, 0))


def _offsets(text: str | None) -> dict[tuple[str, int], int]:
    """Parses the connector's JSON of offsets; other sources have other formats, which are ignored."""
    try:
        found = json.loads(text or "{}")
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in found.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        return {}


def listener(
    progress: Progress,
    query_name: str,
    on_progress: Callable[[BatchProgress], None] | None = None,
    readings: dict[int, int] | None = None,
) -> StreamingQueryListener:
    """For `spark.streams.addListener`: reports the query with that name to `progress`.

    `readings` has the batches that were read more than once; they are removed when Spark reports them.
    """
    from pyspark.sql.streaming import StreamingQueryListener as Base

    class Listener(Base):
        """Spark's events, those of one query."""

        def __init__(self) -> None:
            self._runs: set[str] = set()

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
            if event.name == query_name:
                self._runs.add(str(event.runId))
                progress.started()

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            if str(event.progress.runId) not in self._runs:
                return
            batch = batch_progress(event.progress, (readings or {}).pop(event.progress.batchId, 1))
            progress.progressed(batch)
            if on_progress is not None:
                on_progress(batch)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Does nothing: the last report still holds."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            if str(event.runId) in self._runs:
                progress.terminated()

    return Listener()
