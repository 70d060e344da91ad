#include "python/source/source.h"

#include "capi/millrace_push.h"
#include "python/call/bytes.h"
#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/call/wait.h"

namespace millrace::python {
namespace {

// ---- Memory ----

struct Memory {
  PyObject_HEAD;
  mr_memory* memory;
};
PyTypeObject* memory_type = nullptr;
Memory* AsMemory(PyObject* object) { return reinterpret_cast<Memory*>(object); }

void DeallocMemory(PyObject* object) {
  mr_memory_free(AsMemory(object)->memory);
  Free(object);
}

PyObject* NewMemory(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return Call([&] {
    PyObject* iterable = nullptr;
    if (!PyArg_ParseTuple(arguments, "O", &iterable)) throw Raised();
    const Ref records = Checked(PySequence_List(iterable));
    std::vector<Bytes> held;
    std::vector<const void*> data;
    std::vector<size_t> sizes;
    for (Py_ssize_t i = 0; i < PyList_Size(records.get()); ++i) {
      held.emplace_back(PyList_GetItem(records.get(), i));
      data.push_back(held.back().data);
      sizes.push_back(static_cast<size_t>(held.back().size));
    }
    Ref object(reinterpret_cast<PyObject*>(Make<Memory>(type)));
    Check(
        mr_memory_create(data.data(), sizes.data(), data.size(), &AsMemory(object.get())->memory));
    return object;
  });
}

PyType_Slot memory_slots[] = {
    {Py_tp_doc, const_cast<char*>("Memory(records)\n--\n\nCopies of records, each bytes or a "
                                  "buffer, for a plan's memory stage.")},
    {Py_tp_new, reinterpret_cast<void*>(NewMemory)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocMemory)},
    {0, nullptr}};
PyType_Spec memory_spec = {"millrace._core.Memory", sizeof(Memory), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, memory_slots};

// ---- Push ----

struct Push {
  PyObject_HEAD;
  mr_push* push;
};
PyTypeObject* push_type = nullptr;
Push* AsPush(PyObject* object) { return reinterpret_cast<Push*>(object); }

void DeallocPush(PyObject* object) {
  mr_push_free(AsPush(object)->push);
  Free(object);
}

PyObject* NewPush(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    const char* names[] = {"name", "max_bytes", nullptr};
    const char* name = nullptr;
    unsigned long long max_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|zK", const_cast<char**>(names), &name,
                                     &max_bytes)) {
      throw Raised();
    }
    mr_push_options options = {};
    options.struct_size = sizeof options;
    options.name = name;
    options.max_bytes = max_bytes;
    Ref object(reinterpret_cast<PyObject*>(Make<Push>(type)));
    Check(mr_push_create(&options, &AsPush(object.get())->push));
    return object;
  });
}

// Without waiting first, so that the lock is kept where there is room.
PyObject* PushRecord(PyObject* self, PyObject* arguments) {
  return Call([&] {
    PyObject* record = nullptr;
    long long timeout_ns = -1;
    if (!PyArg_ParseTuple(arguments, "O|L", &record, &timeout_ns)) throw Raised();
    const Bytes bytes(record);
    mr_push* const push = AsPush(self)->push;
    const auto size = static_cast<size_t>(bytes.size);
    int32_t taken = 0;
    Check(mr_push_try_push(push, bytes.data, size, &taken));
    Wait wait(timeout_ns);
    while (!taken && wait.GoesOn()) {
      Check(wait.Slice([&](int64_t slice_ns) {
        return mr_push_push_for(push, bytes.data, size, slice_ns, &taken);
      }));
    }
    return Checked(PyBool_FromLong(taken));
  });
}

// Calls a function, of which it has a reference, in any thread. An exception of it is printed.
void CallOnRoom(void* function) {
  const Locked locked;
  if (!locked) return;
  const Ref callable(static_cast<PyObject*>(function));
  if (const Ref result(PyObject_CallNoArgs(callable.get())); !result) {
    PyErr_WriteUnraisable(callable.get());
  }
}

PyObject* OnRoom(PyObject* self, PyObject* function) {
  return CallNone([&] {
    if (!PyCallable_Check(function)) Raise(PyExc_TypeError, "on_room takes a function");
    Py_INCREF(function);
    Check(mr_push_on_room(AsPush(self)->push, CallOnRoom, function));
  });
}

PyObject* Finish(PyObject* self, PyObject*) {
  return CallNone([&] { Check(mr_push_finish(AsPush(self)->push)); });
}

PyObject* Fail(PyObject* self, PyObject* arguments) {
  return CallNone([&] {
    int code = 0;
    const char* message = nullptr;
    if (!PyArg_ParseTuple(arguments, "is", &code, &message)) throw Raised();
    Check(mr_push_fail(AsPush(self)->push, code, message));
  });
}

PyMethodDef push_methods[] = {
    {"push", PushRecord, METH_VARARGS,
     "push(record, timeout_ns=-1)\n--\n\nAppends a copy of bytes or a buffer. Waits while the "
     "source is full; returns False if it stayed full for so long."},
    {"on_room", OnRoom, METH_O,
     "on_room(function)\n--\n\nCalls a function once, in any thread, when a record may be taken "
     "that "
     "was refused, and when the stream ends. Room that was made before does not count."},
    {"finish", Finish, METH_NOARGS, "Ends the stream behind the last record."},
    {"fail", Fail, METH_VARARGS,
     "fail(code, message)\n--\n\nEnds the stream with an error, which the loader raises behind the "
     "last record."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot push_slots[] = {
    {Py_tp_doc, const_cast<char*>("Records that the program feeds, for a plan's push stage.")},
    {Py_tp_new, reinterpret_cast<void*>(NewPush)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocPush)},
    {Py_tp_methods, push_methods},
    {0, nullptr}};
PyType_Spec push_spec = {"millrace._core.Push", sizeof(Push), 0, Py_TPFLAGS_DEFAULT, push_slots};

}  // namespace

void AddSources(PyObject* module) {
  memory_type = AddType(module, &memory_spec);
  push_type = AddType(module, &push_spec);
}

const mr_memory* MemoryOf(PyObject* object) {
  if (!PyObject_TypeCheck(object, memory_type)) Raise(PyExc_TypeError, "not a Memory");
  return AsMemory(object)->memory;
}

const mr_push* PushOf(PyObject* object) {
  if (!PyObject_TypeCheck(object, push_type)) Raise(PyExc_TypeError, "not a Push");
  return AsPush(object)->push;
}

}  // namespace millrace::python
