"""The options of an export, checked here before Spark starts: an invalid one raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from barnabas.pipeline.ingest.options import TableFormat, Trigger, check_metrics_port

Delivery = Literal["at-least-once", "exactly-once"]
MAX_FILES: Final = 100


@dataclass(frozen=True)
class ExportOptions:
    """One export: this table into this topic, with its progress in this checkpoint.

    The table has a column `value` (binary or string), and may have `key`, `headers`, `topic`, `partition`, `offset`
    and `timestamp` as ingests make them. Without `topic` records go to the one that their row names. `max_files` bounds
    a batch (default: MAX_FILES), which an interrupted run repeats with at-least-once; the trigger once takes everything
    in a single batch. `keep_partitions` sends each record to the partition that its row names. `kafka` goes to the
    producers: names of Kafka's clients, with or without "kafka.".
    """

    bootstrap: str
    table: str
    checkpoint: str
    topic: str = ""
    table_format: TableFormat = "parquet"
    delivery: Delivery = "at-least-once"
    trigger: Trigger = "available-now"
    every_s: float = 10.0
    max_files: int | None = None
    keep_partitions: bool = False
    metrics_port: int | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("bootstrap", "table", "checkpoint"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}: {', '.join(allowed)} are known")
        if self.delivery == "exactly-once" and not self.topic:
            raise ValueError("an export in transactions goes to one topic: name it")
        for name in ("every_s", "max_files"):
            given = getattr(self, name)
            if given is not None and not 0 < given < math.inf:
                raise ValueError(f"{name} is {given}, and has to be finite and more than 0")
        check_metrics_port(self.metrics_port)
        if self.trigger == "once" and self.max_files is not None:
            raise ValueError(
                f"max_files is {self.max_files}, and the trigger once takes all there is in one batch: available-now "
                "has batches that are bounded"
            )

    @property
    def files_per_batch(self) -> int:
        """The most files in a batch. Spark does not ask with the trigger once."""
        return self.max_files or MAX_FILES

    def client_settings(self) -> dict[str, str]:
        """The settings for Kafka's clients, without the connector's prefix."""
        return {key.removeprefix("kafka."): value for key, value in self.kafka.items()}


_CHOICES: Final = {
    "table_format": get_args(TableFormat),
    "trigger": get_args(Trigger),
    "delivery": get_args(Delivery),
}
