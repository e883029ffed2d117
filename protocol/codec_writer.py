"""Writes the encoder of one message and version: straight-line Python out of the message's construct.

The beginning of Heartbeat v4:

    def write(m, chunks):
        w = bytearray()
        s = m.group_id.encode()
        n = len(s)
        ...
        if n > 126:
            put_varint(w, n + 1)
        else:
            w.append(n + 1)
        w += s
        w += pack1(m.generation_id)

What cannot be written (null where no null can be, a number out of its range) raises somewhere in here
without a good message; `codec.encoder` then asks the construct, which says where in the message it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.codec_source import SMALL, Source, fixed_format, packing, small_packings
from protocol.reference import (
    COMPACT_LENGTH,
    MAX_STRING_BYTES,
    KafkaArray,
    KafkaString,
    NullableStruct,
    Prefixed,
    Records,
    StructOf,
    TaggedFields,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from construct.core import Construct

    from protocol.schema import Field


class WriterSource(Source):
    """The function `write(message, chunks)` for a layout.

    The variables of the code: `w` the bytes since the last chunk, `n` the last length or count (plus one
    while it is compact), `s` the last string or bytes.
    """

    def __init__(self, layout: StructOf) -> None:
        super().__init__()
        self._run: list[tuple[str, str]] = []
        self.function("def write(m, chunks):", lambda: self._message(layout))

    def _message(self, layout: StructOf) -> None:
        self.put("w = bytearray()")
        self._struct("m", layout, "")
        self.put("if w:", "    chunks.append(bytes(w))")

    def _struct(self, source: str, layout: StructOf, path: str) -> None:
        for field in layout.absent:
            if not field.ignorable:
                differs = self._differs(f"{source}.{field.name}", field)
                self.put(f"if {differs}:", f"    raise not_carried({path + field.name!r}, {layout.version})")
        for field, value in layout.members:
            self._value(f"{source}.{field.name}", value, f"{path}{field.name}")
        if layout.tagged is not None:
            self._flush()
            self._tagged(source, layout.tagged, path)
            return
        self._flush()
        unknown = "unknown_tagged_fields"
        self.put(f"if {source}.{unknown}:", f"    raise not_carried({path + unknown!r}, {layout.version})")

    def _differs(self, source: str, field: Field) -> str:
        """The condition under which a field has another value than its default."""
        default = field.make_default()
        if default is None:
            return f"{source} is not None"
        if isinstance(default, Struct):
            name = self.literal(default)
            return f"({source} is not {name} and {source} != {name})"
        return f"{source} != {self.literal(default)}"

    def _value(self, source: str, value: Construct, path: str) -> None:
        fixed = fixed_format(value)
        if fixed is not None:
            self._fixed(source, fixed)
        elif isinstance(value, KafkaArray):
            self._array(source, value, path)
        elif isinstance(value, Prefixed):
            self._blob(source, value, path)
        elif isinstance(value, StructOf):
            self._flush()
            inner = self.fresh("m")
            self.put(f"{inner} = {source}")
            self._struct(inner, value, f"{path}.")
        else:
            assert isinstance(value, NullableStruct), value
            self._nullable_struct(source, value, path)

    def _fixed(self, source: str, fixed: str) -> None:
        if fixed == "?":
            fixed = "b"  # refuses a null, where "?" would write False
        elif fixed.endswith("s"):
            self.put(f"if len({source}) != {fixed[:-1]}:", f"    raise wrong_uuid({source})")
        self._run.append((fixed, source))

    def _flush(self) -> None:
        """Writes the fixed-width fields that have gathered, in one call."""
        run, self._run = self._run, []
        if run:
            packed = packing([item[0] for item in run])
            pack = self.constant("pack", packed.pack, packed.format)
            self.put(f"w += {pack}({', '.join(item[1] for item in run)})")

    def _length(self, value: Prefixed, null: bool) -> None:
        """Writes the length in `n`, which is that of a null if `null`."""
        if value.length is not COMPACT_LENGTH:
            self._run.append((value.length.fmtstr[1:], "-1" if null else "n"))
            self._flush()
        elif null:
            self._flush()
            self.put("w.append(0)")
        else:
            self._flush()
            self.put("if n > 126:", "    put_varint(w, n + 1)", "else:", "    w.append(n + 1)")

    def _blob(self, source: str, value: Prefixed, path: str) -> None:
        self.put(f"s = {source}")
        run = self._null_or("s", value)
        self._run = run
        if isinstance(value, KafkaString):
            self.put("s = s.encode()", "n = len(s)")
            self.put(f"if n > {MAX_STRING_BYTES}:", f"    raise too_long_to_write({path!r}, n)")
        elif isinstance(value, Records):
            self.put("n = size = records_size(s)")
        else:
            self.put("n = len(s)")
        self._length(value, null=False)
        if isinstance(value, Records):
            self.put("if size:", "    w = put_records(w, s, chunks)")
        else:
            self.put("w += s")
        self.depth -= value.nullable

    def _null_or(self, variable: str, value: Prefixed) -> list[tuple[str, str]]:
        """Writes a null, and enters the branch for all else. The gathered fields stand in both branches."""
        run = list(self._run)
        if value.nullable:
            self.put(f"if {variable} is None:")
            self.depth += 1
            self._length(value, null=True)
            self.depth -= 1
            self.put("else:")
            self.depth += 1
        return run

    def _array(self, source: str, value: KafkaArray, path: str) -> None:
        elements = self.fresh("a")
        self.put(f"{elements} = {source}")
        self._run = self._null_or(elements, value)
        self.put(f"n = len({elements})")
        self._length(value, null=False)
        fixed = fixed_format(value.element)
        if fixed is not None and not fixed.endswith("s"):
            packs = self.constant("packs", [item.pack for item in small_packings(fixed)], f"packs of {fixed}")
            self.put(f"if n < {SMALL}:", f"    w += {packs}[n](*{elements})")
            self.put("else:", f'    w += pack(f">{{n}}{fixed}", *{elements})')
        else:
            item = self.fresh("e")
            self.put(f"for {item} in {elements}:")
            self.depth += 1
            if isinstance(value.element, StructOf):
                self.put(f"if {item}.__class__ is encoded:", f"    w += {item}", "    continue")
                self._struct(item, value.element, f"{path}.")
            else:
                self._value(item, value.element, path)
                self._flush()
            self.depth -= 1
        self.depth -= value.nullable

    def _nullable_struct(self, source: str, value: NullableStruct, path: str) -> None:
        inner = self.fresh("m")
        null = 0 if value.marker is COMPACT_LENGTH else 255
        self._flush()
        self.put(f"{inner} = {source}", f"if {inner} is None:", f"    w.append({null})")
        self.put("else:", "    w.append(1)")
        self.depth += 1
        self._struct(inner, value.struct, f"{path}.")
        self.depth -= 1

    def _tagged(self, source: str, tagged: TaggedFields, path: str) -> None:
        """Nearly always there are none; finding that out is inline, and all else is in a function."""
        unknown = f"{source}.unknown_tagged_fields"
        if not tagged.known:
            self.put(f"if {unknown}:", f"    put_tags(w, {unknown})", "else:", "    w.append(0)")
            return
        writer = self.fresh("tags")
        self.function(f"def {writer}(m, w):", lambda: self._tag_writer(tagged, path))
        differ = [self._differs(f"{source}.{field.name}", field) for field, _ in tagged.known.values()]
        self.put(f"if {unknown} or {' or '.join(differ)}:")
        self.put(f"    {writer}({source}, w)", "else:", "    w.append(0)")

    def _tag_writer(self, tagged: TaggedFields, path: str) -> None:
        self.put("entries = dict(m.unknown_tagged_fields or ())", "out = w")
        for tag, (field, _) in tagged.known.items():
            self.put(f"if {tag} in entries:", f"    raise known_tag({tag}, {path + field.name!r})")
        for tag, (field, value) in tagged.known.items():
            self.put(f"if {self._differs('m.' + field.name, field)}:")
            self.depth += 1
            self.put(f"w = entries[{tag}] = bytearray()")
            self._value(f"m.{field.name}", value, f"{path}{field.name}")
            self._flush()
            self.depth -= 1
        self.put("put_tags(out, entries)")
