"""Compares random sequences of requests on Apache Kafka and on Barnabas; see tests.conformance.differential.

Each run draws other sequences. A failure prints its BARNABAS_SEED, which repeats the run; new sequences begin for
BARNABAS_DIFFERENTIAL_MINUTES.
"""

from __future__ import annotations

import os
import random
import time
from itertools import count
from pathlib import Path

import pytest

from tests.conformance.differential.campaign import Campaign, describe_finding, summary
from tests.conformance.differential.pair import Pair, transaction_version
from tests.conformance.kafka_jars import require_classpath

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(1800)]

MINUTES = float(os.environ.get("BARNABAS_DIFFERENTIAL_MINUTES") or 2.5)


async def test_random_sequences_have_the_same_responses(tmp_path: Path) -> None:
    require_classpath()
    seed = int(os.environ.get("BARNABAS_SEED") or random.randrange(10**9))
    print(f"BARNABAS_SEED={seed}")
    with Pair(tmp_path, transaction_version=transaction_version(seed)) as pair:
        campaign = Campaign(pair.endpoints(), await pair.warm_up(), seed)
        started = time.monotonic()
        tally = await campaign.run(count(), started + MINUTES * 60)
    print(summary(tally, time.monotonic() - started))
    assert not tally.findings, "\n".join(map(describe_finding, tally.findings))
    assert tally.sequences > 0
