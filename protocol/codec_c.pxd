# What codec_engine does with memory where it is compiled. codec_plain.py is the same in Python: name by name.
#
# Every function trusts its caller about bounds; the caller is codec_engine, which checks them all. `start_of` refuses
# whatever is not bytes in one piece, and the memory stays where it is while the caller holds `frame`.

cdef extern from *:
    """
    #include <string.h>
    #include <structmember.h>

    static const unsigned char *codec_start_of(PyObject *frame) {
        if (PyBytes_Check(frame)) return (const unsigned char *)PyBytes_AS_STRING(frame);
        if (PyMemoryView_Check(frame) && PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(frame), 'C'))
            return (const unsigned char *)PyMemoryView_GET_BUFFER(frame)->buf;
        PyErr_SetString(PyExc_TypeError, "a frame is bytes, or a memoryview of bytes in one piece");
        return NULL;
    }

    static inline unsigned long long codec_unsigned(const unsigned char *data, Py_ssize_t at, int width) {
        unsigned long long value = 0;
        for (int index = 0; index < width; index++) value = value << 8 | data[at + index];
        return value;
    }

    /* A slot of an object whose class has no __dict__ is a pointer at a fixed place in the object. */
    static Py_ssize_t codec_slot_of(PyObject *cls, PyObject *name) {
        PyObject *member = PyObject_GetAttr(cls, name);
        if (member == NULL) return -1;
        Py_ssize_t offset = -1;
        if (Py_IS_TYPE(member, &PyMemberDescr_Type) && ((PyMemberDescrObject *)member)->d_member->type == T_OBJECT_EX)
            offset = ((PyMemberDescrObject *)member)->d_member->offset;
        else
            PyErr_Format(PyExc_TypeError, "%R of %R is no slot", name, cls);
        Py_DECREF(member);
        return offset;
    }

    static inline void codec_set_slot(PyObject *object, Py_ssize_t slot, PyObject *value) {
        PyObject **place = (PyObject **)((char *)object + slot);
        PyObject *before = *place;
        Py_INCREF(value);
        *place = value;
        Py_XDECREF(before);
    }

    static inline PyObject *codec_get_slot(PyObject *object, Py_ssize_t slot) {
        PyObject *value = *(PyObject **)((char *)object + slot);
        if (value == NULL) PyErr_SetString(PyExc_AttributeError, "a field has no value");
        Py_XINCREF(value);
        return value;
    }

    static inline PyObject *codec_new(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }

    typedef struct {
        char *start;
        Py_ssize_t size, capacity;
    } CodecBuffer;

    static CodecBuffer *codec_buffer(void) {
        const Py_ssize_t capacity = 480;
        CodecBuffer *buffer = (CodecBuffer *)PyMem_Malloc(sizeof(CodecBuffer));
        char *start = buffer == NULL ? NULL : (char *)PyMem_Malloc(capacity);
        if (start == NULL) {
            PyMem_Free(buffer);
            PyErr_NoMemory();
            return NULL;
        }
        buffer->start = start;
        buffer->size = 0;
        buffer->capacity = capacity;
        return buffer;
    }

    static void codec_free(CodecBuffer *buffer) {
        if (buffer != NULL) PyMem_Free(buffer->start);
        PyMem_Free(buffer);
    }

    static int codec_grow(CodecBuffer *buffer, Py_ssize_t size) {
        Py_ssize_t capacity = 2 * (buffer->size + size);
        char *start = (char *)PyMem_Realloc(buffer->start, capacity);
        if (start == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        buffer->start = start;
        buffer->capacity = capacity;
        return 0;
    }

    /* Where the next `size` bytes go; NULL when there is no memory for them. */
    static inline char *codec_room(CodecBuffer *buffer, Py_ssize_t size) {
        if (size > buffer->capacity - buffer->size && codec_grow(buffer, size) < 0) return NULL;
        char *place = buffer->start + buffer->size;
        buffer->size += size;
        return place;
    }

    static inline int codec_put_byte(CodecBuffer *buffer, unsigned char byte) {
        char *place = codec_room(buffer, 1);
        if (place == NULL) return -1;
        *place = (char)byte;
        return 0;
    }

    static inline int codec_put_unsigned(CodecBuffer *buffer, unsigned long long value, int width) {
        char *place = codec_room(buffer, width);
        if (place == NULL) return -1;
        for (int index = width - 1; index >= 0; index--) {
            place[index] = (char)(value & 0xFF);
            value >>= 8;
        }
        return 0;
    }

    static int codec_range(PyObject *value) {
        PyErr_Format(PyExc_OverflowError, "%R is out of range", value);
        return -1;
    }

    static inline int codec_put_number(CodecBuffer *buffer, PyObject *value, int width, int is_signed) {
        long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred()) return -1;
        if (width < 8) {
            long long half = 1LL << (8 * width - 1);
            if (is_signed ? number < -half || number >= half : number < 0 || number >= 2 * half)
                return codec_range(value);
        }
        return codec_put_unsigned(buffer, (unsigned long long)number, width);
    }

    static int codec_put_data(CodecBuffer *buffer, PyObject *data) {
        Py_buffer view;
        if (PyBytes_CheckExact(data)) {
            char *place = codec_room(buffer, PyBytes_GET_SIZE(data));
            if (place == NULL) return -1;
            memcpy(place, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data));
            return 0;
        }
        if (PyObject_GetBuffer(data, &view, PyBUF_CONTIG_RO) < 0) return -1;
        char *place = codec_room(buffer, view.len);
        if (place != NULL) memcpy(place, view.buf, view.len);
        PyBuffer_Release(&view);
        return place == NULL ? -1 : 0;
    }

    static Py_ssize_t codec_text_size(PyObject *text) {
        Py_ssize_t size;
        return PyUnicode_AsUTF8AndSize(text, &size) == NULL ? -1 : size;
    }

    static int codec_put_text(CodecBuffer *buffer, PyObject *text) {
        Py_ssize_t size;
        const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
        char *place = utf8 == NULL ? NULL : codec_room(buffer, size);
        if (place == NULL) return -1;
        memcpy(place, utf8, size);
        return 0;
    }

    static PyObject *codec_take(CodecBuffer *buffer) {
        PyObject *taken = PyBytes_FromStringAndSize(buffer->start, buffer->size);
        buffer->size = 0;
        return taken;
    }
    """
    ctypedef struct Buffer "CodecBuffer":
        pass

    const unsigned char *start_of "codec_start_of"(object frame) except NULL
    unsigned long long unsigned_at "codec_unsigned"(const unsigned char *data, Py_ssize_t at, int width) noexcept
    Py_ssize_t slot_of "codec_slot_of"(object cls, object name) except -1
    void set_slot "codec_set_slot"(object object, Py_ssize_t slot, object value) noexcept
    object get_slot "codec_get_slot"(object object, Py_ssize_t slot)
    object new "codec_new"(object cls)
    Buffer *new_buffer "codec_buffer"() except NULL
    void free_buffer "codec_free"(Buffer *buffer) noexcept
    int put_byte "codec_put_byte"(Buffer *buffer, unsigned char byte) except -1
    int put_unsigned "codec_put_unsigned"(Buffer *buffer, unsigned long long value, int width) except -1
    int put_number "codec_put_number"(Buffer *buffer, object value, int width, bint is_signed) except -1
    int put_data "codec_put_data"(Buffer *buffer, object data) except -1
    Py_ssize_t text_size "codec_text_size"(object text) except -1
    int put_text "codec_put_text"(Buffer *buffer, object text) except -1
    object take "codec_take"(Buffer *buffer)


cdef inline long long signed_at(const unsigned char *data, Py_ssize_t at, int width) noexcept:
    if width == 1:
        return <signed char>data[at]
    if width == 2:
        return <short>unsigned_at(data, at, 2)
    if width == 4:
        return <int>unsigned_at(data, at, 4)
    return <long long>unsigned_at(data, at, 8)


cdef inline bytes data_between(const unsigned char *data, Py_ssize_t at, Py_ssize_t stop):
    return data[at:stop]


cdef inline str text_between(const unsigned char *data, Py_ssize_t at, Py_ssize_t stop):
    return data[at:stop].decode("utf-8", "replace")
