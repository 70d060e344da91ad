#include "python/ops/ops.h"

#include <array>
#include <memory>

#include "python/call/error.h"
#include "python/ops/batch_view.h"
#include "python/ops/run_view.h"

namespace millrace::python {
namespace {

struct Ops {
  PyObject_HEAD;
  mr_ops* ops;
  PyObject* raised;     // a list of (text, exception) that functions have raised, the last one last
  PyObject* functions;  // a list of them
};

PyTypeObject* ops_type = nullptr;

Ops* AsOps(PyObject* object) { return reinterpret_cast<Ops*>(object); }

// The functions may hold the loader. It is the loader that lets go of them then (there is no
// tp_clear), since its threads call them until it is closed.
int Traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(AsOps(object)->raised);
  Py_VISIT(AsOps(object)->functions);
  return 0;
}

void Dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  mr_ops_free(AsOps(object)->ops);
  Py_XDECREF(AsOps(object)->raised);
  Py_XDECREF(AsOps(object)->functions);
  Free(object);
}

PyObject* New(PyTypeObject* type, PyObject*, PyObject*) {
  return Call([&] {
    Ref object(reinterpret_cast<PyObject*>(Make<Ops>(type)));
    AsOps(object.get())->raised = Checked(PyList_New(0)).release();
    AsOps(object.get())->functions = Checked(PyList_New(0)).release();
    Check(mr_ops_create(&AsOps(object.get())->ops));
    return object;
  });
}

// Keeps a function as long as the table.
void Keep(PyObject* self, PyObject* function) {
  if (!PyCallable_Check(function)) Raise(PyExc_TypeError, "an op is a function");
  CheckedZero(PyList_Append(AsOps(self)->functions, function));
}

// Registering drops the function where it fails.
PyObject* AddBatchOp(PyObject* self, PyObject* arguments) {
  return CallNone([&] {
    const char* name = nullptr;
    unsigned int version = 0;
    PyObject* callable = nullptr;
    unsigned long long group_rows = 0;
    if (!PyArg_ParseTuple(arguments, "sIO|K", &name, &version, &callable, &group_rows)) {
      throw Raised();
    }
    Keep(self, callable);
    mr_batch_op op = {};
    op.struct_size = sizeof op;
    op.apply = ApplyToBatch;
    op.user = std::make_unique<Function>(callable, AsOps(self)->raised).release();
    op.destroy = DropFunction<Function>;
    op.group_rows = group_rows;
    Check(mr_ops_register_batch(AsOps(self)->ops, name, version, &op));
  });
}

// ---- Ops on runs ----

// Reads (name, dtype, shape).
mr_field FieldOf(PyObject* object, std::string& name) {
  PyObject* text = nullptr;
  PyObject* dtype = nullptr;
  PyObject* shape = nullptr;
  if (!PyArg_ParseTuple(object, "OOO", &text, &dtype, &shape)) throw Raised();
  name = TextOf(text);
  mr_field field = {};
  field.struct_size = sizeof field;
  field.dtype = DtypeOf(TextOf(dtype));
  const Py_ssize_t rank = PySequence_Size(shape);
  if (rank < 0) throw Raised();
  if (rank > MR_MAX_RANK) Raise(PyExc_ValueError, "more than 8 extents");
  field.rank = static_cast<int32_t>(rank);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    field.shape[i] = PyLong_AsLongLong(Checked(PySequence_GetItem(shape, i)).get());
  }
  if (PyErr_Occurred() != nullptr) throw Raised();
  return field;
}

void TakeWrites(RunFunction& function, PyObject* writes) {
  const Ref tuple = Checked(PySequence_Tuple(writes));
  const Py_ssize_t size = PyTuple_Size(tuple.get());
  function.names.resize(static_cast<size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    std::string& name = function.names[static_cast<size_t>(i)];
    function.writes.push_back(FieldOf(PyTuple_GetItem(tuple.get(), i), name));
    function.writes.back().name = name.c_str();
  }
}

std::vector<const char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

PyObject* AddRunOp(PyObject* self, PyObject* arguments) {
  return CallNone([&] {
    const char* name = nullptr;
    unsigned int version = 0;
    std::array<PyObject*, 4> of = {};  // the function, and what it reads, writes and removes
    long long preferred_rows = 0;
    if (!PyArg_ParseTuple(arguments, "sIOOOO|L", &name, &version, &of[0], &of[1], &of[2], &of[3],
                          &preferred_rows)) {
      throw Raised();
    }
    Keep(self, of[0]);
    const std::vector<std::string> reads = TextsOf(of[1]);
    const std::vector<std::string> removes = TextsOf(of[3]);
    const std::vector<const char*> read_names = PointersTo(reads);
    const std::vector<const char*> removed_names = PointersTo(removes);
    auto function = std::make_unique<RunFunction>(of[0], AsOps(self)->raised);
    TakeWrites(*function, of[2]);
    std::vector<const mr_field*> writes;
    for (const mr_field& field : function->writes) writes.push_back(&field);
    mr_run_op op = {};
    op.struct_size = sizeof op;
    op.apply = ApplyToRun;
    op.destroy = DropFunction<RunFunction>;
    op.reads = read_names.data();
    op.num_reads = read_names.size();
    op.writes = writes.data();
    op.num_writes = writes.size();
    op.removes = removed_names.data();
    op.num_removes = removed_names.size();
    op.preferred_rows = preferred_rows;
    op.user = static_cast<Function*>(function.release());
    Check(mr_ops_register_run(AsOps(self)->ops, name, version, &op));
  });
}

PyMethodDef methods[] = {
    {"add_batch", AddBatchOp, METH_VARARGS,
     "add_batch(name, version, function, group_rows=0)\n--\n\nAdds an op on finished batches."},
    {"add_run", AddRunOp, METH_VARARGS,
     "add_run(name, version, function, reads, writes, removes, preferred_rows=0)\n--\n\nAdds an op "
     "on runs of samples; writes are (name, dtype, shape)."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("Functions of Python that are ops of plans.")},
                       {Py_tp_new, reinterpret_cast<void*>(New)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(Traverse)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.Ops", sizeof(Ops), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                    slots};

}  // namespace

void AddOps(PyObject* module) { ops_type = AddType(module, &spec); }

const mr_ops* OpsOf(PyObject* object) {
  if (!PyObject_TypeCheck(object, ops_type)) Raise(PyExc_TypeError, "not an Ops");
  return AsOps(object)->ops;
}

void SetCause(PyObject* ops, PyObject* exception) {
  const Ref message = Checked(PyObject_Str(exception));
  PyObject* const raised = AsOps(ops)->raised;
  for (Py_ssize_t i = PyList_Size(raised); i-- > 0;) {
    PyObject* const pair = PyList_GetItem(raised, i);
    const int found = PySequence_Contains(message.get(), PyTuple_GetItem(pair, 0));
    if (found < 0) throw Raised();
    if (found == 0) continue;
    PyException_SetCause(exception, Ref::Borrow(PyTuple_GetItem(pair, 1)).release());
    return;
  }
}

}  // namespace millrace::python
