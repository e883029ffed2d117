# C types for record.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython

cdef class Record:
    cdef public object key
    cdef public object value
    cdef public object timestamp
    cdef public object headers
    cdef public object offset
    cdef public object sequence

cdef class RecordsSummary:
    cdef readonly object record_count
    cdef readonly object min_timestamp
    cdef readonly object max_timestamp
    cdef readonly object max_timestamp_index
    cdef readonly object null_key_index
    cdef readonly object offset_gap_index

@cython.locals(shift=int, byte=cython.ulonglong)
cdef (unsigned long long, Py_ssize_t) _long_varint(
    const unsigned char[::1] data, Py_ssize_t position, unsigned long long raw, int max_bits
)

@cython.locals(raw=cython.ulonglong, byte=cython.ulonglong, shift=int)
cdef (long long, Py_ssize_t) _number(bytes data, Py_ssize_t position, int max_bits)

@cython.locals(left=cython.longlong)
cdef Py_ssize_t _skip_headers(const unsigned char[::1] data, Py_ssize_t position, unsigned long long raw) except -1

@cython.locals(
    position=Py_ssize_t, end=Py_ssize_t, stop=Py_ssize_t, index=cython.longlong, raw=cython.ulonglong,
    number=cython.longlong, min_delta=cython.longlong, max_delta=cython.longlong,
    max_index=cython.longlong, null_key_index=cython.longlong, offset_gap_index=cython.longlong,
)
cdef tuple _scan(const unsigned char[::1] data, long long record_count)

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
