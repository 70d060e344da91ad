#include "python/ops/run_view.h"

#include "python/call/error.h"

namespace millrace::python {
namespace {

// The argument of a function of Python. It must not outlive the call.
struct RunView {
  PyObject_HEAD;
  const mr_run_view* run;  // NULL behind the call
  const RunFunction* function;
  Loan* loan;
  PyObject* reads;   // a dict: an array over all rows, or a list of a value per row
  PyObject* writes;  // a dict of the arrays that the function fills
};

PyTypeObject* run_type = nullptr;

RunView* AsView(PyObject* object) { return reinterpret_cast<RunView*>(object); }

void Dealloc(PyObject* object) {
  Py_XDECREF(AsView(object)->reads);
  Py_XDECREF(AsView(object)->writes);
  Free(object);
}

RunView& Live(PyObject* object) {
  RunView& view = *AsView(object);
  if (view.run == nullptr) Raise(PyExc_ValueError, "the call of the op is over");
  return view;
}

template <typename T>
const T& At(const T* first, size_t index) {
  const auto* const bytes = reinterpret_cast<const char*>(first);
  return *reinterpret_cast<const T*>(bytes + index * first->struct_size);
}

// ---- Values that the function reads ----

// Returns the value of a row: bytes, or an array.
Ref ValueOf(RunView& view, size_t field, int64_t row) {
  mr_tensor value = {};
  value.struct_size = sizeof value;
  Check(mr_run_value(view.run->run, field, row, &value));
  if (value.dtype == MR_BYTES) {
    return Checked(PyBytes_FromStringAndSize(static_cast<const char*>(value.data),
                                             static_cast<Py_ssize_t>(value.bytes)));
  }
  return view.loan->Lend(
      MakeTensor(nullptr, value.data, value.dtype, value.rank, value.shape, true));
}

// Returns a list with a value per row; None for a row that has failed before.
Ref ValuesOf(RunView& view, size_t field) {
  Ref list = Checked(PyList_New(0));
  for (int64_t row = 0; row < view.run->rows; ++row) {
    const Ref value = view.run->ok[row] ? ValueOf(view, field, row) : Ref::Borrow(Py_None);
    CheckedZero(PyList_Append(list.get(), value.get()));
  }
  return list;
}

Ref ColumnOf(RunView& view, size_t field) {
  const mr_column& column = At(view.run->reads, field);
  if (column.rank < 0 || column.dtype == MR_BYTES) return ValuesOf(view, field);
  return view.loan->Lend(MakeRows(const_cast<void*>(column.first), column.dtype, view.run->rows,
                                  column.stride_bytes, column.rank, column.shape, true));
}

Ref Reads(RunView& view) {
  Ref reads = Checked(PyDict_New());
  for (size_t i = 0; i < view.run->num_reads; ++i) {
    const Ref column = ColumnOf(view, i);
    CheckedZero(PyDict_SetItemString(reads.get(), At(view.run->reads, i).name, column.get()));
  }
  return reads;
}

// ---- Values that it writes ----

int64_t BytesOfRow(const mr_field& field) {
  int64_t bytes = BytesOf(field.dtype);
  for (int i = 0; i < field.rank; ++i) bytes *= field.shape[i];
  return bytes;
}

Ref Writes(RunView& view) {
  Ref writes = Checked(PyDict_New());
  for (size_t i = 0; i < view.run->num_writes; ++i) {
    const mr_field& field = view.function->writes[i];
    if (view.run->writes[i] == nullptr) continue;
    const Ref array = view.loan->Lend(MakeRows(view.run->writes[i], field.dtype, view.run->rows,
                                               BytesOfRow(field), field.rank, field.shape, false));
    CheckedZero(PyDict_SetItemString(writes.get(), field.name, array.get()));
  }
  return writes;
}

// Returns the array, of a given shape, for the value of a row whose shapes differ.
PyObject* Allocate(PyObject* self, PyObject* arguments) {
  return Call([&] {
    const char* name = nullptr;
    long long row = 0;
    PyObject* extents = nullptr;
    if (!PyArg_ParseTuple(arguments, "sLO", &name, &row, &extents)) throw Raised();
    RunView& view = Live(self);
    const Ref tuple = Checked(PySequence_Tuple(extents));
    std::vector<int64_t> shape;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple.get()); ++i) {
      shape.push_back(PyLong_AsLongLong(PyTuple_GetItem(tuple.get(), i)));
    }
    if (PyErr_Occurred() != nullptr) throw Raised();
    if (shape.size() > MR_MAX_RANK) Raise(PyExc_ValueError, "more than 8 extents");
    for (size_t i = 0; i < view.function->names.size(); ++i) {
      if (view.function->names[i] != name) continue;
      const auto rank = static_cast<int32_t>(shape.size());
      void* data = nullptr;
      Check(mr_run_allocate(view.run->run, i, row, shape.data(), rank, &data));
      const int32_t dtype = view.function->writes[i].dtype;
      return view.loan->Lend(MakeTensor(nullptr, data, dtype, rank, shape.data(), false));
    }
    PyErr_SetString(PyExc_KeyError, name);
    throw Raised();
  });
}

// ---- The rest ----

PyObject* Fail(PyObject* self, PyObject* arguments) {
  return CallNone([&] {
    long long row = 0;
    int code = 0;
    const char* message = nullptr;
    if (!PyArg_ParseTuple(arguments, "Lis", &row, &code, &message)) throw Raised();
    const RunView& view = Live(self);
    if (row < 0 || row >= view.run->rows) Raise(PyExc_IndexError, "there is no such row");
    mr_run_fail(view.run->run, row, mr_error_create(code, message));
  });
}

PyObject* Random(PyObject* self, PyObject* number) {
  return Call([&] {
    const long long words = PyLong_AsLongLong(number);
    if (PyErr_Occurred() != nullptr) throw Raised();
    if (words < 0) Raise(PyExc_ValueError, "a number of words is below 0");
    const mr_run_view& run = *Live(self).run;
    return RandomWords(run.rows, words, [&](uint32_t* at) {
      mr_run_random(run.run, 0, run.rows, at, static_cast<size_t>(words));
    });
  });
}

PyObject* Rows(PyObject* self, void*) {
  return Call([&] { return Checked(PyLong_FromLongLong(Live(self).run->rows)); });
}

PyObject* Ok(PyObject* self, void*) {
  return Call([&] {
    const mr_run_view& run = *Live(self).run;
    return BoolsOf(run.ok, run.rows);
  });
}

PyObject* Ids(PyObject* self, void*) {
  return Call([&] {
    RunView& view = Live(self);
    const int64_t shape[] = {view.run->rows, 3};
    auto* const ids = const_cast<mr_sample_id*>(view.run->ids);
    return view.loan->Lend(MakeTensor(nullptr, ids, MR_INT64, 2, shape, true));
  });
}

PyObject* Options(PyObject* self, void*) {
  return Call([&] { return Text(Live(self).run->options); });
}

template <PyObject* RunView::*kDict>
PyObject* Dict(PyObject* self, void*) {
  return Call([&] { return Ref::Borrow(Live(self).*kDict); });
}

PyMethodDef methods[] = {
    {"allocate", Allocate, METH_VARARGS,
     "allocate(name, row, shape)\n--\n\nReturns the array for a value whose shape differs."},
    {"fail", Fail, METH_VARARGS, "fail(row, code, message)\n--\n\nMakes a row bad."},
    {"random", Random, METH_O, "random(words)\n--\n\nReturns uint32[rows, words], of each row."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"rows", Rows, nullptr, "The number of samples.", nullptr},
    {"ok", Ok, nullptr, "A bool per row: False if an earlier stage failed for it.", nullptr},
    {"ids", Ids, nullptr, "int64[rows, 3]: epoch, record, number within the record.", nullptr},
    {"options", Options, nullptr, "The text in the plan.", nullptr},
    {"reads", Dict<&RunView::reads>, nullptr, "The values of the fields that are read.", nullptr},
    {"writes", Dict<&RunView::writes>, nullptr, "The arrays to fill.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("Samples, while an op works on them.")},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.RunView", sizeof(RunView), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// Ends the call, also for a function that has kept the view.
void End(RunView& view) {
  view.run = nullptr;
  const Ref reads(std::exchange(view.reads, nullptr));
  const Ref writes(std::exchange(view.writes, nullptr));
}

void CallWith(const RunFunction& function, const mr_run_view* run, Loan& loan) {
  auto* const view = Make<RunView>(run_type);
  const Ref object(reinterpret_cast<PyObject*>(view));
  view->run = run;
  view->function = &function;
  view->loan = &loan;
  try {
    view->reads = Reads(*view).release();
    view->writes = Writes(*view).release();
    Checked(PyObject_CallFunctionObjArgs(function.callable, object.get(), nullptr));
  } catch (const Raised&) {
    End(*view);
    throw;
  }
  End(*view);
}

}  // namespace

void AddRunView(PyObject* module) { run_type = AddType(module, &spec); }

mr_error* ApplyToRun(void* user, const mr_run_view* run) {
  const auto& function = static_cast<const RunFunction&>(*static_cast<Function*>(user));
  return CallFunction(function, [&] {
    Loan loan;
    CallWith(function, run, loan);
    loan.CheckReturned();
  });
}

}  // namespace millrace::python
