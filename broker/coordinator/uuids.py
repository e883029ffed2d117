"""Random UUIDs, for whoever is given no other source; the module of that name is imported with the first one.

It asks the system what it is, with all that takes, and a broker without consumer groups never needs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


def random_uuid() -> UUID:
    """A version 4 one."""
    from uuid import uuid4

    return uuid4()
