"""The errors of the codec, for bytes that cannot be decoded and for messages that cannot be encoded."""

from __future__ import annotations

from barnabas.protocol.errors import ProtocolError


def cut_off(title: str, left: int) -> ProtocolError:
    return ProtocolError(f"{title} is cut off: {left} bytes are too few")


def long_varint() -> ProtocolError:
    return ProtocolError("a varint needs more than 32 bits")


def null(path: str) -> ProtocolError:
    return ProtocolError(f"{path} is null where no null can be")


def short(path: str, length: int, left: int) -> ProtocolError:
    return ProtocolError(f"{path} claims {length} bytes and there are {left}")


def too_long(path: str, length: int) -> ProtocolError:
    return ProtocolError(f"{path} claims {length} bytes, more than a string can have")


def too_many(path: str, count: int, left: int) -> ProtocolError:
    return ProtocolError(f"{path} claims {count} elements in {left} bytes")


def too_much(path: str) -> ProtocolError:
    return ProtocolError(f"with {path} there are more elements than a message may have")


def bad_marker(path: str, marker: int) -> ProtocolError:
    return ProtocolError(
        f"{path} has the marker {marker}, which says neither that it is there nor that it is not"
    )


def wrong_size(path: str, tag: int, excess: int) -> ProtocolError:
    return ProtocolError(f"{path} (tag {tag}) and the size it claims differ by {abs(excess)} bytes")


def misplaced_tag(tag: int) -> ProtocolError:
    return ProtocolError(f"tag {tag} does not belong to this version")


def not_carried(name: str, version: int) -> ValueError:
    return ValueError(f"{name} cannot be sent in version {version}, and does not have its default")


def too_long_to_write(name: str, length: int) -> ValueError:
    return ValueError(f"{name} has {length} bytes, more than a string can have")


def wrong_uuid(value: bytes) -> ValueError:
    return ValueError(f"a UUID has 16 bytes, {value!r} has {len(value)}")


def known_tag(tag: int, name: str) -> ValueError:
    return ValueError(f"tag {tag} is {name}, and cannot be among the unknown ones")
