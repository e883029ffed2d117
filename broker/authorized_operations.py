"""What *_authorized_operations says where somebody may do all there is: the operations that a kind of resource knows.

Source: org.apache.kafka.security.authorizer.AclEntry (supportedOperations).
"""

from __future__ import annotations

from typing import Final

from protocol.acls import AclOperation


def operation_bits(*operations: AclOperation) -> int:
    """Operations as the bits of a number."""
    return sum(1 << operation for operation in operations)


GROUP_OPERATIONS: Final = operation_bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
