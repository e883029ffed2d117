# C types for codec_engine.py: with them Cython turns the same source into straight C; without them it is plain Python.
cimport cython
cimport barnabas.protocol.codec_c as raw

cdef Py_ssize_t _INLINE_BYTES, _MAX_STRING_BYTES, _MAX_LENGTH

cdef class Program

@cython.final
cdef class Step:
    cdef Py_UCS4 kind
    cdef bint is_signed, compact, nullable, ignorable, fresh
    cdef int width
    cdef Py_ssize_t slot
    cdef public Py_ssize_t smallest
    cdef long long tag
    cdef str path, name
    cdef object default
    cdef public Step element
    cdef public Program program

@cython.final
cdef class Program:
    cdef object cls
    cdef int version
    cdef str path
    cdef tuple members, absent, tags
    cdef object misplaced
    cdef public Py_ssize_t smallest
    cdef Py_ssize_t unknown_slot

@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Reader:
    cdef object frame, view
    cdef const unsigned char *data
    cdef Py_ssize_t position, end, room

    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t _advance(self, Py_ssize_t size) except -1

    @cython.locals(at=Py_ssize_t, byte=cython.ulonglong, value=cython.ulonglong, shift=int)
    cdef Py_ssize_t _varint(self) except -1

    @cython.locals(length=Py_ssize_t)
    cdef Py_ssize_t _length(self, Step step) except -2

    @cython.locals(kind=Py_UCS4, at=Py_ssize_t, stop=Py_ssize_t)
    cdef object _value(self, Step step)

    @cython.locals(kind=Py_UCS4, at=Py_ssize_t, data=bytes)
    cdef object _rarer_value(self, Step step)

    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, stop=Py_ssize_t)
    cdef object _blob(self, Step step)

    @cython.locals(element=Step, elements=list, count=Py_ssize_t, left=Py_ssize_t)
    cdef object _array(self, Step step)

    cdef object _count(self, str path, Py_ssize_t count)

    @cython.locals(marker=Py_ssize_t, at=Py_ssize_t)
    cdef object _nullable_struct(self, Step step)

    @cython.locals(step=Step, at=Py_ssize_t)
    cdef object struct(self, Program program)

    @cython.locals(
        step=Step, unknown=dict, count=Py_ssize_t, left=Py_ssize_t, stop=Py_ssize_t,
        tag=Py_ssize_t, size=Py_ssize_t,
    )
    cdef object _tagged_fields(self, object message, Program program)

@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Writer:
    cdef list chunks
    cdef raw.Buffer *buffer

    cdef object _varint(self, unsigned long long value)
    cdef object _length(self, Step step, long long length)
    @cython.locals(kind=Py_UCS4)
    cdef object _value(self, Step step, object value)
    @cython.locals(kind=Py_UCS4)
    cdef object _rarer_value(self, Step step, object value)
    @cython.locals(size=Py_ssize_t)
    cdef object _text(self, Step step, object value)
    @cython.locals(size=Py_ssize_t, in_memory=bint)
    cdef object _data(self, Step step, object value)
    @cython.locals(element=Step)
    cdef object _array(self, Step step, object value)
    cdef object _nullable_struct(self, Step step, object value)
    @cython.locals(step=Step, own=bint)
    cdef object struct(self, Program program, object message)
    @cython.locals(step=Step, entries=dict, inner=Writer)
    cdef object _tagged_fields(self, Program program, object message, object unknown)
    cdef object finish(self)

cdef Py_ssize_t memory_size(object data) except -1

@cython.final
cdef class Decoder:
    cdef Program program
    cdef str title
    cdef Py_ssize_t most

    @cython.locals(reader=Reader)
    cpdef tuple decode_at(self, object frame, Py_ssize_t position, Py_ssize_t end)

@cython.final
cdef class Encoder:
    cdef Program program
    cdef str title
    cdef object explain

    @cython.locals(writer=Writer)
    cpdef encode_to(self, object message, list chunks)
