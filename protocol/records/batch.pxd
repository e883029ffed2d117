# C types for batch.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

from barnabas.protocol.records.record cimport RecordsSummary as Summary, validate_span

cdef int _MAGIC
cdef int _OVERHEAD
cdef int _LENGTH_END
cdef int _SMALL
cdef int _CRC_START
cdef int _COMPRESSED
cdef int _LEADER_PREFIX_BYTES

@cython.final
cdef class RecordBatch:
    cdef readonly object buffer
    cdef readonly Py_ssize_t position
    cdef readonly long long size_in_bytes
    cdef public long long base_offset
    cdef public long long partition_leader_epoch
    cdef public int magic
    cdef public long long crc
    cdef public int attributes
    cdef public long long last_offset_delta
    cdef public long long base_timestamp
    cdef public long long max_timestamp
    cdef public long long producer_id
    cdef public int producer_epoch
    cdef public long long base_sequence
    cdef public long long record_count

    @cython.locals(length=cython.longlong, left=Py_ssize_t)
    cdef int _read(self, object buffer, Py_ssize_t position, bint header_only) except -1

    @cython.locals(position=Py_ssize_t)
    cdef object _from(self, Py_ssize_t start)

    cdef Py_ssize_t _crc_of_bytes(self) except -1

# What follows goes by address, where Python slices a memoryview: that would be half of what a small batch costs.

# What layout.HEADER unpacks, from the 61 bytes at `position`, which the buffer has; returns the batch length.
cdef inline long long read_header(RecordBatch batch, object buffer, Py_ssize_t position) except? -1:
    cdef Py_buffer view
    cdef const unsigned char* at
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    at = <const unsigned char*> view.buf + position
    batch.base_offset = int64_at(at)
    batch.partition_leader_epoch = int32_at(at + 12)
    batch.magic = at[16]
    batch.crc = <long long> uint32_at(at + 17)
    batch.attributes = <short> (at[21] << 8 | at[22])
    batch.last_offset_delta = int32_at(at + 23)
    batch.base_timestamp = int64_at(at + 27)
    batch.max_timestamp = int64_at(at + 35)
    batch.producer_id = int64_at(at + 43)
    batch.producer_epoch = <short> (at[51] << 8 | at[52])
    batch.base_sequence = int32_at(at + 53)
    batch.record_count = int32_at(at + 57)
    cdef long long length = int32_at(at + 8)
    PyBuffer_Release(&view)
    return length

# The checksum of the bytes; the view that `crc32c` is given ends with the call.
cdef inline Py_ssize_t crc_of(RecordBatch batch, object crc32c) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(batch.buffer, &view, PyBUF_SIMPLE)
    try:
        return crc32c(PyMemoryView_FromMemory(
            <char*> view.buf + batch.position + 21, end_of(batch, &view) - batch.position - 21, 0x100
        ))
    finally:
        PyBuffer_Release(&view)

# The records, which are not compressed, checked.
cdef inline Summary validated(RecordBatch batch):
    cdef Py_buffer view
    PyObject_GetBuffer(batch.buffer, &view, PyBUF_SIMPLE)
    try:
        return validate_span(
            <const unsigned char*> view.buf + batch.position + 61, end_of(batch, &view) - batch.position - 61,
            batch.record_count, batch.base_timestamp,
        )
    finally:
        PyBuffer_Release(&view)

# A copy of the batch with its base offset and leader epoch in front.
cdef inline bytes stamped_copy(RecordBatch batch):
    cdef Py_buffer view
    cdef Py_ssize_t size
    cdef unsigned char* at
    PyObject_GetBuffer(batch.buffer, &view, PyBUF_SIMPLE)
    try:
        size = end_of(batch, &view) - batch.position
        copy = PyBytes_FromStringAndSize(<char*> view.buf + batch.position, size)
    finally:
        PyBuffer_Release(&view)
    at = <unsigned char*> PyBytes_AS_STRING(copy)
    put32(at, <unsigned int> (batch.base_offset >> 32))
    put32(at + 4, <unsigned int> batch.base_offset)
    put32(at + 12, <unsigned int> batch.partition_leader_epoch)
    return copy

# Where the batch ends in its buffer, which of a batch whose header is all that is there comes first.
cdef inline Py_ssize_t end_of(RecordBatch batch, Py_buffer* view) noexcept:
    return min(<Py_ssize_t> (batch.position + batch.size_in_bytes), view.len)

cdef inline void put32(unsigned char* at, unsigned int number) noexcept:
    at[0] = number >> 24
    at[1] = number >> 16 & 0xFF
    at[2] = number >> 8 & 0xFF
    at[3] = number & 0xFF

cdef inline unsigned long long uint32_at(const unsigned char* at) noexcept:
    return <unsigned int> at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]

cdef inline int int32_at(const unsigned char* at) noexcept:
    return <int> uint32_at(at)

cdef inline long long int64_at(const unsigned char* at) noexcept:
    return <long long> (uint32_at(at) << 32 | uint32_at(at + 4))
