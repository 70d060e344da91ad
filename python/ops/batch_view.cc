#include "python/ops/batch_view.h"

namespace millrace::python {
namespace {

// The argument of a function of Python. It must not outlive the call.
struct BatchView {
  PyObject_HEAD;
  const mr_batch_view* batch;  // NULL behind the call
  Loan* loan;
  PyObject* fields;  // a dict of the arrays
};

PyTypeObject* view_type = nullptr;

BatchView* AsView(PyObject* object) { return reinterpret_cast<BatchView*>(object); }

void Dealloc(PyObject* object) {
  Py_XDECREF(AsView(object)->fields);
  Free(object);
}

const mr_batch_view& Live(PyObject* object) {
  const mr_batch_view* const batch = AsView(object)->batch;
  if (batch == nullptr) Raise(PyExc_ValueError, "the call of the op is over");
  return *batch;
}

Ref Fields(const mr_batch_view& batch, Loan& loan) {
  Ref fields = Checked(PyDict_New());
  const auto* at = reinterpret_cast<const char*>(batch.tensors);
  for (size_t i = 0; i < batch.num_tensors; ++i, at += batch.tensors->struct_size) {
    const auto& tensor = *reinterpret_cast<const mr_tensor*>(at);
    const Ref array =
        loan.Lend(MakeTensor(nullptr, tensor.data, tensor.dtype, tensor.rank, tensor.shape, false));
    CheckedZero(PyDict_SetItemString(fields.get(), tensor.name, array.get()));
  }
  return fields;
}

PyObject* GetFields(PyObject* self, void*) {
  return Call([&] {
    Live(self);
    return Ref::Borrow(AsView(self)->fields);
  });
}

PyObject* Valid(PyObject* self, void*) {
  return Call([&] {
    const mr_batch_view& batch = Live(self);
    return BoolsOf(batch.valid, batch.rows);
  });
}

PyObject* Ids(PyObject* self, void*) {
  return Call([&] {
    const mr_batch_view& batch = Live(self);
    const int64_t shape[] = {batch.rows, 3};
    return AsView(self)->loan->Lend(
        MakeTensor(nullptr, const_cast<mr_sample_id*>(batch.ids), MR_INT64, 2, shape, true));
  });
}

template <auto kField>
PyObject* Number(PyObject* self, void*) {
  return Call(
      [&] { return Checked(PyLong_FromLongLong(static_cast<long long>(Live(self).*kField))); });
}

PyObject* Options(PyObject* self, void*) {
  return Call([&] { return Text(Live(self).options); });
}

// Words of each row, or with whole=True of the batch.
PyObject* Random(PyObject* self, PyObject* arguments) {
  return Call([&] {
    long long words = 0;
    int whole = 0;
    if (!PyArg_ParseTuple(arguments, "L|p", &words, &whole)) throw Raised();
    if (words < 0) Raise(PyExc_ValueError, "a number of words is below 0");
    const mr_batch_view& batch = Live(self);
    const int64_t rows = whole ? 1 : batch.rows;
    return RandomWords(rows, words, [&](uint32_t* at) {
      for (int64_t row = 0; row < rows; ++row) {
        mr_batch_random(&batch, whole ? -1 : row, at + row * words, static_cast<size_t>(words));
      }
    });
  });
}

PyMethodDef methods[] = {
    {"random", Random, METH_VARARGS,
     "random(words, whole=False)\n--\n\nReturns uint32[rows, words], of each row; of the batch as "
     "a whole, uint32[1, words]."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"fields", GetFields, nullptr, "The arrays, which the op changes in place.", nullptr},
    {"valid", Valid, nullptr, "A bool per row: False for padding, which stays 0.", nullptr},
    {"ids", Ids, nullptr, "int64[rows, 3]: epoch, record, number within the record.", nullptr},
    {"index", Number<&mr_batch_view::index>, nullptr, "The number of the global batch.", nullptr},
    {"epoch", Number<&mr_batch_view::epoch>, nullptr, "The epoch of its first row.", nullptr},
    {"rows", Number<&mr_batch_view::rows>, nullptr, "The rows of every array.", nullptr},
    {"first_global_row", Number<&mr_batch_view::first_global_row>, nullptr,
     "The number of row 0 within the global batch.", nullptr},
    {"global_valid_rows", Number<&mr_batch_view::global_valid_rows>, nullptr,
     "The rows that hold samples, over all ranks.", nullptr},
    {"options", Options, nullptr, "The text in the plan.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A batch, while an op works on it.")},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.BatchView", sizeof(BatchView), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// Ends the call, also for a function that has kept the view.
void End(BatchView& view) {
  view.batch = nullptr;
  const Ref fields(std::exchange(view.fields, nullptr));
}

void CallWith(const Function& function, const mr_batch_view* batch, Loan& loan) {
  auto* const view = Make<BatchView>(view_type);
  const Ref object(reinterpret_cast<PyObject*>(view));
  view->batch = batch;
  view->loan = &loan;
  try {
    view->fields = Fields(*batch, loan).release();
    Checked(PyObject_CallFunctionObjArgs(function.callable, object.get(), nullptr));
  } catch (const Raised&) {
    End(*view);
    throw;
  }
  End(*view);
}

}  // namespace

void AddBatchView(PyObject* module) { view_type = AddType(module, &spec); }

mr_error* ApplyToBatch(void* user, const mr_batch_view* batch) {
  const Function& function = *static_cast<Function*>(user);
  return CallFunction(function, [&] {
    Loan loan;
    CallWith(function, batch, loan);
    loan.CheckReturned();
  });
}

}  // namespace millrace::python
