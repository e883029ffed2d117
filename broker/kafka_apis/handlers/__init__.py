"""One module for each family of APIs; the stems are those of protocol.messages. Handlers never import each other."""

import importlib
from typing import Final

MODULES: Final = (
    "api_versions",
    "produce",
    "fetch",
    "offsets",
    "metadata",
    "topics",
    "partitions",
    "producers",
    "features",
    "quorum",
    "configs",
    "alter_configs",
    "groups",
    "consumer_groups",
    "commits",
    "transactions",
    "txn_markers",
    "quotas",
    "sasl",
    "scram",
    "acls",
    "tokens",
    "telemetry",
    "log_dirs",
)


def register_all() -> None:
    """Imports every handler module, which registers its handlers."""
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
