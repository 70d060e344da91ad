#ifndef MILLRACE_PYTHON_BATCH_BATCH_TYPE_H_
#define MILLRACE_PYTHON_BATCH_BATCH_TYPE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "capi/millrace.h"
#include "python/array/tensor.h"
#include "python/batch/look.h"
#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/call/object.h"

namespace millrace::python {

// The common part of the types of batches. `Calls` has the handle in C, its calls, and whether its
// memory is that of a device: mr_batch or mr_device_batch.
template <typename Calls>
class BatchType {
 public:
  using Handle = typename Calls::Handle;

  struct Object {
    PyObject_HEAD;
    Handle* batch;
    Look look;
    mr_info info;
    int64_t rows;  // the rows of views
    bool gaps;     // true if rows of padding lie between those of samples, and are to be left out
  };

  static Object* As(PyObject* object) { return reinterpret_cast<Object*>(object); }

  // Takes over a batch of the loader that has this look, and sets the rows that hold samples.
  static Ref Take(PyTypeObject* type, Handle* owned, Look& look, int64_t& valid_rows) {
    std::unique_ptr<Handle, decltype(Calls::Release)> held(owned, Calls::Release);
    if (!look.fields->names) {
      look.fields = MakeFields(NamesOf(owned), Ref::Borrow(look.fields->codes.get()));
    }
    auto* const batch = Make<Object>(type);
    Ref object(reinterpret_cast<PyObject*>(batch));
    new (&batch->look) Look(look);
    batch->batch = held.release();
    batch->info = InfoOf(batch->batch);
    valid_rows = batch->info.valid_rows;
    batch->rows = look.trim ? valid_rows : batch->info.rows;
    const uint8_t* const valid = Calls::Valid(batch->batch);
    batch->gaps = look.trim && std::find(valid, valid + batch->rows, 0) != valid + batch->rows;
    return object;
  }

  static void Dealloc(PyObject* object) {
    Release(As(object)->batch);
    As(object)->look.~Look();
    Free(object);
  }

  // Returns a class for batches, which must be a subclass of `core` without fields of its own.
  static PyTypeObject* CheckedSubclass(PyObject* type, PyTypeObject* core) {
    const int is = PyObject_IsSubclass(type, reinterpret_cast<PyObject*>(core));
    if (is < 0) throw Raised();
    if (is == 0) Raise(PyExc_TypeError, "not a subclass of the class of batches");
    Py_INCREF(type);
    return reinterpret_cast<PyTypeObject*>(type);
  }

  static PyObject* Refuse(PyTypeObject*, PyObject*, PyObject*) {
    PyErr_SetString(PyExc_TypeError, "a loader makes batches");
    return nullptr;
  }

  // ---- Fields ----

  static size_t FieldNumber(PyObject* self, PyObject* name) {
    return NumberOf(*As(self)->look.fields, name);
  }

  static Fields::Kind KindOf(const Object& batch, size_t number) {
    return batch.look.fields->kinds[number];
  }

  // Returns a tensor with all of its rows.
  static mr_tensor WholeTensor(const Object& batch, size_t number) {
    mr_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    Check(Calls::TensorAt(batch.batch, number, &tensor));
    return tensor;
  }

  // Returns a tensor without the rows of padding behind the others, if they are to be left out.
  static mr_tensor TensorOf(const Object& batch, size_t number) {
    mr_tensor tensor = WholeTensor(batch, number);
    if (!batch.look.trim || batch.gaps) return tensor;
    if (KindOf(batch, number) == Fields::Kind::kRows) tensor.shape[0] = batch.rows;
    if (KindOf(batch, number) == Fields::Kind::kSplits) tensor.shape[0] = batch.rows + 1;
    return tensor;
  }

  // Throws BufferError if no view leaves out what is to be left out.
  static void CheckNoGaps(const Object& batch) {
    if (!batch.gaps) return;
    Raise(PyExc_BufferError,
          Calls::kOnDevice
              ? "rows without a sample lie between others, so that no view leaves them out: "
                "take whole(name) and kept(name), or a loader with last='pad'"
              : "rows without a sample lie between others, so that no view leaves them out: "
                "take the array of the field, or a loader with last='pad'");
  }

  // Returns a bool per row; for splits, one more, which is true.
  static Ref Mask(const Object& batch, bool splits) {
    const uint8_t* const valid = Calls::Valid(batch.batch);
    if (!splits) return BoolsOf(valid, batch.info.rows);
    std::vector<uint8_t> with_end(valid, valid + batch.info.rows);
    with_end.push_back(1);
    return BoolsOf(with_end.data(), batch.info.rows + 1);
  }

  static PyObject* GetDtype(PyObject* self, PyObject* name) {
    return Call(
        [&] { return Text(NameOf(WholeTensor(*As(self), FieldNumber(self, name)).dtype)); });
  }

  static Py_ssize_t Length(PyObject* self) {
    return static_cast<Py_ssize_t>(As(self)->look.fields->kinds.size());
  }
  static PyObject* Names(PyObject* self, void*) {
    return Ref::Borrow(As(self)->look.fields->names.get()).release();
  }
  static PyObject* Keys(PyObject* self, PyObject*) { return Names(self, nullptr); }
  static PyObject* Iterate(PyObject* self) {
    return PyObject_GetIter(As(self)->look.fields->names.get());
  }
  static int Contains(PyObject* self, PyObject* name) {
    return PyDict_Contains(As(self)->look.fields->numbers.get(), name);
  }

  // ---- Numbers ----

  template <int64_t mr_info::*kField>
  static PyObject* Signed(PyObject* self, void*) {
    return PyLong_FromLongLong(As(self)->info.*kField);
  }
  template <uint64_t mr_info::*kField>
  static PyObject* Unsigned(PyObject* self, void*) {
    return PyLong_FromUnsignedLongLong(As(self)->info.*kField);
  }
  static PyObject* Rows(PyObject* self, void*) { return PyLong_FromLongLong(As(self)->rows); }
  static PyObject* EndsEpoch(PyObject* self, void*) {
    return PyBool_FromLong(As(self)->info.ends_epoch);
  }
  static PyObject* HasGaps(PyObject* self, void*) { return PyBool_FromLong(As(self)->gaps); }
  static PyObject* IsTrimmed(PyObject* self, void*) { return PyBool_FromLong(As(self)->look.trim); }

  static PyObject* Codes(PyObject* self, void*) {
    return Ref::Borrow(As(self)->look.fields->codes.get()).release();
  }
  static PyObject* Device(PyObject* self, void*) { return PyLong_FromLong(As(self)->look.device); }

  static PyObject* Token(PyObject* self, void*) {
    return Call([&] {
      size_t size = 0;
      const char* const token = Calls::Token(As(self)->batch, &size);
      return Text(std::string(token, size));
    });
  }

  static PyObject* Valid(PyObject* self, void*) {
    return Call([&] {
      const Object& batch = *As(self);
      Ref mask = Mask(batch, false);
      if (!batch.gaps) {
        return Checked(PySequence_GetSlice(mask.get(), 0, static_cast<Py_ssize_t>(batch.rows)));
      }
      return Checked(PyObject_CallMethod(mask.get(), "compress", "O", mask.get()));
    });
  }

  static PyObject* Ids(PyObject* self, void*) {
    return Call([&] {
      const Object& batch = *As(self);
      static_assert(sizeof(mr_sample_id) == 3 * sizeof(int64_t));
      const int64_t shape[] = {batch.gaps ? batch.info.rows : batch.rows, 3};
      auto* const ids = const_cast<mr_sample_id*>(Calls::Ids(batch.batch));
      const Ref tensor(AsObject(MakeTensor(self, ids, MR_INT64, 2, shape, true)));
      Ref array = ToNumpy(tensor.get());
      if (!batch.gaps) return array;
      const Ref mask = Mask(batch, false);
      return Checked(PyObject_CallMethod(array.get(), "compress", "Oi", mask.get(), 0));
    });
  }

  static PyObject* Damaged(PyObject* self, void*) {
    return Call([&] {
      const Object& batch = *As(self);
      Ref all = Checked(PyList_New(0));
      for (int64_t i = 0; i < batch.info.num_damaged; ++i) {
        CheckedZero(PyList_Append(all.get(), DamagedSample(batch, static_cast<size_t>(i)).get()));
      }
      return all;
    });
  }

  static inline PyGetSetDef properties[] = {
      {"names", Names, nullptr, "The names of the fields.", nullptr},
      {"index", Unsigned<&mr_info::index>, nullptr,
       "The number of the global batch, from 0 over all epochs.", nullptr},
      {"epoch", Unsigned<&mr_info::epoch>, nullptr, "The number of the epoch of its first row.",
       nullptr},
      {"rows", Rows, nullptr, "The rows of every array.", nullptr},
      {"valid_rows", Signed<&mr_info::valid_rows>, nullptr, "The rows that hold samples.", nullptr},
      {"global_valid_rows", Signed<&mr_info::global_valid_rows>, nullptr,
       "The rows that hold samples, over all ranks: the divisor of a mean loss.", nullptr},
      {"first_global_row", Signed<&mr_info::first_global_row>, nullptr,
       "The number of row 0 within the global batch.", nullptr},
      {"ends_epoch", EndsEpoch, nullptr,
       "True if the epoch changes, or the stream ends, behind it.", nullptr},
      {"trimmed", IsTrimmed, nullptr, "True if rows of padding are left out.", nullptr},
      {"has_gaps", HasGaps, nullptr,
       "True if rows are left out that lie between others, so that arrays are copies.", nullptr},
      {"valid", Valid, nullptr, "A bool per row: False for padding, whose bytes are all 0.",
       nullptr},
      {"ids", Ids, nullptr,
       "int64[rows, 3]: the epoch, the number of the record in the whole source, and the number of "
       "the sample within its record; zeros for padding.",
       nullptr},
      {"damaged", Damaged, nullptr,
       "A list of (row, (epoch, record, sub_index), exception): the damaged samples of these rows, "
       "where the plan goes on in spite of damage. Rows are counted before any is left out.",
       nullptr},
      {"token", Token, nullptr, "The text from which a loader goes on behind this batch.", nullptr},
      {"codes", Codes, nullptr, "What its state says of the code of the plan's Python ops.",
       nullptr},
      {Calls::kOnDevice ? "device" : nullptr, Device, nullptr, "CUDA's number of the device.",
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};

 private:
  // The driver of a device may wait for a lock that another thread of Python holds.
  static void Release(Handle* batch) {
    if constexpr (Calls::kOnDevice) {
      const Unlocked unlocked;
      Calls::Release(batch);
    } else {
      Calls::Release(batch);
    }
  }

  static mr_info InfoOf(const Handle* batch) {
    mr_info info = {};
    info.struct_size = sizeof info;
    Check(Calls::Info(batch, &info));
    return info;
  }

  static std::vector<std::string> NamesOf(const Handle* batch) {
    std::vector<std::string> names;
    for (int32_t i = 0; i < InfoOf(batch).num_tensors; ++i) {
      mr_tensor tensor = {};
      tensor.struct_size = sizeof tensor;
      Check(Calls::TensorAt(batch, static_cast<size_t>(i), &tensor));
      names.emplace_back(tensor.name);
    }
    return names;
  }

  static Ref DamagedSample(const Object& batch, size_t index) {
    int64_t row = 0;
    mr_sample_id id = {};
    mr_error* error = nullptr;
    Check(Calls::Damaged(batch.batch, index, &row, &id, &error));
    return Checked(Py_BuildValue(
        "(L(KKK)N)", static_cast<long long>(row), static_cast<unsigned long long>(id.epoch),
        static_cast<unsigned long long>(id.record), static_cast<unsigned long long>(id.sub_index),
        ExceptionOf(error).release()));
  }
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_BATCH_BATCH_TYPE_H_
