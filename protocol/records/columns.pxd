# C types for columns.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy

cdef bint _COMPILED
cdef unsigned long long _MASK64, _MASK32
cdef long long _MAX_INT32, _MOST_MS, _LEAST_MS

cdef inline void copy_bytes(
    unsigned char[::1] out, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t length
) noexcept:
    if length:
        memcpy(&out[at], source + start, length)

cdef inline int add_span(
    RecordColumns columns, object payload, long long record_count, long long base_offset, long long base_timestamp,
    bint appended, long long first_offset, long long end_offset
) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        columns._add(
            <const unsigned char*>view.buf, record_count, base_offset, base_timestamp, appended, first_offset, end_offset
        )
    finally:
        PyBuffer_Release(&view)

cdef inline object find_in(
    object payload, long long record_count, long long base_offset, long long base_timestamp, long long least_offset,
    long long least_timestamp
):
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return _find(
            <const unsigned char*>view.buf, record_count, base_offset, base_timestamp, least_offset, least_timestamp
        )
    finally:
        PyBuffer_Release(&view)

@cython.final
cdef class BinaryBuilder:
    cdef Py_ssize_t size
    cdef Py_ssize_t null_count
    cdef bint is_wanted
    cdef object _allocate
    cdef int[::1] _ends
    cdef unsigned char[::1] _validity
    cdef unsigned char[::1] _data

    cdef void _grow_rows(self, Py_ssize_t rows, Py_ssize_t row_capacity) except *

    cdef void _make_room(self, Py_ssize_t size) except *

    @cython.locals(at=Py_ssize_t)
    cdef void _add(self, Py_ssize_t row, const unsigned char* source, Py_ssize_t start, Py_ssize_t length) noexcept

@cython.final
cdef class RecordColumns:
    cdef readonly Py_ssize_t row_count
    cdef Py_ssize_t _row_capacity
    cdef long long[::1] _offsets
    cdef long long[::1] _timestamps
    cdef int[::1] _header_counts
    cdef BinaryBuilder _keys
    cdef BinaryBuilder _values
    cdef BinaryBuilder _headers

    @cython.locals(builder=BinaryBuilder)
    cdef void _make_room(self, Py_ssize_t rows, Py_ssize_t size) except *

    @cython.locals(
        position=Py_ssize_t, stop=Py_ssize_t, row=Py_ssize_t, length=cython.longlong, timestamp_delta=cython.longlong,
        offset_delta=cython.longlong, offset=cython.longlong,
    )
    cdef void _add(
        self, const unsigned char* data, long long record_count, long long base_offset, long long base_timestamp,
        bint appended, long long first_offset, long long end_offset
    ) noexcept

@cython.locals(row=Py_ssize_t, timestamp=cython.longlong)
cdef int _in_us(long long[::1] scaled, long long[::1] timestamps, Py_ssize_t count) except -1

@cython.locals(
    position=Py_ssize_t, stop=Py_ssize_t, length=cython.longlong, timestamp_delta=cython.longlong,
    offset_delta=cython.longlong,
)
cdef object _find(
    const unsigned char* data, long long record_count, long long base_offset, long long base_timestamp,
    long long least_offset, long long least_timestamp
)

@cython.locals(raw=cython.ulonglong, byte=cython.ulonglong, shift=int)
cdef (long long, Py_ssize_t) _number(const unsigned char* data, Py_ssize_t position, int max_bits) noexcept
