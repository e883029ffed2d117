"""Applies the operations of IncrementalAlterConfigs to a value: text to text, by Kafka's rules (KIP-339).

Source: org.apache.kafka.controller.ConfigurationControlManager.incrementalAlterConfigResource.
"""

from enum import IntEnum


class AlterOperation(IntEnum):
    """An operation on a value; the numbers are those of the wire (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3

    @property
    def is_of_lists(self) -> bool:
        """True for operations on lists only."""
        return self in {AlterOperation.APPEND, AlterOperation.SUBTRACT}


def altered(
    operation: AlterOperation, current: str | None, text: str | None, default: str | None
) -> str | None:
    """The value after the operation; None where it is unset then.

    `current` is the value that the resource itself has, if any, and `default` the key's: without a value
    APPEND and SUBTRACT start from that. `text` may be None for DELETE only.
    """
    if operation is AlterOperation.DELETE:
        return None
    assert text is not None
    if operation is AlterOperation.SET:
        return text
    parts = [part for part in split(default if current is None else current) if part]
    for part in split(text):
        if operation is AlterOperation.APPEND:
            if part not in parts:
                parts.append(part)
        elif part in parts:
            parts.remove(part)
    return ",".join(parts)


def split(text: str | None) -> list[str]:
    """The parts between commas as Java's String.split returns them: empty ones at the end are dropped."""
    if text is None:
        return []
    if "," not in text:
        return [text]
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts
