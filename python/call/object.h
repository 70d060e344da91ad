#ifndef MILLRACE_PYTHON_CALL_OBJECT_H_
#define MILLRACE_PYTHON_CALL_OBJECT_H_

// CPython's limited interface of 3.10: one module for all later versions.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

// The common needs of the module: references, the interpreter's lock, and types.

namespace millrace::python {

// Thrown where a Python exception is set. It ends in Call, never in the interpreter.
struct Raised {};

// True in all threads but that which ends the interpreter, once it has begun (lock.h). Such a
// thread may be ended anywhere in Python, and must touch nothing of it on its way out.
bool IsOver();

// An owned reference, or none.
class Ref {
 public:
  Ref() = default;
  // Takes over a new reference.
  explicit Ref(PyObject* object) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && !IsOver()) Py_DECREF(object_);
  }

  static Ref Borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Takes over a new reference; throws if it is NULL, as results are where an exception is set.
inline Ref Checked(PyObject* object) {
  if (object == nullptr) throw Raised();
  return Ref(object);
}
inline void CheckedZero(int result) {
  if (result != 0) throw Raised();
}

// Sets an exception of a built-in type, and throws.
[[noreturn]] void Raise(PyObject* type, const char* message);

// Runs the body of a function that Python calls, which returns a Ref.
template <typename Body>
PyObject* Call(const Body& body) {
  try {
    return body().release();
  } catch (const Raised&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}
// The same for a body that returns nothing, of a function that returns None.
template <typename Body>
PyObject* CallNone(const Body& body) {
  return Call([&] {
    body();
    return Ref::Borrow(Py_None);
  });
}

// Objects of a type begin with PyObject_HEAD, and are zeroed when they are made. Free drops the
// memory of one whose fields have been freed.
template <typename Object>
Object* Make(PyTypeObject* type) {
  auto* const alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* const object = alloc(type, 0);
  if (object == nullptr) throw Raised();
  return reinterpret_cast<Object*>(object);
}
void Free(PyObject* object);

// Makes the type of a spec, adds it to the module, and returns it; it lives for ever.
PyTypeObject* AddType(PyObject* module, PyType_Spec* spec);

// Conversions, which throw.
std::string TextOf(PyObject* object);
Ref Text(const char* text);
Ref Text(const std::string& text);
// The UTF-8 texts of a sequence of str.
std::vector<std::string> TextsOf(PyObject* sequence);

// Appends to a std::string: an mr_sink.
void AppendTo(void* text, const char* piece, size_t size);

// Returns numpy.asarray of an object that has __array_struct__.
Ref ToNumpy(PyObject* object);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_OBJECT_H_
