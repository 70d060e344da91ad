#include "python/device/device_tensor.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "python/array/dlpack.h"
#include "python/array/tensor.h"
#include "python/call/error.h"

namespace millrace::python {
namespace {

// A view of the memory of a device.
struct DeviceTensor {
  PyObject_HEAD;
  PyObject* owner;  // has the batch
  const mr_device_batch* batch;
  size_t number;
  int32_t device;
  int32_t dtype;  // an mr_dtype
  int32_t rank;
  int64_t shape[MR_MAX_RANK];
  void* data;
  bool readonly;
  // Stands for the use by a consumer of __cuda_array_interface__; NULL before there is one.
  DLManagedTensorVersioned* legacy_use;
};

PyTypeObject* tensor_type = nullptr;
void* const kLegacyStream = reinterpret_cast<void*>(uintptr_t{1});

DeviceTensor* AsTensor(PyObject* object) { return reinterpret_cast<DeviceTensor*>(object); }

// A consumer of __cuda_array_interface__ holds the object, and has no other way to say that its use
// is over.
void Dealloc(PyObject* object) {
  DeviceTensor* const tensor = AsTensor(object);
  if (tensor->legacy_use != nullptr) EndUnlocked(tensor->legacy_use);
  Py_XDECREF(tensor->owner);
  Free(object);
}

// ---- DLPack ----

struct End {
  void operator()(DLManagedTensorVersioned* tensor) const { tensor->deleter(tensor); }
};
using Managed = std::unique_ptr<DLManagedTensorVersioned, End>;

// The struct of consumers from before 1.0, over one with a version.
struct Unversioned {
  DLManagedTensor managed = {};
  Managed of;

  static void Delete(DLManagedTensor* managed) {
    delete static_cast<Unversioned*>(managed->manager_ctx);
  }
};

Ref UnversionedCapsule(Managed of) {
  auto* const made = std::make_unique<Unversioned>().release();
  made->managed = {of->dl_tensor, made, Unversioned::Delete};
  made->of = std::move(of);
  return CapsuleOf(&made->managed);
}

// The number 0 may mean either default stream, so that the array API refuses it here.
void* ConsumersStream(PyObject* number) {
  void* const stream = StreamOf(number);
  if (PyLong_Check(number) && PyObject_IsTrue(number) == 0) {
    Raise(PyExc_ValueError,
          "stream 0 is ambiguous: the default streams are 1, the legacy one, and "
          "2, that of the thread");
  }
  return stream;
}

// The capsule holds the batch in C, so that any thread may end it without the interpreter's lock.
PyObject* ToDlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    DeviceTensor* const tensor = AsTensor(self);
    const DlpackArguments asked(arguments, keywords, {kDLCUDA, tensor->device});
    if (!asked.takes_versions) CheckWriteable(tensor->readonly);
    void* const stream = ConsumersStream(asked.stream);
    DLManagedTensorVersioned* raw = nullptr;
    Check(mr_device_batch_dlpack(tensor->batch, tensor->number, stream, &raw));
    Managed made(raw);
    for (int32_t i = 0; i < tensor->rank; ++i) made->dl_tensor.shape[i] = tensor->shape[i];
    if (!asked.takes_versions) return UnversionedCapsule(std::move(made));
    made->flags = tensor->readonly ? kDLFlagReadOnly : 0;
    return CapsuleOf(made.release());
  });
}

PyObject* DlpackDevice(PyObject* self, PyObject*) {
  return Call([&] { return DeviceTuple({kDLCUDA, AsTensor(self)->device}); });
}

// ---- What it says of itself ----

int64_t NumElements(const DeviceTensor& tensor) {
  int64_t elements = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) elements *= tensor.shape[i];
  return elements;
}

std::string TypeText(int32_t dtype) {
  const int64_t bytes = BytesOf(dtype);
  return (bytes == 1 ? "|" : "<") + std::string(1, KindOf(dtype)) + std::to_string(bytes);
}

// Version 3. The legacy default stream waits for the bytes, and the consumer for that stream.
PyObject* CudaArrayInterface(PyObject* self, void*) {
  return Call([&] {
    DeviceTensor* const tensor = AsTensor(self);
    if (tensor->legacy_use == nullptr) {
      Check(mr_device_batch_dlpack(tensor->batch, tensor->number, kLegacyStream,
                                   &tensor->legacy_use));
    }
    const Ref readonly = Checked(PyBool_FromLong(tensor->readonly));
    const Ref address =
        Checked(PyLong_FromVoidPtr(NumElements(*tensor) == 0 ? nullptr : tensor->data));
    return Checked(Py_BuildValue("{s:N,s:N,s:(OO),s:O,s:i,s:i}", "shape",
                                 Extents(tensor->shape, tensor->rank).release(), "typestr",
                                 Text(TypeText(tensor->dtype)).release(), "data", address.get(),
                                 readonly.get(), "strides", Py_None, "version", 3, "stream", 1));
  });
}

PyObject* Shape(PyObject* self, void*) {
  return Call([&] { return Extents(AsTensor(self)->shape, AsTensor(self)->rank); });
}
PyObject* DtypeName(PyObject* self, void*) {
  return PyUnicode_FromString(NameOf(AsTensor(self)->dtype));
}
PyObject* Address(PyObject* self, void*) { return PyLong_FromVoidPtr(AsTensor(self)->data); }
PyObject* Device(PyObject* self, void*) { return PyLong_FromLong(AsTensor(self)->device); }

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(ToDlpack)),
     METH_VARARGS | METH_KEYWORDS,
     "Returns a DLPack capsule that shares the memory. `stream` waits for the bytes, and the batch "
     "for what is issued on it before the capsule's end."},
    {"__dlpack_device__", DlpackDevice, METH_NOARGS, "Returns (2, device), CUDA's."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"__cuda_array_interface__", CudaArrayInterface, nullptr,
     "The interface of CuPy and Numba, version 3; bfloat16 as its bits in uint16.", nullptr},
    {"shape", Shape, nullptr, "The extents.", nullptr},
    {"dtype", DtypeName, nullptr, "The type of the elements, such as 'float32'.", nullptr},
    {"address", Address, nullptr, "The address of the first element, on the device.", nullptr},
    {"device", Device, nullptr, "CUDA's number of the device.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A view of a batch's memory on a CUDA device.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr}};

PyType_Spec spec = {"millrace._core.DeviceTensor", sizeof(DeviceTensor), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void AddDeviceTensor(PyObject* module) { tensor_type = AddType(module, &spec); }

Ref MakeDeviceTensor(PyObject* owner, const mr_device_batch* batch, size_t number,
                     const mr_tensor& shown, const Look& look) {
  auto* const tensor = Make<DeviceTensor>(tensor_type);
  Py_INCREF(owner);
  tensor->owner = owner;
  tensor->batch = batch;
  tensor->number = number;
  tensor->device = look.device;
  tensor->dtype = shown.dtype;
  tensor->rank = shown.rank;
  for (int32_t i = 0; i < shown.rank; ++i) tensor->shape[i] = shown.shape[i];
  tensor->data = shown.data;
  tensor->readonly = look.readonly;
  return Ref(reinterpret_cast<PyObject*>(tensor));
}

void* StreamOf(PyObject* number) {
  if (number == Py_None) return kLegacyStream;
  const long long stream = PyLong_AsLongLong(number);
  if (stream == -1 && PyErr_Occurred() != nullptr) throw Raised();
  if (stream == -1) return MR_NO_STREAM;
  if (stream < 0) Raise(PyExc_ValueError, "a stream is the number of its handle, or -1");
  return stream == 0 ? kLegacyStream : reinterpret_cast<void*>(static_cast<uintptr_t>(stream));
}

}  // namespace millrace::python
