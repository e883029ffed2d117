"""What one operation on the metadata may lead to. Source: org.apache.kafka.controller.QuorumController."""

from typing import Final

MAX_RECORDS_PER_USER_OP: Final = 10_000
"""One request is one atomic batch of records, and has to stay one that can be written."""
