"""ObservedImage: the image of what an observed log commits, from catching up to one change after the other.

    phase          | ends when
    ---------------+--------------------------------------------------------------------------------------------
    catching up    | the image holds all below the high watermark that a leader has stated, and something at all;
                   | nothing is published before, since it would be an old state of the cluster
    publishing     | never: each image goes to the MetadataLoader, the next one when that has been published

Records are read and replayed in a thread, so that neither a large snapshot nor a long backlog holds the loop up.
Source: org.apache.kafka.image.loader.MetadataLoader.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.image_difference import difference
from barnabas.broker.metadata.log_replay import NO_TIMESTAMP
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.replay import MetadataReplay
from barnabas.broker.waiting.blocking import BlockingRunner

Publish = Callable[[MetadataImage, MetadataDelta, Callable[[], None]], None]
"""Publishes an image, the first one with everything as its delta; then calls the function."""


class ObservedImage:
    """Replays one observed log. Lives on the event loop."""

    def __init__(
        self,
        raft: RaftLog,
        runner: BlockingRunner,
        leader_high_watermark: Callable[[], int | None],
        publish: Publish,
        failed: Callable[[str], object],
    ) -> None:
        """`failed` is called with the reason where records cannot be replayed: nothing is published after that."""
        self.image = MetadataImage.empty()
        """The newest image, published or not."""
        self.published = MetadataImage.empty()
        """The newest image that all publishers have applied: its offset is the one to report to the controller."""
        self.published_timestamp_ms = NO_TIMESTAMP
        """When the controller wrote the last record of that; it writes one every half second or so."""
        self.loaded_snapshots = 0
        self.load_errors = 0
        self.is_caught_up = False
        self._raft = raft
        self._runner = runner
        self._leader_high_watermark = leader_high_watermark
        self._publish = publish
        self._failed = failed
        self._is_busy = False
        self._has_news = False
        self._restarts = True
        """Whether the next replay begins with the latest snapshot."""

    def replaced(self) -> None:
        """A snapshot has taken the place of the log."""
        self._restarts = True
        self.progressed()

    def progressed(self) -> None:
        """The high watermark may have moved."""
        self._has_news = True
        if not self._is_busy:
            self._replay()

    def _replay(self) -> None:
        self._is_busy, self._has_news = True, False
        restarts, self._restarts = self._restarts, False
        base = self.image
        result = base, MetadataDelta()

        def work() -> None:
            nonlocal result
            result = self._restarted() if restarts else self._continued(base)

        def done(error: BaseException | None) -> None:
            if error is None:
                self._replayed(*result)
            elif base.offset + 1 < self._raft.log.log_start_offset and not restarts:
                self._restarts = True  # a snapshot has just taken the place of what was to be read
                self._replay()
            else:
                self.load_errors += 1
                self._failed(f"the metadata cannot be replayed: {error}")

        self._runner.submit(work, done)

    def _restarted(self) -> tuple[MetadataImage, MetadataDelta]:
        """The image of the latest snapshot and of what follows it; the delta is that to what was published."""
        snapshot_id, batch = self._raft.load_snapshot()
        replay = MetadataReplay(MetadataImage.empty())
        end, epoch = snapshot_id.end_offset - 1, snapshot_id.epoch
        if batch is not None:
            self.loaded_snapshots += 1
            for record in batch.records:
                replay.apply(record)
        base = replay.finish(end, epoch) if end >= 0 else MetadataImage.empty()
        image, _ = self._continued(base)
        return image, difference(self.published, image)

    def _continued(self, base: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
        replay = MetadataReplay(base)
        offset, epoch = base.offset, base.epoch
        for batch in self._raft.read(offset + 1):
            for record in batch.records:
                replay.apply(record)
            offset, epoch = batch.last_offset, batch.epoch
        return replay.finish(offset, epoch), replay.delta

    def _replayed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        has_moved = image.offset != self.image.offset
        self.image = image
        if not self.is_caught_up:
            high_watermark = self._leader_high_watermark()
            is_behind = high_watermark is None or image.offset < high_watermark - 1
            if is_behind or not image.metadata_version:
                self._continue()
                return
            self.is_caught_up = True
            delta = MetadataDelta.everything(image)
        elif not has_moved:
            self._continue()
            return
        self._publish(image, delta, self._was_published)

    def _was_published(self) -> None:
        self.published = self.image
        self.published_timestamp_ms = self._raft.replay.timestamp_ms
        self._continue()

    def _continue(self) -> None:
        self._is_busy = False
        if self._has_news:
            self._replay()
