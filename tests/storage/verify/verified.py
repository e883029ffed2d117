"""A log directory with every kind of file, not empty, for the tests of the verifier."""

from barnabas.protocol.records.batch import CompressionType
from barnabas.storage.env import Env
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin
from barnabas.storage.verify.directory import Verification
from barnabas.storage.verify.verifier import Finding, Severity
from tests.storage.helpers import T0, TOPIC_ID, append, end_txn, fill, make_batch, small_config

LOG_DIR = "/a"
TOPIC = "/a/orders-0"
CLUSTER = "V8fuWNeJMPAdsUHP31AizQ"
DIRECTORY_ID = "qzLvuX_YJuUwQMtNPUxuzA"


def written(env: Env, log_dir: str = LOG_DIR, *, stop: bool = True) -> LogManager:
    """Two partitions, one with several segments, epochs and transactions; stopped cleanly, or killed."""
    manager = LogManager(env, [log_dir], lambda _topic: small_config())
    manager.dirs.lock()
    manager.dirs.load_meta_properties()
    manager.dirs.format(CLUSTER, 1, lambda: DIRECTORY_ID)
    manager.load_logs()
    log = manager.get_or_create_log("orders", 0, TOPIC_ID)
    _write(log)
    fill(manager.get_or_create_log("plain", 3, TOPIC_ID), 3)
    if stop:
        manager.shutdown()
    return manager


def _write(log: UnifiedLog) -> None:
    fill(log, 12, epoch=0)
    for number in range(8):
        append(log, b"%d" % number * 50, b"more" * 20, epoch=2, timestamp=T0 + 1000 * (number % 5))
    for round_number in range(6):
        transaction = make_batch(
            b"t" * 60, timestamp=T0 + 9000, producer=(7, 0, round_number), transactional=True
        )
        log.append_as_leader(transaction, 3)
        log.append_as_leader(make_batch(b"i" * 40, timestamp=T0 + 9001, producer=(8, 0, round_number)), 3)
        marker = end_txn(7, 0, commit=bool(round_number % 2), timestamp=T0 + 9002)
        log.append_as_leader(marker, 3, AppendOrigin.COORDINATOR)
    for codec in CompressionType:
        packed = make_batch(b"x" * 90, b"y" * 90, timestamp=T0 + 9003, compression=codec)
        log.append_as_leader(packed, 5)
    log.update_high_watermark(log.log_end_offset)


def findings(env: Env, *paths: str, is_deep: bool = True) -> list[Finding]:
    """The findings of a verification of the directories, by default LOG_DIR."""
    return list(Verification(env, is_deep=is_deep).run(paths or (LOG_DIR,)))


def graver(found: list[Finding]) -> list[Finding]:
    """The findings without notes."""
    return [finding for finding in found if finding.severity is not Severity.NOTE]
