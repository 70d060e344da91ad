#include "python/device/device_batch.h"

#include "python/batch/batch_type.h"
#include "python/call/error.h"
#include "python/device/device_tensor.h"

namespace millrace::python {
namespace {

struct DeviceBatchCalls {
  using Handle = mr_device_batch;
  static constexpr bool kOnDevice = true;
  static constexpr auto Release = mr_device_batch_release;
  static constexpr auto Info = mr_device_batch_info;
  static constexpr auto TensorAt = mr_device_batch_tensor;
  static constexpr auto Valid = mr_device_batch_valid;
  static constexpr auto Ids = mr_device_batch_ids;
  static constexpr auto Damaged = mr_device_batch_damaged;
  static constexpr auto Token = mr_device_batch_token;
};
using Type = BatchType<DeviceBatchCalls>;

PyTypeObject* core_type = nullptr;
PyTypeObject* batch_type = nullptr;

Ref View(PyObject* self, size_t number, const mr_tensor& shown) {
  const Type::Object& batch = *Type::As(self);
  return MakeDeviceTensor(self, batch.batch, number, shown, batch.look);
}

PyObject* GetTensor(PyObject* self, PyObject* name) {
  return Call([&] {
    const Type::Object& batch = *Type::As(self);
    Type::CheckNoGaps(batch);
    const size_t number = Type::FieldNumber(self, name);
    return View(self, number, Type::TensorOf(batch, number));
  });
}

PyObject* GetWhole(PyObject* self, PyObject* name) {
  return Call([&] {
    const size_t number = Type::FieldNumber(self, name);
    return View(self, number, Type::WholeTensor(*Type::As(self), number));
  });
}

PyObject* GetKept(PyObject* self, PyObject* name) {
  return Call([&] {
    const Type::Object& batch = *Type::As(self);
    const Fields::Kind kind = Type::KindOf(batch, Type::FieldNumber(self, name));
    const bool keeps_all = !batch.look.trim || batch.info.valid_rows == batch.info.rows;
    if (keeps_all || kind == Fields::Kind::kRagged) return Ref::Borrow(Py_None);
    return Type::Mask(batch, kind == Fields::Kind::kSplits);
  });
}

// ---- Streams ----

// Returns the stream of the argument of a call, which must be one.
void* StreamArgument(PyObject* arguments) {
  PyObject* number = Py_None;
  if (!PyArg_ParseTuple(arguments, "|O", &number)) throw Raised();
  void* const stream = StreamOf(number);
  if (stream == MR_NO_STREAM) Raise(PyExc_ValueError, "-1 is no stream");
  return stream;
}

PyObject* WaitOn(PyObject* self, PyObject* arguments) {
  return CallNone(
      [&] { Check(mr_device_batch_wait_on(Type::As(self)->batch, StreamArgument(arguments))); });
}

PyObject* RecordUse(PyObject* self, PyObject* arguments) {
  return CallNone(
      [&] { Check(mr_device_batch_record_use(Type::As(self)->batch, StreamArgument(arguments))); });
}

PyObject* Ready(PyObject* self, PyObject*) {
  return Call([&] {
    int32_t ready = 0;
    Check(mr_device_batch_ready(Type::As(self)->batch, &ready));
    return Checked(PyBool_FromLong(ready));
  });
}

PyMethodDef methods[] = {
    {"keys", Type::Keys, METH_NOARGS, "Returns the names of the fields."},
    {"dtype", Type::GetDtype, METH_O,
     "dtype(name)\n--\n\nReturns the type of a field's elements, such as 'float32'."},
    {"tensor", GetTensor, METH_O,
     "tensor(name)\n--\n\nReturns the field as a view that has __dlpack__ and "
     "__cuda_array_interface__."},
    {"whole", GetWhole, METH_O,
     "whole(name)\n--\n\nReturns the same with the rows of padding, wherever they lie."},
    {"kept", GetKept, METH_O,
     "kept(name)\n--\n\nReturns a bool per row of whole(name), which is False for those that are "
     "to be left out; None if all are kept, and for the values of a ragged field."},
    {"wait_on", WaitOn, METH_VARARGS,
     "wait_on(stream=None)\n--\n\nMakes the work that is issued on `stream` from now on wait for "
     "the bytes. A stream is a number as in DLPack; None: the legacy default stream."},
    {"record_use", RecordUse, METH_VARARGS,
     "record_use(stream=None)\n--\n\nSays that the work issued on `stream` so far uses the batch, "
     "whose memory is not written before that work is done."},
    {"ready", Ready, METH_NOARGS, "Returns True if the bytes have arrived. Never waits."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A batch on a CUDA device.")},
                       {Py_tp_new, reinterpret_cast<void*>(Type::Refuse)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Type::Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, Type::properties},
                       {Py_tp_iter, reinterpret_cast<void*>(Type::Iterate)},
                       {Py_mp_length, reinterpret_cast<void*>(Type::Length)},
                       {Py_mp_subscript, reinterpret_cast<void*>(GetTensor)},
                       {Py_sq_contains, reinterpret_cast<void*>(Type::Contains)},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.DeviceBatch", sizeof(Type::Object), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

void AddDeviceBatch(PyObject* module) {
  core_type = AddType(module, &spec);
  batch_type = core_type;
}

void SetDeviceBatchType(PyObject* type) { batch_type = Type::CheckedSubclass(type, core_type); }

Ref MakeBatch(mr_device_batch* owned, Look& look, int64_t& valid_rows) {
  return Type::Take(batch_type, owned, look, valid_rows);
}

}  // namespace millrace::python
