#include "python/write/writer.h"

#include <cstring>

#include "python/call/bytes.h"
#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/call/progress.h"

namespace millrace::python {
namespace {

struct Writer {
  PyObject_HEAD;
  mr_writer* writer;  // NULL once it is closed
  bool busy;          // true while a thread is in a call
};

Writer* AsWriter(PyObject* object) { return reinterpret_cast<Writer*>(object); }

void FreeWriter(Writer* writer) { mr_writer_free(std::exchange(writer->writer, nullptr)); }

void Dealloc(PyObject* object) {
  FreeWriter(AsWriter(object));
  Free(object);
}

// The use of a writer by one thread. The interpreter's lock guards the flag.
class Use {
 public:
  explicit Use(PyObject* object) : writer_(AsWriter(object)) {
    if (writer_->busy) Raise(PyExc_RuntimeError, "another thread is in a call of this writer");
    if (writer_->writer == nullptr) Raise(PyExc_ValueError, "the writer is closed");
    writer_->busy = true;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { writer_->busy = false; }
  Writer* operator->() const { return writer_; }

  // Calls write(writer), which returns an mr_error. A short record is written with the lock held:
  // to get it back beside a busy thread takes longer.
  template <typename Write>
  void Run(size_t bytes, const Write& write) const {
    constexpr size_t kShort = 32 << 10;
    mr_error* error = nullptr;
    if (bytes < kShort) {
      error = write(writer_->writer);
    } else {
      const Unlocked unlocked;
      error = write(writer_->writer);
    }
    Check(error);
  }

 private:
  Writer* const writer_;
};

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    const char* names[] = {"prefix",    "shards", "compression", "compression_level",
                           "overwrite", nullptr};
    mr_writer_options options = {};
    options.struct_size = sizeof options;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|izip", const_cast<char**>(names),
                                     &options.prefix, &options.shards, &options.compression,
                                     &options.compression_level, &options.overwrite)) {
      throw Raised();
    }
    Ref object(reinterpret_cast<PyObject*>(Make<Writer>(type)));
    Check(mr_writer_open(&options, &AsWriter(object.get())->writer));
    return object;
  });
}

PyObject* Write(PyObject* self, PyObject* record) {
  return CallNone([&] {
    const Use use(self);
    const Bytes bytes(record);
    const auto size = static_cast<size_t>(bytes.size);
    use.Run(size, [&](mr_writer* writer) { return mr_writer_write(writer, bytes.data, size); });
  });
}

// The features of an Example: tuples (name, dtype, values), where values are a list of bytes, or
// the bytes of an array.
class Features {
 public:
  explicit Features(PyObject* list) {
    const Py_ssize_t count = PyList_Size(list);
    if (count < 0) throw Raised();
    features_.reserve(static_cast<size_t>(count));
    values_.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) Add(PyList_GetItem(list, i));
  }

  const std::vector<mr_feature>& get() const { return features_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Values {
    std::vector<Bytes> held;
    std::vector<const void*> data;
    std::vector<size_t> sizes;
  };

  void Add(PyObject* tuple) {
    mr_feature feature = {};
    PyObject* values = nullptr;
    if (!PyArg_ParseTuple(tuple, "siO", &feature.name, &feature.dtype, &values)) throw Raised();
    Values& kept = values_.emplace_back();
    if (feature.dtype == MR_BYTES) {
      const Py_ssize_t count = PyList_Size(values);
      if (count < 0) throw Raised();
      for (Py_ssize_t i = 0; i < count; ++i) Hold(PyList_GetItem(values, i), kept);
      feature.num_values = kept.data.size();
      feature.values = kept.data.data();
      feature.sizes = kept.sizes.data();
    } else {
      Hold(values, kept);
      const size_t one = feature.dtype == MR_INT64 ? sizeof(int64_t) : sizeof(float);
      feature.num_values = kept.sizes[0] / one;
      feature.values = kept.data[0];
    }
    features_.push_back(feature);
  }

  void Hold(PyObject* object, Values& kept) {
    const Bytes& bytes = kept.held.emplace_back(object);
    kept.data.push_back(bytes.data);
    kept.sizes.push_back(static_cast<size_t>(bytes.size));
    bytes_ += kept.sizes.back();
  }

  std::vector<mr_feature> features_;
  std::vector<Values> values_;
  size_t bytes_ = 0;
};

PyObject* WriteExample(PyObject* self, PyObject* list) {
  return CallNone([&] {
    const Use use(self);
    const Features features(list);
    use.Run(features.bytes(), [&](mr_writer* writer) {
      return mr_writer_write_example(writer, features.get().data(), features.get().size());
    });
  });
}

PyObject* Close(PyObject* self, PyObject* function) {
  return CallNone([&] {
    const Use use(self);
    Progress progress(function);
    progress.Run([&] {
      mr_error* const error = mr_writer_close(use->writer, Progress::Tell, &progress);
      FreeWriter(use.operator->());
      return error;
    });
  });
}

PyObject* Abort(PyObject* self, PyObject*) {
  return CallNone([&] {
    if (AsWriter(self)->writer == nullptr) return;
    const Use use(self);
    const Unlocked unlocked;
    FreeWriter(use.operator->());
  });
}

PyObject* IsClosed(PyObject* self, void*) {
  return PyBool_FromLong(AsWriter(self)->writer == nullptr);
}

PyMethodDef methods[] = {
    {"write", Write, METH_O, "Appends a copy of a record, bytes or a buffer."},
    {"write_example", WriteExample, METH_O,
     "Appends a tf.train.Example of a list of tuples (name, dtype, values)."},
    {"close", Close, METH_O,
     "close(progress)\n--\n\nMoves the shards into place. The function, or None, is told (done, "
     "total) now and then."},
    {"abort", Abort, METH_NOARGS, "Ends the writer, which leaves nothing behind."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getters[] = {{"closed", IsClosed, nullptr, nullptr, nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A writer of TFRecord shards.")},
                       {Py_tp_new, reinterpret_cast<void*>(New)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getters},
                       {0, nullptr}};
PyType_Spec spec = {"millrace._core.Writer", sizeof(Writer), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

void AddWriter(PyObject* module) { AddType(module, &spec); }

}  // namespace millrace::python
