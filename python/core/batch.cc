#include "python/core/batch.h"

#include <algorithm>
#include <new>

#include "capi/arrow.h"
#include "python/core/error.h"
#include "python/core/tensor.h"

namespace millrace::python {
namespace {

struct Batch {
  PyObject_HEAD;
  mr_batch* batch;
  Look look;
  mr_info info;
  int64_t rows;  // the rows of views
  bool gaps;     // true if rows of padding lie between those of samples, and are to be left out
};

PyTypeObject* core_type = nullptr;
PyTypeObject* batch_type = nullptr;

Batch* AsBatch(PyObject* object) { return reinterpret_cast<Batch*>(object); }

void Dealloc(PyObject* object) {
  Batch* const batch = AsBatch(object);
  mr_batch_release(batch->batch);
  batch->look.~Look();
  Free(object);
}

// ---- Fields ----

size_t NumberOf(const Batch& batch, PyObject* name) {
  PyObject* const number = PyDict_GetItemWithError(batch.look.fields->numbers.get(), name);
  if (number == nullptr) {
    if (PyErr_Occurred() == nullptr) {
      const Ref names = Checked(PyObject_Repr(batch.look.fields->names.get()));
      const Ref wanted = Checked(PyObject_Repr(name));
      PyErr_Format(PyExc_KeyError, "no field %U: the batch has %U", wanted.get(), names.get());
    }
    throw Raised();
  }
  return PyLong_AsSize_t(number);
}

// Returns the first extent of the views of a field.
int64_t ExtentOf(const Batch& batch, size_t number, int64_t extent) {
  if (!batch.look.trim || batch.gaps) return extent;
  switch (batch.look.fields->kinds[number]) {
    case Fields::Kind::kRagged:
      return extent;
    case Fields::Kind::kRows:
      return batch.rows;
    case Fields::Kind::kSplits:
      return batch.rows + 1;
  }
  return extent;
}

Tensor* View(PyObject* self, size_t number) {
  const Batch& batch = *AsBatch(self);
  mr_tensor tensor = {};
  tensor.struct_size = sizeof tensor;
  Check(mr_batch_tensor(batch.batch, number, &tensor));
  tensor.shape[0] = ExtentOf(batch, number, tensor.shape[0]);
  return MakeTensor(self, tensor.data, tensor.dtype, tensor.rank, tensor.shape,
                    batch.look.readonly);
}

// Returns a bool per row; for splits, one more, which is true.
Ref Mask(const Batch& batch, bool splits) {
  const uint8_t* const valid = mr_batch_valid(batch.batch);
  if (!splits) return BoolsOf(valid, batch.info.rows);
  std::vector<uint8_t> with_end(valid, valid + batch.info.rows);
  with_end.push_back(1);
  return BoolsOf(with_end.data(), batch.info.rows + 1);
}

// Returns a copy without the rows of padding. A row without a sample has no values where fields are
// ragged, so that the values stay, and the splits lose its beginning, which is that of the next.
Ref WithoutGaps(const Batch& batch, size_t number, Ref array) {
  const Fields::Kind kind = batch.look.fields->kinds[number];
  if (kind == Fields::Kind::kRagged) return array;
  const Ref mask = Mask(batch, kind == Fields::Kind::kSplits);
  return Checked(PyObject_CallMethod(array.get(), "compress", "Oi", mask.get(), 0));
}

Ref LeaveGapsOut(PyObject* self, size_t number, Ref array) {
  const Batch& batch = *AsBatch(self);
  return batch.gaps ? WithoutGaps(batch, number, std::move(array)) : std::move(array);
}

PyObject* GetBits(PyObject* self, PyObject* name) {
  return Call([&] {
    const size_t number = NumberOf(*AsBatch(self), name);
    const Ref tensor(AsObject(View(self, number)));
    return LeaveGapsOut(self, number, ToNumpy(tensor.get()));
  });
}

PyObject* GetItem(PyObject* self, PyObject* name) {
  return Call([&] {
    const size_t number = NumberOf(*AsBatch(self), name);
    const Ref tensor(AsObject(View(self, number)));
    return LeaveGapsOut(self, number, ArrayOf(tensor.get()));
  });
}

PyObject* GetDtype(PyObject* self, PyObject* name) {
  return Call([&] {
    const Batch& batch = *AsBatch(self);
    mr_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    Check(mr_batch_tensor(batch.batch, NumberOf(batch, name), &tensor));
    return Text(NameOf(tensor.dtype));
  });
}

PyObject* GetTensor(PyObject* self, PyObject* name) {
  return Call([&] {
    const Batch& batch = *AsBatch(self);
    if (batch.gaps) {
      Raise(PyExc_BufferError,
            "rows without a sample lie between others, so that no view leaves them out: "
            "take the array of the field, or a loader with last='pad'");
    }
    return Ref(AsObject(View(self, NumberOf(batch, name))));
  });
}

Py_ssize_t Length(PyObject* self) {
  return static_cast<Py_ssize_t>(AsBatch(self)->look.fields->kinds.size());
}

PyObject* Names(PyObject* self, void*) {
  return Ref::Borrow(AsBatch(self)->look.fields->names.get()).release();
}
PyObject* Keys(PyObject* self, PyObject*) { return Names(self, nullptr); }
PyObject* Iterate(PyObject* self) {
  return PyObject_GetIter(AsBatch(self)->look.fields->names.get());
}
int Contains(PyObject* self, PyObject* name) {
  return PyDict_Contains(AsBatch(self)->look.fields->numbers.get(), name);
}

// ---- Numbers ----

template <int64_t mr_info::*kField>
PyObject* Signed(PyObject* self, void*) {
  return PyLong_FromLongLong(AsBatch(self)->info.*kField);
}
template <uint64_t mr_info::*kField>
PyObject* Unsigned(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(AsBatch(self)->info.*kField);
}
PyObject* Rows(PyObject* self, void*) { return PyLong_FromLongLong(AsBatch(self)->rows); }
PyObject* EndsEpoch(PyObject* self, void*) {
  return PyBool_FromLong(AsBatch(self)->info.ends_epoch);
}
PyObject* HasGaps(PyObject* self, void*) { return PyBool_FromLong(AsBatch(self)->gaps); }
PyObject* IsTrimmed(PyObject* self, void*) { return PyBool_FromLong(AsBatch(self)->look.trim); }

PyObject* Token(PyObject* self, void*) {
  return Call([&] {
    size_t size = 0;
    const char* const token = mr_batch_token(AsBatch(self)->batch, &size);
    return Text(std::string(token, size));
  });
}

PyObject* Valid(PyObject* self, void*) {
  return Call([&] {
    const Batch& batch = *AsBatch(self);
    Ref mask = Mask(batch, false);
    if (!batch.gaps) {
      return Checked(PySequence_GetSlice(mask.get(), 0, static_cast<Py_ssize_t>(batch.rows)));
    }
    return Checked(PyObject_CallMethod(mask.get(), "compress", "O", mask.get()));
  });
}

PyObject* Ids(PyObject* self, void*) {
  return Call([&] {
    const Batch& batch = *AsBatch(self);
    static_assert(sizeof(mr_sample_id) == 3 * sizeof(int64_t));
    const int64_t shape[] = {batch.gaps ? batch.info.rows : batch.rows, 3};
    auto* const ids = const_cast<mr_sample_id*>(mr_batch_ids(batch.batch));
    const Ref tensor(AsObject(MakeTensor(self, ids, MR_INT64, 2, shape, true)));
    Ref array = ToNumpy(tensor.get());
    if (!batch.gaps) return array;
    const Ref mask = Mask(batch, false);
    return Checked(PyObject_CallMethod(array.get(), "compress", "Oi", mask.get(), 0));
  });
}

PyObject* Damaged(PyObject* self, void*) {
  return Call([&] {
    const Batch& batch = *AsBatch(self);
    Ref all = Checked(PyList_New(0));
    for (int64_t i = 0; i < batch.info.num_damaged; ++i) {
      int64_t row = 0;
      mr_sample_id id = {};
      mr_error* error = nullptr;
      Check(mr_batch_damaged(batch.batch, static_cast<size_t>(i), &row, &id, &error));
      const Ref one = Checked(Py_BuildValue(
          "(L(KKK)N)", static_cast<long long>(row), static_cast<unsigned long long>(id.epoch),
          static_cast<unsigned long long>(id.record), static_cast<unsigned long long>(id.sub_index),
          ExceptionOf(error).release()));
      CheckedZero(PyList_Append(all.get(), one.get()));
    }
    return all;
  });
}

// ---- Arrow: the C data interface in capsules ----

template <typename Struct>
void FreeArrow(PyObject* capsule) {
  auto* const of = static_cast<Struct*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
  if (of->release != nullptr) of->release(of);
  delete of;
}

// Python owns the struct, which is still empty.
template <typename Struct>
Ref ArrowCapsule(Struct** of, const char* name) {
  auto owned = std::make_unique<Struct>();
  Ref capsule = Checked(PyCapsule_New(owned.get(), name, FreeArrow<Struct>));
  *of = owned.release();
  return capsule;
}

PyObject* ToArrow(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    const char* names[] = {"requested_schema", nullptr};
    PyObject* requested = Py_None;  // a wish, which a producer need not fulfil
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O", const_cast<char**>(names),
                                     &requested)) {
      throw Raised();
    }
    ArrowArray* array = nullptr;
    ArrowSchema* schema = nullptr;
    Ref array_capsule = ArrowCapsule(&array, "arrow_array");
    Ref schema_capsule = ArrowCapsule(&schema, "arrow_schema");
    const Batch& batch = *AsBatch(self);
    if (batch.gaps) {
      Raise(PyExc_BufferError, "rows without a sample lie between others: take last='pad'");
    }
    Check(mr_batch_arrow(batch.batch, array, schema));
    if (batch.look.trim) {  // the first rows, which all hold samples
      array->length = batch.rows;
      array->null_count = 0;
    }
    return Checked(Py_BuildValue("(NN)", schema_capsule.release(), array_capsule.release()));
  });
}

PyMethodDef methods[] = {
    {"keys", Keys, METH_NOARGS, "Returns the names of the fields."},
    {"dtype", GetDtype, METH_O,
     "dtype(name)\n--\n\nReturns the type of a field's elements, such as 'float32'."},
    {"tensor", GetTensor, METH_O,
     "tensor(name)\n--\n\nReturns the field as a view that has __dlpack__."},
    {"bits", GetBits, METH_O,
     "bits(name)\n--\n\nReturns the field as a NumPy array; bfloat16 as its bits in uint16."},
    {"__arrow_c_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(ToArrow)),
     METH_VARARGS | METH_KEYWORDS,
     "Returns the capsules of Arrow's C data interface; rows of padding are null."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
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
    {"ends_epoch", EndsEpoch, nullptr, "True if the epoch changes, or the stream ends, behind it.",
     nullptr},
    {"trimmed", IsTrimmed, nullptr, "True if rows of padding are left out.", nullptr},
    {"has_gaps", HasGaps, nullptr,
     "True if rows are left out that lie between others, so that arrays are copies.", nullptr},
    {"valid", Valid, nullptr, "A bool per row: False for padding, whose bytes are all 0.", nullptr},
    {"ids", Ids, nullptr,
     "int64[rows, 3]: the epoch, the number of the record in the whole source, and the number of "
     "the sample within its record; zeros for padding.",
     nullptr},
    {"damaged", Damaged, nullptr,
     "A list of (row, (epoch, record, sub_index), exception): the damaged samples of these rows, "
     "where the plan goes on in spite of damage. Rows are counted before any is left out.",
     nullptr},
    {"token", Token, nullptr, "The text from which a loader goes on behind this batch.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* Refuse(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "a loader makes batches");
  return nullptr;
}
PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A batch: its fields by their names.")},
                       {Py_tp_new, reinterpret_cast<void*>(Refuse)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_tp_iter, reinterpret_cast<void*>(Iterate)},
                       {Py_mp_length, reinterpret_cast<void*>(Length)},
                       {Py_mp_subscript, reinterpret_cast<void*>(GetItem)},
                       {Py_sq_contains, reinterpret_cast<void*>(Contains)},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.Batch", sizeof(Batch), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

// ---- Making one ----

std::vector<std::string> NamesOf(const mr_batch* batch) {
  mr_info info = {};
  info.struct_size = sizeof info;
  Check(mr_batch_info(batch, &info));
  std::vector<std::string> names;
  for (int32_t i = 0; i < info.num_tensors; ++i) {
    mr_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    Check(mr_batch_tensor(batch, static_cast<size_t>(i), &tensor));
    names.emplace_back(tensor.name);
  }
  return names;
}

std::vector<Fields::Kind> KindsOf(const std::vector<std::string>& names) {
  std::vector<Fields::Kind> kinds(names.size(), Fields::Kind::kRows);
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i] != names[i - 1] + "/row_splits") continue;
    kinds[i - 1] = Fields::Kind::kRagged;
    kinds[i] = Fields::Kind::kSplits;
  }
  return kinds;
}

std::shared_ptr<const Fields> FieldsOf(const mr_batch* batch) {
  const std::vector<std::string> texts = NamesOf(batch);
  auto fields = std::make_shared<Fields>();
  fields->names = Checked(PyTuple_New(static_cast<Py_ssize_t>(texts.size())));
  fields->numbers = Checked(PyDict_New());
  for (size_t i = 0; i < texts.size(); ++i) {
    Ref name = Text(texts[i]);
    const Ref number = Checked(PyLong_FromSize_t(i));
    CheckedZero(PyDict_SetItem(fields->numbers.get(), name.get(), number.get()));
    CheckedZero(PyTuple_SetItem(fields->names.get(), static_cast<Py_ssize_t>(i), name.release()));
  }
  fields->kinds = KindsOf(texts);
  return fields;
}

}  // namespace

void AddBatch(PyObject* module) {
  core_type = AddType(module, &spec);
  batch_type = core_type;
}

void SetBatchType(PyObject* type) {
  const int is = PyObject_IsSubclass(type, reinterpret_cast<PyObject*>(core_type));
  if (is < 0) throw Raised();
  if (is == 0) Raise(PyExc_TypeError, "not a subclass of Batch");
  Py_INCREF(type);
  batch_type = reinterpret_cast<PyTypeObject*>(type);
}

Ref MakeBatch(mr_batch* owned, Look& look) {
  std::unique_ptr<mr_batch, decltype(&mr_batch_release)> held(owned, mr_batch_release);
  if (look.fields == nullptr) look.fields = FieldsOf(owned);
  auto* const batch = Make<Batch>(batch_type);
  Ref object(reinterpret_cast<PyObject*>(batch));
  new (&batch->look) Look(look);
  batch->batch = held.release();
  batch->info.struct_size = sizeof batch->info;
  Check(mr_batch_info(batch->batch, &batch->info));
  batch->rows = look.trim ? batch->info.valid_rows : batch->info.rows;
  const uint8_t* const valid = mr_batch_valid(batch->batch);
  batch->gaps = look.trim && std::find(valid, valid + batch->rows, 0) != valid + batch->rows;
  return object;
}

}  // namespace millrace::python
