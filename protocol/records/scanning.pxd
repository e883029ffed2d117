# C types for scanning.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
      #define BARNABAS_CRC __attribute__((target("sse4.2")))
      #define BARNABAS_CRC8(crc, word) __builtin_ia32_crc32di(crc, word)
      #define BARNABAS_CRC1(crc, byte) __builtin_ia32_crc32qi((unsigned int)(crc), byte)
      #define BARNABAS_HAS_CRC __builtin_cpu_supports("sse4.2")
    #elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
      #include <arm_acle.h>
      #define BARNABAS_CRC
      #define BARNABAS_CRC8(crc, word) __crc32cd((unsigned int)(crc), word)
      #define BARNABAS_CRC1(crc, byte) __crc32cb((unsigned int)(crc), byte)
      #define BARNABAS_HAS_CRC 1
    #endif

    #define BARNABAS_CRC_FIELD 17
    #define BARNABAS_CRC_START 21

    #ifdef BARNABAS_CRC
    static inline unsigned long long barnabas_word(const unsigned char *at) {
        unsigned long long word;
        memcpy(&word, at, 8);
        return word;
    }

    static inline int barnabas_same(const unsigned char *batch, unsigned long long crc) {
        const unsigned char *at = batch + BARNABAS_CRC_FIELD;
        unsigned int claimed = (unsigned int)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        return claimed == (unsigned int)~crc;
    }

    BARNABAS_CRC static unsigned long long barnabas_rest(
            unsigned long long crc, const unsigned char *at, const unsigned char *end) {
        for (; end - at >= 8; at += 8) crc = BARNABAS_CRC8(crc, barnabas_word(at));
        for (; at < end; at++) crc = BARNABAS_CRC1(crc, *at);
        return crc;
    }

    /* The instruction takes three cycles and one can start in each: three batches go side by side. */
    BARNABAS_CRC static Py_ssize_t barnabas_count_whole(
            const unsigned char *data, const long long *starts, Py_ssize_t count) {
        Py_ssize_t number = 0;
        for (; number + 3 <= count; number += 3) {
            const unsigned char *a = data + starts[number], *b = data + starts[number + 1];
            const unsigned char *c = data + starts[number + 2], *end = data + starts[number + 3];
            const unsigned char *x = a + BARNABAS_CRC_START, *y = b + BARNABAS_CRC_START, *z = c + BARNABAS_CRC_START;
            unsigned long long i = 0xFFFFFFFF, j = 0xFFFFFFFF, k = 0xFFFFFFFF;
            Py_ssize_t words = b - x < c - y ? b - x : c - y;
            if (end - z < words) words = end - z;
            for (words /= 8; words > 0; words--, x += 8, y += 8, z += 8) {
                i = BARNABAS_CRC8(i, barnabas_word(x));
                j = BARNABAS_CRC8(j, barnabas_word(y));
                k = BARNABAS_CRC8(k, barnabas_word(z));
            }
            if (!barnabas_same(a, barnabas_rest(i, x, b))) return number;
            if (!barnabas_same(b, barnabas_rest(j, y, c))) return number + 1;
            if (!barnabas_same(c, barnabas_rest(k, z, end))) return number + 2;
        }
        for (; number < count; number++) {
            const unsigned char *batch = data + starts[number];
            unsigned long long crc = barnabas_rest(
                0xFFFFFFFF, batch + BARNABAS_CRC_START, data + starts[number + 1]);
            if (!barnabas_same(batch, crc)) return number;
        }
        return count;
    }
    #endif

    /* How many batches from the first on have the checksum that they say; -1 where the processor has no instruction. */
    static Py_ssize_t barnabas_count(const unsigned char *data, const long long *starts, Py_ssize_t count) {
        Py_ssize_t whole = -1;
    #ifdef BARNABAS_CRC
        if (BARNABAS_HAS_CRC) {
            Py_BEGIN_ALLOW_THREADS
            whole = barnabas_count_whole(data, starts, count);
            Py_END_ALLOW_THREADS
        }
    #else
        (void)data; (void)starts; (void)count;
    #endif
        return whole;
    }
    """
    Py_ssize_t barnabas_count(const unsigned char* data, const long long* starts, Py_ssize_t count)

cdef inline Py_ssize_t count_whole(const unsigned char* data, long long[::1] starts, Py_ssize_t count):
    return barnabas_count(data, &starts[0], count) if count else 0

cdef int ATTRIBUTES_LOW_POSITION, BASE_SEQUENCE_POSITION, CONTROL_MASK, CRC_POSITION, CRC_START
cdef int LAST_OFFSET_DELTA_POSITION, LEADER_EPOCH_POSITION, LENGTH_POSITION, MAGIC_POSITION
cdef int MAX_TIMESTAMP_POSITION, PRODUCER_EPOCH_POSITION, PRODUCER_ID_POSITION, TRANSACTIONAL_MASK
cdef int _MORE
cdef int _FRAMES
cdef int RECORD_BATCH_OVERHEAD
cdef int LOG_OVERHEAD
cdef int LEGACY_OVERHEAD_V0
cdef int _RING
cdef long long _MAX_INT32
cdef long long _LOW_32

cdef class ProducerRun:
    cdef readonly long long producer_id
    cdef readonly long long epoch
    cdef readonly bint restarted
    cdef readonly long long txn_first_offset
    cdef readonly long long last_timestamp
    cdef long long _count
    cdef long long[::1] _ring

    @cython.locals(slot=Py_ssize_t)
    cdef void _add(
        self, long long epoch, long long last_sequence, long long last_offset, long long delta, long long timestamp,
        int transactional
    ) noexcept

cdef class SegmentScanner:
    cdef long long _base_offset
    cdef bint _check_crc
    cdef long long _follow_from
    cdef long long _index_interval_bytes
    cdef ProducerRun _last_run
    cdef long long _last_time_entry
    cdef Py_ssize_t _max_entries
    cdef Py_ssize_t _max_time_entries
    cdef unsigned char[::1] _offset_entries
    cdef unsigned char[::1] _time_entries
    cdef long long[::1] _starts
    cdef int _why
    cdef readonly long long bytes_since_index_entry
    cdef readonly Py_ssize_t control_at
    cdef readonly object damage
    cdef public list epochs
    cdef readonly long long latest_epoch
    cdef readonly long long max_timestamp
    cdef readonly long long next_offset
    cdef readonly Py_ssize_t offset_entry_count
    cdef readonly long long offset_of_max_timestamp
    cdef public long long position
    cdef public dict runs
    cdef readonly int stop
    cdef readonly Py_ssize_t time_entry_count

    @cython.locals(
        at=Py_ssize_t, origin=Py_ssize_t, count=Py_ssize_t, size=cython.longlong, least=cython.longlong, magic=int,
        left_in_log=cython.longlong
    )
    cdef Py_ssize_t _frame(
        self, const unsigned char* data, Py_ssize_t at, Py_ssize_t length, long long end
    ) except -1

    @cython.locals(known=Py_ssize_t, number=Py_ssize_t, start=Py_ssize_t)
    cdef Py_ssize_t _whole(self, object piece, const unsigned char* data, Py_ssize_t count) except -1

    @cython.locals(
        number=Py_ssize_t, at=Py_ssize_t, size=cython.longlong, first=cython.longlong, last=cython.longlong,
        delta=cython.longlong, epoch=cython.longlong, attributes=int
    )
    cdef Py_ssize_t _apply_headers(self, const unsigned char* data, Py_ssize_t count) except -1

    cdef bint _offsets_fit(self, long long first, long long last) except -1

    @cython.locals(at=Py_ssize_t)
    cdef void _index(self, long long last_offset, long long size, long long timestamp, long long position) noexcept

    @cython.locals(at=Py_ssize_t)
    cdef void _index_time(self) noexcept

    @cython.locals(producer_id=cython.longlong, epoch=cython.longlong, sequence=cython.longlong, run=ProducerRun)
    cdef int _follow(
        self, const unsigned char* data, Py_ssize_t at, long long last_offset, long long delta, int transactional
    ) except -1

@cython.locals(raw=cython.longlong)
cdef long long _int32(const unsigned char* data, Py_ssize_t at) noexcept

@cython.locals(raw=cython.longlong)
cdef long long _int16(const unsigned char* data, Py_ssize_t at) noexcept

cdef long long _int64(const unsigned char* data, Py_ssize_t at) noexcept

cdef void _put32(unsigned char[::1] out, Py_ssize_t at, long long number) noexcept
