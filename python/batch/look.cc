#include "python/batch/look.h"

#include <utility>

namespace millrace::python {
namespace {

std::vector<Fields::Kind> KindsOf(const std::vector<std::string>& names) {
  std::vector<Fields::Kind> kinds(names.size(), Fields::Kind::kRows);
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i] != names[i - 1] + "/row_splits") continue;
    kinds[i - 1] = Fields::Kind::kRagged;
    kinds[i] = Fields::Kind::kSplits;
  }
  return kinds;
}

}  // namespace

std::shared_ptr<const Fields> MakeFields(const std::vector<std::string>& names, Ref codes) {
  auto fields = std::make_shared<Fields>();
  fields->codes = std::move(codes);
  fields->names = Checked(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  fields->numbers = Checked(PyDict_New());
  for (size_t i = 0; i < names.size(); ++i) {
    Ref name = Text(names[i]);
    const Ref number = Checked(PyLong_FromSize_t(i));
    CheckedZero(PyDict_SetItem(fields->numbers.get(), name.get(), number.get()));
    CheckedZero(PyTuple_SetItem(fields->names.get(), static_cast<Py_ssize_t>(i), name.release()));
  }
  fields->kinds = KindsOf(names);
  return fields;
}

size_t NumberOf(const Fields& fields, PyObject* name) {
  PyObject* const number = PyDict_GetItemWithError(fields.numbers.get(), name);
  if (number == nullptr) {
    if (PyErr_Occurred() == nullptr) {
      const Ref names = Checked(PyObject_Repr(fields.names.get()));
      const Ref wanted = Checked(PyObject_Repr(name));
      PyErr_Format(PyExc_KeyError, "no field %U: the batch has %U", wanted.get(), names.get());
    }
    throw Raised();
  }
  return PyLong_AsSize_t(number);
}

}  // namespace millrace::python
