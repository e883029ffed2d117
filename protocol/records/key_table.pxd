# C types for key_table.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython
from libc.stdint cimport int64_t

cdef unsigned long long _MASK64, _START_0, _START_1, _START_2, _START_3

@cython.final
cdef class KeyTable:
    cdef readonly long long slots
    cdef readonly long long size
    cdef public long long latest_offset
    cdef long long _held
    cdef long long _most
    cdef bint _compiled
    cdef bytes _secret
    cdef unsigned long long _secret_0
    cdef unsigned long long _secret_1
    cdef unsigned long long[::1] _words

    cdef int _allocate(self, long long slots) except -1

    @cython.locals(
        at=Py_ssize_t, to=Py_ssize_t, end=Py_ssize_t, words="unsigned long long[::1]", taken="unsigned long long[::1]"
    )
    cdef int _grow(self) except -1

    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, words="unsigned long long[::1]")
    cdef Py_ssize_t _slot(self, unsigned long long first, unsigned long long second) noexcept

    cdef (unsigned long long, unsigned long long) _hash(
        self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
    ) noexcept

    @cython.locals(first=cython.ulonglong, second=cython.ulonglong, at=Py_ssize_t)
    cdef int _put(
        self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, long long offset
    ) except -1

    @cython.locals(first=cython.ulonglong, second=cython.ulonglong)
    cdef int64_t _get(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) noexcept

cdef (unsigned long long, unsigned long long, unsigned long long, unsigned long long) _rounds(
    unsigned long long v0, unsigned long long v1, unsigned long long v2, unsigned long long v3, int count
) noexcept

@cython.locals(
    v0=cython.ulonglong, v1=cython.ulonglong, v2=cython.ulonglong, v3=cython.ulonglong, word=cython.ulonglong,
    first=cython.ulonglong, size=cython.ulonglong, position=Py_ssize_t, at=Py_ssize_t,
)
cdef (unsigned long long, unsigned long long) _siphash(
    const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, unsigned long long secret_0,
    unsigned long long secret_1,
) noexcept

@cython.locals(word=cython.ulonglong)
cdef unsigned long long _word(const unsigned char[::1] data, Py_ssize_t at) noexcept
