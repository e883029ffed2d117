"""The files in docker/ fit the broker: dashboards ask for metrics that exist, the image takes keys that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

from broker.metric_families import FAMILIES, Kind
from config.catalogue import BROKER_KEYS
from config.environment import key_for

DOCKER = Path(__file__).parent.parent / "docker"
NATIVE = re.compile(r"process_[a-z_]+")


def shown_names() -> set[str]:
    """The names under which Prometheus finds our metrics."""
    names = set(FAMILIES)
    for name, family in FAMILIES.items():
        if family.kind is Kind.SUMMARY:
            names.add(f"{name}_count")
    return names


def test_the_dashboard_asks_for_metrics_that_the_broker_has() -> None:
    dashboard = json.loads((DOCKER / "grafana/dashboards/barnabas.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert expressions
    for expression in expressions:
        for name in re.findall(r"\b(?:kafka|process|barnabas)_\w+", expression):
            assert name in shown_names() or NATIVE.fullmatch(name), f"{name} in {expression}"


def test_image_and_compose_file_set_keys_that_exist() -> None:
    for file in ("Dockerfile", "compose.yaml"):
        variables = re.findall(r"\bKAFKA_[A-Z_]+(?=[:=])", (DOCKER / file).read_text())
        assert variables
        for variable in variables:
            assert key_for(variable) in BROKER_KEYS, f"{variable} in {file} is {key_for(variable)}"
