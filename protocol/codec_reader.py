"""Writes the decoder of one message and version: straight-line Python out of the message's construct.

It looks like what one would write by hand for this version alone. The beginning of Heartbeat v4:

    def read(buf, p, end, room):
        m1 = new(HeartbeatRequest2)
        n = buf[p]
        p += 1
        if n > 127:
            n, p = long_varint(buf, p, n)
            ...
        q = p + n - 1
        if q > end: raise short('group_id', n - 1, end - p)
        m1.group_id = buf[p:q].decode()
        p = q
        (m1.generation_id,) = unpack3(buf, p)
        p += 4

Safety rests on three things. Every length and count is compared with what is left before it is used. All
other reads are an index or an `unpack_from`, which cannot reach beyond the buffer: they raise, and
`codec.decoder` makes a ProtocolError of it. And nothing is allocated by a count alone: the elements that it
claims must, at their smallest, fit into what is left, and into `room`, which says how many there still may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.codec_source import SMALL, Source, fixed_format, minimum_size, packing, small_packings
from protocol.reference import (
    COMPACT_LENGTH,
    MAX_LENGTH,
    MAX_STRING_BYTES,
    KafkaArray,
    KafkaBytes,
    KafkaString,
    NullableStruct,
    Prefixed,
    Records,
    StructOf,
    TaggedFields,
)

if TYPE_CHECKING:
    from construct.core import Construct


class ReaderSource(Source):
    """The function `read(buf, p, end, room) -> (message, p)` for a layout.

    The variables of the code: `buf` the bytes, `p` the position, `end` where the bytes end, `room` a list of how many
    elements and tagged fields there still may be, `view` a
    memoryview of them, `n` the last length or count (plus one while it is compact), `q` where the last
    string or bytes end. `lenient` code puts U+FFFD where text is not UTF-8, for which the other raises
    UnicodeDecodeError: it is slower, and only used when that has happened. Code for `views` takes a
    memoryview for `buf`, the other bytes, whose slices are ready for use.
    """

    def __init__(self, layout: StructOf, *, lenient: bool = False, views: bool = False) -> None:
        super().__init__()
        arguments = '"utf-8", "replace"' if lenient else '"utf-8"' if views else ""
        self._text = f"str({{}}, {arguments})" if views else f"{{}}.decode({arguments})"
        self._bytes = "bytes({})" if views else "{}"
        self._run: list[tuple[str, str]] = []
        self._reads_records = False
        self.function("def read(buf, p, end, room):", lambda: self._message(layout))

    def _message(self, layout: StructOf) -> None:
        message = self._struct(layout, "")
        self.put(f"return {message}, p")
        if self._reads_records:
            self.lines.insert(0, "    view = memoryview(buf)")

    def _struct(self, layout: StructOf, path: str) -> str:
        """Reads a struct into a new variable, whose name it returns."""
        target = self.fresh("m")
        self.put(f"{target} = new({self.constant(layout.cls.__name__, layout.cls)})")
        for field, value in layout.members:
            self._value(f"{target}.{field.name}", value, f"{path}{field.name}")
        self._flush()
        for field in layout.absent:
            self.put(f"{target}.{field.name} = {self.literal(field.make_default())}")
        if layout.tagged is None:
            self.put(f"{target}.unknown_tagged_fields = None")
        else:
            self._tagged(target, layout.tagged, path)
        return target

    def _value(self, target: str, value: Construct, path: str) -> None:
        fixed = fixed_format(value)
        if fixed is not None:
            self._run.append((fixed, target))
        elif isinstance(value, KafkaArray):
            self._array(target, value, path)
        elif isinstance(value, Prefixed):
            self._blob(target, value, path)
        elif isinstance(value, StructOf):
            self._flush()
            self.put(f"{target} = {self._struct(value, path + '.')}")
        else:
            assert isinstance(value, NullableStruct), value
            self._nullable_struct(target, value, path)

    def _flush(self) -> None:
        """Reads the fixed-width fields that have gathered, in one call."""
        run, self._run = self._run, []
        if not run:
            return
        formats = [item[0] for item in run]
        if formats == ["?"]:
            self.put(f"{run[0][1]} = buf[p] != 0", "p += 1")
            return
        packed = packing(formats)
        unpack = self.constant("unpack", packed.unpack_from, packed.format)
        self.put(f"({', '.join(item[1] for item in run)},) = {unpack}(buf, p)", f"p += {packed.size}")

    def _length(self, value: Prefixed) -> tuple[str, str]:
        """Reads a length into `n`; returns the expressions for the length and for its being null."""
        if value.length is COMPACT_LENGTH:
            self._flush()
            self.put("n = buf[p]", "p += 1", "if n > 127:", "    n, p = long_varint(buf, p, n)")
            return "n - 1", "not n"
        self._run.append((value.length.fmtstr[1:], "n"))
        self._flush()
        return "n", "n < 0"

    def _null_or(self, target: str, value: Prefixed, is_null: str, path: str) -> int:
        """What happens to a null; returns how deep the code for all else is to be put."""
        if not value.nullable:
            self.put(f"if {is_null}:", f"    raise null({path!r})")
            return 0
        self.put(f"if {is_null}:", f"    {target} = None", "else:")
        return 1

    def _blob(self, target: str, value: Prefixed, path: str) -> None:
        length, is_null = self._length(value)
        if isinstance(value, KafkaString) and value.length is COMPACT_LENGTH:
            self.put(f"    if n > {MAX_STRING_BYTES + 1}:", f"        raise too_long({path!r}, n - 1)")
        indent = self._null_or(target, value, is_null, path)
        self.depth += indent
        self.put(f"q = p + {length}", "if q > end:", f"    raise short({path!r}, {length}, end - p)")
        if isinstance(value, Records):
            self._reads_records = True
            self.put(f"{target} = view[p:q]")
        elif isinstance(value, KafkaBytes):
            self.put(f"{target} = {self._bytes.format('buf[p:q]')}")
        else:
            self.put(f"{target} = {self._text.format('buf[p:q]')}")
        self.put("p = q")
        self.depth -= indent

    def _array(self, target: str, value: KafkaArray, path: str) -> None:
        length, is_null = self._length(value)
        indent = self._null_or(target, value, is_null, path)
        self.depth += indent
        if length != "n":
            self.put(f"n = {length}")
        smallest = minimum_size(value.element)
        assert smallest > 0, f"{path}: elements of no size could be claimed without end"
        claim = "n" if smallest == 1 else f"n * {smallest}"
        self.put(f"if {claim} > end - p:", f"    raise too_many({path!r}, n, end - p)")
        self.put("room[0] -= n", "if room[0] < 0:", f"    raise too_much({path!r})")
        fixed = fixed_format(value.element)
        if fixed is not None:
            self._fixed_array(target, fixed, smallest)
        else:
            self._loop(target, value.element, path)
        self.depth -= indent

    def _fixed_array(self, target: str, fixed: str, size: int) -> None:
        self.put(f"q = p + n * {size}")
        if fixed.endswith("s"):
            item = self._bytes.format(f"buf[i : i + {size}]")
            self.put(f"{target} = [{item} for i in range(p, q, {size})]")
        else:
            key = f"unpacks of {fixed}"
            unpacks = self.constant("unpacks", [item.unpack_from for item in small_packings(fixed)], key)
            self.put(f"if n < {SMALL}:", f"    {target} = list({unpacks}[n](buf, p))")
            self.put("else:", f'    {target} = list(unpack_from(f">{{n}}{fixed}", buf, p))')
        self.put("p = q")

    def _loop(self, target: str, element: Construct, path: str) -> None:
        elements = self.fresh("a")
        self.put(f"{target} = {elements} = []", "for _ in range(n):")
        self.depth += 1
        if isinstance(element, StructOf):
            item = self._struct(element, path + ".")
        else:
            item = self.fresh("e")
            self._value(item, element, path)
            self._flush()
        self.put(f"{elements}.append({item})")
        self.depth -= 1

    def _nullable_struct(self, target: str, value: NullableStruct, path: str) -> None:
        self._flush()
        self.put("n = buf[p]", "p += 1")
        if value.marker is COMPACT_LENGTH:
            self.put("if n > 127:", "    n, p = long_varint(buf, p, n)")
            self.put(f"    if n > {MAX_LENGTH + 1}:", f"        raise bad_marker({path!r}, n)")
        self.put(
            f"if {'not n' if value.marker is COMPACT_LENGTH else 'n > 127'}:", f"    {target} = None", "else:"
        )
        self.depth += 1
        self.put(f"{target} = {self._struct(value.struct, path + '.')}")
        self.depth -= 1

    def _tagged(self, target: str, tagged: TaggedFields, path: str) -> None:
        """Nearly always there are no tagged fields; that costs one comparison, and all else is in a
        function.
        """
        for field, _ in tagged.known.values():
            self.put(f"{target}.{field.name} = {self.literal(field.make_default())}")
        if tagged.known or tagged.misplaced:
            reader = self.fresh("tags")
            self.function(f"def {reader}(m, buf, p, end, room):", lambda: self._tag_reader(tagged, path))
            call = f"p = {reader}({target}, buf, p, end, room)"
        else:
            call = f"{target}.unknown_tagged_fields, p = unknown_tags(buf, p, end, room)"
        none = f"{target}.unknown_tagged_fields = None"
        self.put("if buf[p]:", f"    {call}", "else:", "    p += 1", f"    {none}")

    def _tag_reader(self, tagged: TaggedFields, path: str) -> None:
        self.put("unknown = {}", "count, p = tag_count(buf, p, end, room)", "for _ in range(count):")
        self.depth += 1
        self.put("tag, p, stop = tag_header(buf, p, end)")
        branch = "if"
        for tag, (field, value) in tagged.known.items():
            self.put(f"{branch} tag == {tag}:")
            self.depth += 1
            self._value(f"m.{field.name}", value, f"{path}{field.name}")
            self._flush()
            self.put("if p != stop:", f"    raise wrong_size({path + field.name!r}, tag, p - stop)")
            self.depth -= 1
            branch = "elif"
        if tagged.misplaced:
            self.put(f"{branch} tag in {set(tagged.misplaced)!r}:", "    raise misplaced_tag(tag)")
        self.put("else:", "    unknown[tag] = bytes(buf[p:stop])", "    p = stop")
        self.depth -= 1
        self.put("m.unknown_tagged_fields = unknown or None", "return p")
