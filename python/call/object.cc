#include "python/call/object.h"

namespace millrace::python {
void Raise(PyObject* type, const char* message) {
  PyErr_SetString(type, message);
  throw Raised();
}

void Free(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

PyTypeObject* AddType(PyObject* module, PyType_Spec* spec) {
  Ref type = Checked(PyType_FromModuleAndSpec(module, spec, nullptr));
  const std::string name = spec->name;
  CheckedZero(PyModule_AddObjectRef(module, name.substr(name.rfind('.') + 1).c_str(), type.get()));
  return reinterpret_cast<PyTypeObject*>(type.release());
}

std::string TextOf(PyObject* object) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) throw Raised();
  return std::string(text, static_cast<size_t>(size));
}

Ref Text(const char* text) { return Text(std::string(text)); }

Ref Text(const std::string& text) {
  // Names of files and keys of features may hold bytes that are no UTF-8.
  return Checked(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

std::vector<std::string> TextsOf(PyObject* sequence) {
  const Py_ssize_t size = PySequence_Size(sequence);
  if (size < 0) throw Raised();
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < size; ++i) {
    texts.push_back(TextOf(Checked(PySequence_GetItem(sequence, i)).get()));
  }
  return texts;
}

void AppendTo(void* text, const char* piece, size_t size) {
  static_cast<std::string*>(text)->append(piece, size);
}

Ref ToNumpy(PyObject* object) {
  static PyObject* as_array = nullptr;
  if (as_array == nullptr) {
    const Ref numpy = Checked(PyImport_ImportModule("numpy"));
    as_array = Checked(PyObject_GetAttrString(numpy.get(), "asarray")).release();
  }
  return Checked(PyObject_CallFunctionObjArgs(as_array, object, nullptr));
}

}  // namespace millrace::python
