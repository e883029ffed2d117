# C types for record.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

cdef class Record:
    cdef public object key
    cdef public object value
    cdef public object timestamp
    cdef public object headers
    cdef public object offset
    cdef public object sequence

@cython.final
@cython.freelist(16)
cdef class RecordsSummary:
    cdef readonly long long record_count
    cdef readonly long long min_timestamp
    cdef readonly long long max_timestamp
    cdef readonly long long max_timestamp_index
    cdef readonly long long null_key_index
    cdef readonly long long offset_gap_index

cdef unsigned long long _MASK32, _MASK64
cdef long long _MIN_INT64, _MAX_INT64
cdef int _LEAST_SIZE

# A typed memoryview would cost as much as checking a record or ten.
cdef inline RecordsSummary _validated(object payload, long long record_count, long long base_timestamp):
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return validate_span(<const unsigned char*>view.buf, view.len, record_count, base_timestamp)
    finally:
        PyBuffer_Release(&view)

cpdef RecordsSummary validate_records(object payload, long long record_count, long long base_timestamp)

@cython.locals(summary=RecordsSummary, min_delta=cython.longlong, max_delta=cython.longlong, least=cython.longlong,
               most=cython.longlong)
cdef RecordsSummary validate_span(
    const unsigned char* data, Py_ssize_t end, long long record_count, long long base_timestamp
)

@cython.locals(shift=int, byte=cython.ulonglong)
cdef (unsigned long long, Py_ssize_t) _long_varint(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, unsigned long long raw, int max_bits
)

@cython.locals(left=cython.longlong)
cdef Py_ssize_t _skip_headers(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, unsigned long long raw
) except -1

@cython.locals(
    position=Py_ssize_t, stop=Py_ssize_t, index=cython.longlong, raw=cython.ulonglong, number=cython.longlong,
    min_delta=cython.longlong, max_delta=cython.longlong, max_index=cython.longlong, null_key_index=cython.longlong,
    offset_gap_index=cython.longlong,
)
cdef (long long, long long) _scan(
    const unsigned char* data, Py_ssize_t end, long long record_count, RecordsSummary summary
)

@cython.locals(raw=cython.ulonglong, byte=cython.ulonglong, shift=int)
cdef (long long, Py_ssize_t) _number(bytes data, Py_ssize_t position, int max_bits)

@cython.locals(
    position=Py_ssize_t, end=Py_ssize_t, stop=Py_ssize_t, length=cython.longlong,
    timestamp_delta=cython.longlong, offset_delta=cython.longlong,
)
cdef list _decode(bytes data, long long record_count, object base_offset, object base_timestamp)

@cython.locals(length=cython.longlong)
cdef Py_ssize_t _decode_headers(bytes data, Py_ssize_t position, long long left, list headers) except -1

cdef void _encode_headers(list parts, object headers) except *

cdef tuple _ONE_BYTE

@cython.locals(raw=cython.ulonglong)
cdef bytes _zigzag(long long number)

@cython.locals(parts=list, body=list, encoded=bytes)
cpdef bytes encode_records(object records, object base_offset, object base_timestamp)
