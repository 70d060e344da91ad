#include "python/array/dlpack.h"

namespace millrace::python {
namespace {

constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kUnversioned = "dltensor";

// A capsule that nobody has taken still has its name.
template <typename Managed>
void FreeCapsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->dl_tensor.device.device_type == kDLCUDA) return EndUnlocked(managed);
  managed->deleter(managed);
}
void FreeUnversioned(PyObject* capsule) { FreeCapsule<DLManagedTensor>(capsule, kUnversioned); }
void FreeVersioned(PyObject* capsule) {
  FreeCapsule<DLManagedTensorVersioned>(capsule, kVersioned);
}

template <typename Managed>
Ref Capsule(Managed* tensor, const char* name, PyCapsule_Destructor free) {
  PyObject* const capsule = PyCapsule_New(tensor, name, free);
  if (capsule == nullptr) tensor->deleter(tensor);
  return Checked(capsule);
}

// `max_version` is None, or a tuple.
bool TakesVersions(PyObject* max_version) {
  if (max_version == Py_None) return false;
  const Ref major = Checked(PySequence_GetItem(max_version, 0));
  const long number = PyLong_AsLong(major.get());
  if (number == -1 && PyErr_Occurred() != nullptr) throw Raised();
  return number >= 1;
}

// Throws BufferError for a wish that is neither None nor `device`.
void CheckDevice(PyObject* wish, DLDevice device) {
  if (wish == Py_None) return;
  const Ref own = DeviceTuple(device);
  const int is_own = PyObject_RichCompareBool(wish, own.get(), Py_EQ);
  if (is_own < 0) throw Raised();
  if (is_own != 0) return;
  PyErr_Format(PyExc_BufferError, "the memory is that of %s, (%d, %d)",
               device.device_type == kDLCPU ? "the CPU" : "a CUDA device", device.device_type,
               device.device_id);
  throw Raised();
}

}  // namespace

DlpackArguments::DlpackArguments(PyObject* arguments, PyObject* keywords, DLDevice device) {
  const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject* max_version = Py_None;
  PyObject* wish = Py_None;
  PyObject* copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO", const_cast<char**>(names),
                                   &stream, &max_version, &wish, &copy)) {
    throw Raised();
  }
  const int is_copy = copy == Py_None ? 0 : PyObject_IsTrue(copy);
  if (is_copy < 0) throw Raised();
  if (is_copy != 0) Raise(PyExc_BufferError, "copy=True: copy the array that is made of it");
  CheckDevice(wish, device);
  takes_versions = TakesVersions(max_version);
}

Ref CapsuleOf(DLManagedTensorVersioned* tensor) {
  return Capsule(tensor, kVersioned, FreeVersioned);
}
Ref CapsuleOf(DLManagedTensor* tensor) { return Capsule(tensor, kUnversioned, FreeUnversioned); }

Ref DeviceTuple(DLDevice device) {
  return Checked(Py_BuildValue("(ii)", device.device_type, device.device_id));
}

void CheckWriteable(bool readonly) {
  if (!readonly) return;
  Raise(PyExc_BufferError, "the tensor is read-only, which DLPack before 1.0 cannot say");
}

}  // namespace millrace::python
