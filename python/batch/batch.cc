#include "python/batch/batch.h"

#include <memory>

#include "capi/arrow.h"
#include "python/array/tensor.h"
#include "python/batch/batch_type.h"
#include "python/call/error.h"

namespace millrace::python {
namespace {

struct BatchCalls {
  using Handle = mr_batch;
  static constexpr bool kOnDevice = false;
  static constexpr auto Release = mr_batch_release;
  static constexpr auto Info = mr_batch_info;
  static constexpr auto TensorAt = mr_batch_tensor;
  static constexpr auto Valid = mr_batch_valid;
  static constexpr auto Ids = mr_batch_ids;
  static constexpr auto Damaged = mr_batch_damaged;
  static constexpr auto Token = mr_batch_token;
};
using Type = BatchType<BatchCalls>;
using Batch = Type::Object;

PyTypeObject* core_type = nullptr;
PyTypeObject* batch_type = nullptr;

const Batch* AsBatch(PyObject* object) { return Type::As(object); }

// ---- Fields ----

Tensor* View(PyObject* self, size_t number) {
  const Batch& batch = *AsBatch(self);
  const mr_tensor tensor = Type::TensorOf(batch, number);
  return MakeTensor(self, tensor.data, tensor.dtype, tensor.rank, tensor.shape,
                    batch.look.readonly);
}

// Returns a copy without the rows of padding. A row without a sample has no values where fields are
// ragged, so that the values stay, and the splits lose its beginning, which is that of the next.
Ref WithoutGaps(const Batch& batch, size_t number, Ref array) {
  const Fields::Kind kind = Type::KindOf(batch, number);
  if (kind == Fields::Kind::kRagged) return array;
  const Ref mask = Type::Mask(batch, kind == Fields::Kind::kSplits);
  return Checked(PyObject_CallMethod(array.get(), "compress", "Oi", mask.get(), 0));
}

Ref LeaveGapsOut(PyObject* self, size_t number, Ref array) {
  const Batch& batch = *AsBatch(self);
  return batch.gaps ? WithoutGaps(batch, number, std::move(array)) : std::move(array);
}

PyObject* GetBits(PyObject* self, PyObject* name) {
  return Call([&] {
    const size_t number = Type::FieldNumber(self, name);
    const Ref tensor(AsObject(View(self, number)));
    return LeaveGapsOut(self, number, ToNumpy(tensor.get()));
  });
}

PyObject* GetItem(PyObject* self, PyObject* name) {
  return Call([&] {
    const size_t number = Type::FieldNumber(self, name);
    const Ref tensor(AsObject(View(self, number)));
    return LeaveGapsOut(self, number, ArrayOf(tensor.get()));
  });
}

PyObject* GetTensor(PyObject* self, PyObject* name) {
  return Call([&] {
    Type::CheckNoGaps(*AsBatch(self));
    return Ref(AsObject(View(self, Type::FieldNumber(self, name))));
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

// Cuts the columns of a record batch behind its first rows, which all hold samples.
void TakeFirstRows(ArrowArray* array, int64_t rows) {
  const auto take = [rows](ArrowArray* of) {
    of->length = rows;
    of->null_count = 0;
  };
  take(array);
  for (int64_t i = 0; i < array->n_children; ++i) take(array->children[i]);
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
    if (batch.look.trim) TakeFirstRows(array, batch.rows);
    return Checked(Py_BuildValue("(NN)", schema_capsule.release(), array_capsule.release()));
  });
}

PyMethodDef methods[] = {
    {"keys", Type::Keys, METH_NOARGS, "Returns the names of the fields."},
    {"dtype", Type::GetDtype, METH_O,
     "dtype(name)\n--\n\nReturns the type of a field's elements, such as 'float32'."},
    {"tensor", GetTensor, METH_O,
     "tensor(name)\n--\n\nReturns the field as a view that has __dlpack__."},
    {"bits", GetBits, METH_O,
     "bits(name)\n--\n\nReturns the field as a NumPy array; bfloat16 as its bits in uint16."},
    {"__arrow_c_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(ToArrow)),
     METH_VARARGS | METH_KEYWORDS,
     "Returns the capsules of Arrow's C data interface; rows of padding are null."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A batch: its fields by their names.")},
                       {Py_tp_new, reinterpret_cast<void*>(Type::Refuse)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Type::Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, Type::properties},
                       {Py_tp_iter, reinterpret_cast<void*>(Type::Iterate)},
                       {Py_mp_length, reinterpret_cast<void*>(Type::Length)},
                       {Py_mp_subscript, reinterpret_cast<void*>(GetItem)},
                       {Py_sq_contains, reinterpret_cast<void*>(Type::Contains)},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.Batch", sizeof(Batch), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

void AddBatch(PyObject* module) {
  core_type = AddType(module, &spec);
  batch_type = core_type;
}

void SetBatchType(PyObject* type) { batch_type = Type::CheckedSubclass(type, core_type); }

Ref MakeBatch(mr_batch* owned, Look& look, int64_t& valid_rows) {
  return Type::Take(batch_type, owned, look, valid_rows);
}

}  // namespace millrace::python
