"""Metadata logs for tests: on the disk of a FaultEnv, with their image beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.raft_snapshots import RaftLogSettings
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.messages.topic_records import ConfigRecord, FeatureLevelRecord
from barnabas.protocol.schema import Message
from tests.storage.fault_env import FaultEnv

DIRECTORY_ID = b"directory of one"
LOG_DIR = "/logs"
DIRECTORY = f"{LOG_DIR}/__cluster_metadata-0"
NODE_ID = 1


def new_env(seed: int = 1) -> FaultEnv:
    env = FaultEnv(seed=seed)
    env.mkdir(LOG_DIR)
    env.sync_dir("/")
    return env


def open_raft_log(env: FaultEnv, **settings: Any) -> EmbeddedRaftLog:
    return EmbeddedRaftLog.open(env, LOG_DIR, NODE_ID, DIRECTORY_ID, RaftLogSettings(**settings))


def load(log: EmbeddedRaftLog) -> MetadataImage:
    """The image that the log holds."""
    image = MetadataImage.empty()
    for batch in log.load():
        image, _ = replayed(image, batch.records, offset=batch.last_offset, epoch=batch.epoch)
    return image


class Node:
    """A log with its image, as the controller keeps both. A new one begins with its metadata.version."""

    def __init__(self, env: FaultEnv, metadata_version: int = 30, **settings: Any) -> None:
        self.env = env
        self.log = open_raft_log(env, **settings)
        self.image = load(self.log)
        self.log.become_leader()
        if not self.image.features:
            self.append([FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)])

    def append(self, *batches: Sequence[Message], may_wait: bool = False) -> int:
        end_offset = self.log.append(batches, may_wait=may_wait)
        records = [record for batch in batches for record in batch]
        self.image, _ = replayed(self.image, records, offset=end_offset - 1, epoch=self.log.leader_epoch)
        return end_offset

    def append_at_start(self, batch: Sequence[Message]) -> int:
        return self.append(batch, may_wait=True)

    def set(self, name: str, value: str) -> int:
        return self.append([config(name, value)])

    def snapshot(self) -> bool:
        return self.log.raft.write_snapshot(self.image)


def config(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value=value)


def configs(image: MetadataImage) -> dict[str, str]:
    """The settings of `config`."""
    return dict(image.configs.get((4, ""), {}))


def state(image: MetadataImage) -> list[Message]:
    """A form of an image for comparison."""
    return list(image.records())
