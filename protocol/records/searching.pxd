# C types for searching.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython

cdef int LAST_OFFSET_DELTA_POSITION, LEGACY_TIMESTAMP_POSITION, LENGTH_POSITION, LOG_OVERHEAD
cdef int MAGIC_POSITION, MAX_TIMESTAMP_POSITION
cdef int _PREFIX
cdef int _TO_TIMESTAMP
cdef int RECORD_BATCH_OVERHEAD
cdef int _LEGACY_OVERHEAD
cdef long long _MAX_INT32
cdef long long _LOW_32

@cython.locals(middle=Py_ssize_t, at=Py_ssize_t, value=cython.longlong, rest=cython.longlong)
cdef Py_ssize_t _count(
    const unsigned char[::1] entries, Py_ssize_t low, Py_ssize_t high, Py_ssize_t entry_bytes, long long target
) except -1

@cython.locals(size=cython.longlong, magic=int, last_offset=cython.longlong, timestamp=cython.longlong)
cdef tuple _seek(
    const unsigned char* data, Py_ssize_t length, Py_ssize_t at, long long target_offset, long long least_timestamp
)

@cython.locals(raw=cython.longlong)
cdef long long _int32(const unsigned char* data, Py_ssize_t at) noexcept

cdef long long _int64(const unsigned char* data, Py_ssize_t at) noexcept
