"""Which modules mypyc compiles at installation, from their own source; and what of ours runs compiled.

MODULES is written down here and nowhere else: setup.py takes it from here, so that this file imports nothing of ours.
Cython compiles the modules beside which a .pxd file lies, under protocol/ (see setup.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Final

LIBRARY: Final = "barnabas__mypyc"
"""What all of mypyc's modules are in; each has an extension module of its name besides, which loads it.

A process in which `barnabas` is imported while it is not there runs as plain Python to its end (barnabas/__init__.py).
"""
BEING_COMPILED: Final = "BARNABAS_BEING_COMPILED"
"""Set by `make run` for a broker beside which the compilers work."""
PACKAGES: Final = ("broker", "config", "protocol", "storage")

MODULES: Final = (
    "barnabas.broker.fetch.cache",
    "barnabas.broker.fetch.context",
    "barnabas.broker.fetch.delayed_fetch",
    "barnabas.broker.fetch.manager",
    "barnabas.broker.fetch.partition",
    "barnabas.broker.fetch.reader",
    "barnabas.broker.fetch.response_size",
    "barnabas.broker.fetch.session",
    "barnabas.broker.kafka_apis.dispatch",
    "barnabas.broker.kafka_apis.handlers.fetch",
    "barnabas.broker.kafka_apis.handlers.produce",
    "barnabas.broker.network.authentication",
    "barnabas.broker.network.connection",
    "barnabas.broker.network.in_flight",
    "barnabas.broker.network.request_order",
    "barnabas.broker.network.send_queue",
    "barnabas.broker.network.tls_records",
    "barnabas.broker.node_client.exchange",
    "barnabas.broker.pending",
    "barnabas.broker.probes",
    "barnabas.broker.quotas.client_quotas",
    "barnabas.broker.quotas.limits",
    "barnabas.broker.quotas.quota_managers",
    "barnabas.broker.quotas.rate",
    "barnabas.broker.quotas.request_meter",
    "barnabas.broker.quotas.throttle_times",
    "barnabas.broker.quotas.token_bucket",
    "barnabas.broker.replica.append",
    "barnabas.broker.replica.delayed_delete_records",
    "barnabas.broker.replica.delayed_produce",
    "barnabas.broker.replica.partition",
    "barnabas.broker.replica.replica_manager",
    "barnabas.broker.replica.replication_traffic",
    "barnabas.broker.request",
    "barnabas.broker.security.sasl.authenticator",
    "barnabas.broker.waiting.purgatory",
    "barnabas.broker.waiting.timer",
    "barnabas.protocol.framing",
    "barnabas.protocol.records.compression",
    "barnabas.storage.env",
    "barnabas.storage.log.disk_space",
    "barnabas.storage.log.leader_epochs",
    "barnabas.storage.log.local_log",
    "barnabas.storage.log.log_offsets",
    "barnabas.storage.log.producer_entry",
    "barnabas.storage.log.producer_replay",
    "barnabas.storage.log.producer_state",
    "barnabas.storage.log.txn_verification",
    "barnabas.storage.log.unified_log",
    "barnabas.storage.log.validator",
    "barnabas.storage.offsets",
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


def form_at_start() -> str:
    """The form for the ready line, and what the next start will run where that is being built."""
    being_compiled = (
        ", while compiled code is built for the next start" if BEING_COMPILED in os.environ else ""
    )
    return form() + being_compiled


def loops(checkout: str) -> list[tuple[str, str]]:
    """The modules that Cython compiles, and their sources: those beside which a .pxd of the same name lies."""
    found = []
    for source in _sources(checkout):
        if source.endswith(".py") and os.path.exists(f"{os.path.splitext(source)[0]}.pxd"):
            path = os.path.relpath(source, checkout)
            found.append((path.removesuffix(".py").replace(os.sep, "."), path))
    return found


# ---- what was compiled from what, in a checkout


def stale(checkout: str = _CHECKOUT) -> list[str]:
    """The sources that are no longer what was compiled. None where nothing is compiled, or outside of a checkout.

    Compiled code holds constants, signatures and attributes of the modules that it imports, compiled or not: of all
    sources the build keeps a digest.
    """
    if not os.path.exists(os.path.join(checkout, "setup.py")) or not any(_libraries(checkout)):
        return []
    try:
        with open(record_path(checkout), encoding="utf-8") as file:
            known = {path: (int(mtime_ns), digest) for mtime_ns, digest, path in map(str.split, file)}
    except FileNotFoundError:
        return ["all of it"]
    changed = []
    for source in _sources(checkout):
        path = os.path.relpath(source, checkout)
        was = known.pop(path, None)
        if was is None or (was[0] != os.stat(source).st_mtime_ns and was[1] != _digest(path, source)):
            changed.append(path)
    return sorted([*changed, *known])


def record(checkout: str) -> str:
    """What a build leaves beside the libraries: when each source was changed, its digest, and its path."""
    sources = [(os.path.relpath(source, checkout), source) for source in _sources(checkout)]
    return "".join(
        f"{os.stat(source).st_mtime_ns} {_digest(path, source)} {path}\n" for path, source in sources
    )


def record_path(checkout: str) -> str:
    """Where that lies; each version of Python has its own."""
    return os.path.join(checkout, "build", f"compiled-from{EXTENSION_SUFFIXES[0]}.txt")


def remove_libraries(root: str) -> None:
    """Removes all that this Python would load instead of a source."""
    for library in list(_libraries(root)):
        os.unlink(library)


def put_in_place(built: str, names: Iterable[str], checkout: str, known: str) -> None:
    """Replaces the libraries of a checkout by those `names` under `built`, and the record of their sources by `known`.

    While that goes on LIBRARY is absent, so that a process that starts meanwhile loads none of them.
    """
    import shutil  # only where something was built

    remove_libraries(checkout)
    for name in sorted(names, key=lambda name: name.startswith(LIBRARY)):
        if name.startswith(LIBRARY):
            with open(record_path(checkout), "w", encoding="utf-8") as file:
                file.write(known)
        path = os.path.join(checkout, name)
        shutil.copyfile(os.path.join(built, name), f"{path}.new")
        os.replace(f"{path}.new", path)


def _libraries(root: str) -> Iterator[str]:
    names = [name for name in os.listdir(root) if name.startswith(LIBRARY)] if os.path.isdir(root) else []
    yield from (os.path.join(root, name) for name in names if name.endswith(EXTENSION_SUFFIXES[0]))
    yield from (path for path in _files(root) if path.endswith(EXTENSION_SUFFIXES[0]))


def _sources(checkout: str) -> Iterator[str]:
    return (path for path in _files(checkout) if path.endswith((".py", ".pxd")))


def _files(root: str) -> Iterator[str]:
    for package in PACKAGES:
        for folder, _, names in os.walk(os.path.join(root, "barnabas", package)):
            yield from (os.path.join(folder, name) for name in names)


def _digest(path: str, source: str) -> str:
    """Of the text of what is compiled; of all else without the bodies of functions, which compiled code only calls."""
    import hashlib  # only where a source has changed

    with open(source, encoding="utf-8") as file:
        text = file.read()
    module = path.removesuffix(".py").replace(os.sep, ".")
    if (
        path.endswith(".py")
        and module not in MODULES
        and not os.path.exists(f"{os.path.splitext(source)[0]}.pxd")
    ):
        text = _outline(text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _outline(text: str) -> str:
    import ast

    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name != "__init__":
            node.body = []
    return ast.dump(tree)
