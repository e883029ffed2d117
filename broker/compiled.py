"""Which modules mypyc compiles at installation, from their own source; and what of ours runs compiled.

MODULES is written down here and nowhere else: setup.py takes it from here, so that this file imports nothing of ours.
What Cython compiles is told by the .pxd files under protocol/ (see setup.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Final

PACKAGES: Final = ("broker", "config", "protocol", "storage")

MODULES: Final = (
    "barnabas.broker.fetch.cache",
    "barnabas.broker.fetch.context",
    "barnabas.broker.fetch.delayed_fetch",
    "barnabas.broker.fetch.manager",
    "barnabas.broker.fetch.partition",
    "barnabas.broker.fetch.reader",
    "barnabas.broker.fetch.session",
    "barnabas.broker.kafka_apis.dispatch",
    "barnabas.broker.kafka_apis.handlers.fetch",
    "barnabas.broker.kafka_apis.handlers.produce",
    "barnabas.broker.network.connection",
    "barnabas.broker.network.in_flight",
    "barnabas.broker.network.request_order",
    "barnabas.broker.network.send_queue",
    "barnabas.broker.pending",
    "barnabas.broker.probes",
    "barnabas.broker.replica.append",
    "barnabas.broker.replica.delayed_operations",
    "barnabas.broker.replica.partition",
    "barnabas.broker.replica.replica_manager",
    "barnabas.broker.request",
    "barnabas.broker.waiting.purgatory",
    "barnabas.broker.waiting.timer",
    "barnabas.protocol.framing",
    "barnabas.protocol.records.compression",
    "barnabas.storage.env",
    "barnabas.storage.log.disk_space",
    "barnabas.storage.log.leader_epochs",
    "barnabas.storage.log.local_log",
    "barnabas.storage.log.producer_entry",
    "barnabas.storage.log.producer_replay",
    "barnabas.storage.log.producer_state",
    "barnabas.storage.log.state",
    "barnabas.storage.log.txn_verification",
    "barnabas.storage.log.unified_log",
    "barnabas.storage.log.validator",
    "barnabas.storage.offsets",
    "barnabas.storage.segment.files",
    "barnabas.storage.segment.index",
    "barnabas.storage.segment.segment",
)


_CHECKOUT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def form(modules: Mapping[str, ModuleType] | None = None) -> str:
    """How what is loaded of ours runs, for people to read: compiled, interpreted, or compiled but for what is named."""
    compiled: list[str] = []
    interpreted: list[str] = []
    for name, module in list((sys.modules if modules is None else modules).items()):
        if name in MODULES or (name.startswith("barnabas.protocol.") and hasattr(module, "COMPILED")):
            is_compiled = (module.__file__ or "").endswith(tuple(EXTENSION_SUFFIXES))
            (compiled if is_compiled else interpreted).append(name)
    if not interpreted:
        return "compiled"
    return f"compiled but for {', '.join(sorted(interpreted))}" if compiled else "interpreted"


def stale(checkout: str = _CHECKOUT) -> list[str]:
    """The sources that have changed since they were compiled, so that they are not what runs. Only in a checkout."""
    if not os.path.exists(os.path.join(checkout, "setup.py")):
        return []
    return [
        source
        for source in _sources(checkout)
        if any(_is_stale(source, suffix) for suffix in EXTENSION_SUFFIXES)
    ]


def _sources(checkout: str) -> Iterator[str]:
    for name in MODULES:
        yield os.path.join(checkout, *name.split(".")) + ".py"
    for folder, _, files in os.walk(os.path.join(checkout, "protocol")):
        for file in files:
            if file.endswith(".pxd"):
                yield os.path.join(folder, file)
                yield os.path.join(folder, file.removesuffix(".pxd") + ".py")


def _is_stale(source: str, suffix: str) -> bool:
    try:
        return os.stat(source).st_mtime > os.stat(os.path.splitext(source)[0] + suffix).st_mtime
    except FileNotFoundError:
        return False  # not compiled, or a .pxd that others share
