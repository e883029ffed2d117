# C types for cleaning.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython
from libc.stdint cimport int64_t

from barnabas.protocol.records.key_table cimport KeyTable

cdef int ATTRIBUTES_LOW_POSITION, BASE_TIMESTAMP_POSITION, CRC_POSITION, CRC_START
cdef int LAST_OFFSET_DELTA_POSITION, LENGTH_POSITION, MAGIC_POSITION, MAX_TIMESTAMP_POSITION
cdef int PRODUCER_ID_POSITION, RECORD_COUNT_POSITION
cdef unsigned long long _MASK64, _MASK32
cdef long long _SIGN_32, _TWO_TO_32
cdef int RECORD_BATCH_OVERHEAD, LOG_OVERHEAD, COMPRESSION_MASK, TIMESTAMP_TYPE_MASK, _TRANSACTIONAL_OR_CONTROL, DELETE_HORIZON_MASK
cdef int _GROWTH_OF_A_RECORD

@cython.final
cdef class KeyMapper:
    cdef readonly KeyTable table
    cdef readonly long long first_offset
    cdef readonly long long end_offset
    cdef readonly long long max_entries
    cdef public long long messages_read
    cdef public bint is_full

    @cython.locals(
        end=Py_ssize_t, size=Py_ssize_t, base_offset=cython.longlong, last_offset=cython.longlong, count=cython.longlong,
        start=Py_ssize_t, stop=Py_ssize_t, codec=int, is_taken=cython.bint,
    )
    cdef Py_ssize_t _map_plain(self, const unsigned char[::1] data, object view, Py_ssize_t position) except -1

    @cython.locals(
        length=cython.longlong, stop=Py_ssize_t, offset_delta=cython.longlong, key_length=cython.longlong,
        offset=cython.longlong, index=cython.longlong,
    )
    cdef bint _map(
        self, const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end, long long record_count,
        long long base_offset,
    ) except -1

@cython.final
cdef class RecordFilter:
    cdef readonly KeyTable table
    cdef readonly long long latest_offset
    cdef readonly long long now_ms
    cdef readonly long long horizon_ms
    cdef readonly long long upper_bound_offset
    cdef readonly dict last_data_offsets
    cdef public long long messages_read
    cdef public long long messages_kept
    cdef public long long invalid_messages
    cdef readonly list appended
    cdef readonly Py_ssize_t written
    cdef Py_ssize_t _output_bytes
    cdef object _view
    cdef unsigned char[::1] _out
    cdef int[::1] _starts
    cdef readonly bint has_tombstone
    cdef long long _max_timestamp

    cdef void _use(self, object output) except *

    cdef void _make_room(self, Py_ssize_t size) except *

    @cython.locals(
        end=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, codec=int,
    )
    cdef Py_ssize_t _filter_plain(self, const unsigned char[::1] data, object view, Py_ssize_t position) except -1

    @cython.locals(
        base_offset=cython.longlong, last_offset=cython.longlong, count=cython.longlong, kept=cython.longlong,
        has_horizon=cython.bint, keeps_deletes=cython.bint, codec=int,
    )
    cdef void _filter_batch(
        self, const unsigned char[::1] data, Py_ssize_t position, const unsigned char[::1] source, Py_ssize_t start,
        Py_ssize_t end, object batch,
    ) except *

    cpdef bint stays_empty(self, long long producer_id, long long last_offset) except *

    @cython.locals(
        start=Py_ssize_t, stop=Py_ssize_t, key=Py_ssize_t, length=cython.longlong, offset_delta=cython.longlong,
        key_length=cython.longlong, value_length=cython.longlong, index=cython.longlong, kept=cython.longlong,
        stays=cython.bint,
    )
    cdef int64_t _select(
        self, const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end, long long record_count,
        long long base_offset, bint keeps_deletes, bint by_key,
    ) except -1

    cdef void _grow_starts(self) except *

    @cython.locals(
        at=Py_ssize_t, stop=Py_ssize_t, unpacked_bytes=Py_ssize_t, appended=cython.bint, attributes=int,
        old_base=cython.longlong,
        new_base=cython.longlong, max_timestamp=cython.longlong, shift=cython.longlong,
    )
    cdef void _write_rebuilt(
        self, const unsigned char[::1] data, object batch, long long kept, int codec, bint sets_horizon
    ) except *

    @cython.locals(
        stop=Py_ssize_t, position=Py_ssize_t, length=cython.longlong, delta=cython.longlong, index=cython.longlong,
        greatest=cython.longlong,
    )
    cdef Py_ssize_t _copy_records(
        self, const unsigned char[::1] data, unsigned char[::1] out, Py_ssize_t at, long long kept, long long shift,
        bint appended,
    ) except -1

@cython.locals(size=cython.longlong)
cdef Py_ssize_t _plain_batch_size(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) except -1

cdef void _check_crc(const unsigned char[::1] data, object view, Py_ssize_t position, Py_ssize_t size) except *

@cython.locals(number=cython.longlong)
cdef int64_t _int32(const unsigned char[::1] data, Py_ssize_t at) noexcept

@cython.locals(low=cython.longlong)
cdef int64_t _int64(const unsigned char[::1] data, Py_ssize_t at) noexcept

@cython.locals(raw=cython.ulonglong, byte=cython.ulonglong, shift=int, end=Py_ssize_t)
cdef (long long, Py_ssize_t) _number(const unsigned char[::1] data, Py_ssize_t position, int max_bits) noexcept

@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t _skip_number(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(position=Py_ssize_t, delta=cython.longlong)
cdef int64_t _timestamp_delta(const unsigned char[::1] data, Py_ssize_t start) noexcept

@cython.locals(raw=cython.ulonglong)
cdef int _number_bytes(long long number) noexcept

@cython.locals(raw=cython.ulonglong)
cdef Py_ssize_t _write_number(unsigned char[::1] out, Py_ssize_t at, long long number) except -1
