#include "python/collectives/reducer.h"

#include <deque>

#include "capi/millrace_collectives.h"
#include "python/array/tensor.h"
#include "python/call/error.h"
#include "python/collectives/comm.h"

namespace millrace::python {
namespace {

// It lives as long as a view of its gradients does.
struct Reducer {
  PyObject_HEAD;
  mr_reducer* reducer;
  PyObject* comm;
  PyObject* owner;  // of the gradients' memory, or None
};

Reducer* AsReducer(PyObject* object) { return reinterpret_cast<Reducer*>(object); }

void Dealloc(PyObject* object) {
  Reducer* const reducer = AsReducer(object);
  if (reducer->reducer != nullptr) {
    const Unlocked unlocked;  // a thread of the reducer's is awaited
    mr_reducer_free(reducer->reducer);
  }
  Py_XDECREF(reducer->owner);
  Py_XDECREF(reducer->comm);
  Free(object);
}

// The gradients of a list of tuples (name, dtype, shape, address); address 0: the reducer's memory.
class Gradients {
 public:
  explicit Gradients(PyObject* list) {
    const Py_ssize_t count = PyList_Size(list);
    if (count < 0) throw Raised();
    for (Py_ssize_t i = 0; i < count; ++i) Add(PyList_GetItem(list, i));
  }
  const std::vector<mr_gradient>& get() const { return gradients_; }

 private:
  void Add(PyObject* tuple) {
    const char* name = nullptr;
    const char* dtype = nullptr;
    PyObject* extents = nullptr;
    unsigned long long address = 0;
    if (!PyArg_ParseTuple(tuple, "ssO!K", &name, &dtype, &PyTuple_Type, &extents, &address)) {
      throw Raised();
    }
    std::vector<int64_t>& shape = shapes_.emplace_back();
    for (Py_ssize_t i = 0; i < PyTuple_Size(extents); ++i) {
      shape.push_back(PyLong_AsLongLong(PyTuple_GetItem(extents, i)));
      if (PyErr_Occurred() != nullptr) throw Raised();
    }
    gradients_.push_back({name, shape.data(), static_cast<int32_t>(shape.size()), DtypeOf(dtype),
                          reinterpret_cast<void*>(address)});
  }

  std::deque<std::vector<int64_t>> shapes_;
  std::vector<mr_gradient> gradients_;
};

struct CreateArguments {
  CreateArguments(PyObject* arguments, PyObject* keywords) {
    const char* names[] = {"comm",
                           "gradients",
                           "owner",
                           "exact",
                           "average_by_rows",
                           "skip_non_finite",
                           "shard",
                           "clip_norm",
                           "micro_batches",
                           "wire",
                           "bucket_bytes",
                           "edge_bucket_bytes",
                           "policy",
                           "compute_threads",
                           "shared_memory",
                           "first_step",
                           nullptr};
    const char* wire = "float32";
    unsigned long long bucket = 0;
    unsigned long long edge = 0;
    int shares = 1;
    long long first_step = 0;
    options.struct_size = sizeof options;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!|O$ppppdisKKiipL",
                                     const_cast<char**>(names), &comm, &PyList_Type, &gradients,
                                     &owner, &options.exact, &options.average_by_rows,
                                     &options.skip_non_finite, &options.shard, &options.clip_norm,
                                     &options.micro_batches, &wire, &bucket, &edge, &options.policy,
                                     &options.compute_threads, &shares, &first_step)) {
      throw Raised();
    }
    options.wire = DtypeOf(wire);
    options.bucket_bytes = bucket;
    options.edge_bucket_bytes = edge;
    options.no_shared_memory = !shares;
    options.first_step = first_step;
  }
  PyObject* comm = nullptr;
  PyObject* gradients = nullptr;
  PyObject* owner = Py_None;
  mr_reducer_options options = {};
};

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    const CreateArguments create(arguments, keywords);
    const Gradients gradients(create.gradients);
    Comm* const comm = CommOf(create.comm);
    if (comm->comm == nullptr) Raise(PyExc_ValueError, "the communicator is closed");
    Ref object(reinterpret_cast<PyObject*>(Make<Reducer>(type)));
    Reducer* const reducer = AsReducer(object.get());
    reducer->comm = Ref::Borrow(create.comm).release();
    reducer->owner = Ref::Borrow(create.owner).release();
    comm->calls->Run([&] {
      return mr_reducer_create(comm->comm, gradients.get().data(), gradients.get().size(),
                               &create.options, &reducer->reducer);
    });
    return object;
  });
}

// Runs call(reducer), which may wait for other ranks.
template <typename Waiting>
void Run(PyObject* self, const Waiting& call) {
  mr_reducer* const reducer = AsReducer(self)->reducer;
  CommOf(AsReducer(self)->comm)->calls->Run([&] { return call(reducer); });
}

size_t IndexOf(PyObject* number) {
  const size_t index = PyLong_AsSize_t(number);
  if (PyErr_Occurred() != nullptr) throw Raised();
  return index;
}

PyObject* Gradient(PyObject* self, PyObject* number) {
  return Call([&] {
    mr_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    Check(mr_reducer_gradient(AsReducer(self)->reducer, IndexOf(number), &tensor));
    return Ref(AsObject(MakeTensor(self, tensor.data, tensor.dtype, tensor.rank, tensor.shape,
                                   /*readonly=*/false)));
  });
}

PyObject* Array(PyObject* self, PyObject* number) {
  return Call([&] { return ArrayOf(Checked(Gradient(self, number)).get()); });
}

PyObject* SetRows(PyObject* self, PyObject* number) {
  return CallNone([&] {
    const long long rows = PyLong_AsLongLong(number);
    if (PyErr_Occurred() != nullptr) throw Raised();
    Run(self, [&](mr_reducer* reducer) { return mr_reducer_set_rows(reducer, rows); });
  });
}

PyObject* MarkReady(PyObject* self, PyObject* number) {
  return CallNone([&] {
    const size_t index = IndexOf(number);
    Run(self, [&](mr_reducer* reducer) { return mr_reducer_mark_ready(reducer, index); });
  });
}

PyObject* Finish(PyObject* self, PyObject*) {
  return Call([&] {
    Run(self, [](mr_reducer* reducer) { return mr_reducer_finish(reducer); });
    mr_step_outcome outcome = {};
    outcome.struct_size = sizeof outcome;
    Check(mr_reducer_outcome(AsReducer(self)->reducer, &outcome));
    const Ref complete = Checked(PyBool_FromLong(outcome.complete));
    const Ref skip = Checked(PyBool_FromLong(outcome.skip));
    return Checked(Py_BuildValue("(dOdLO)", outcome.norm, skip.get(), outcome.clip_factor,
                                 static_cast<long long>(outcome.rows), complete.get()));
  });
}

PyObject* Shards(PyObject* self, PyObject*) {
  return Call([&] {
    size_t count = 0;
    const mr_shard* const shards = mr_reducer_shards(AsReducer(self)->reducer, &count);
    Ref list = Checked(PyList_New(0));
    for (size_t i = 0; i < count; ++i) {
      const Ref shard = Checked(Py_BuildValue("(nnn)", static_cast<Py_ssize_t>(shards[i].gradient),
                                              static_cast<Py_ssize_t>(shards[i].begin),
                                              static_cast<Py_ssize_t>(shards[i].end)));
      CheckedZero(PyList_Append(list.get(), shard.get()));
    }
    return list;
  });
}

PyObject* GatherShards(PyObject* self, PyObject*) {
  return CallNone(
      [&] { Run(self, [](mr_reducer* reducer) { return mr_reducer_gather_shards(reducer); }); });
}

PyObject* Counters(PyObject* self, PyObject*) {
  return Call([&] {
    mr_reducer_counters counters = {};
    counters.struct_size = sizeof counters;
    Check(mr_reducer_get_counters(AsReducer(self)->reducer, &counters));
    return Checked(Py_BuildValue("(LLLddddi)", static_cast<long long>(counters.steps),
                                 static_cast<long long>(counters.num_buckets),
                                 static_cast<long long>(counters.bytes), counters.seconds,
                                 counters.exposed_seconds, counters.gather_seconds,
                                 counters.last_finish_seconds, counters.last_awaited));
  });
}

PyObject* BucketOf(PyObject* self, PyObject* number) {
  return Call([&] {
    size_t bucket = 0;
    Check(mr_reducer_bucket_of(AsReducer(self)->reducer, IndexOf(number), &bucket));
    return Checked(PyLong_FromSize_t(bucket));
  });
}

PyObject* Summary(PyObject* self, PyObject*) {
  return Call([&] {
    std::string text;
    Check(mr_reducer_summary(AsReducer(self)->reducer, AppendTo, &text));
    return Text(text);
  });
}

PyObject* Leave(PyObject* self, PyObject* arguments) {
  return CallNone([&] {
    int code = 0;
    const char* message = nullptr;
    if (!PyArg_ParseTuple(arguments, "is", &code, &message)) throw Raised();
    Run(self, [&](mr_reducer* reducer) { return mr_reducer_leave(reducer, code, message); });
  });
}

PyMethodDef methods[] = {
    {"gradient", Gradient, METH_O, "gradient(index)\n--\n\nReturns a gradient's memory."},
    {"array", Array, METH_O, "array(index)\n--\n\nReturns it as a NumPy array."},
    {"set_rows", SetRows, METH_O, "set_rows(rows)\n--\n\nSets the rows of this rank's batch."},
    {"mark_ready", MarkReady, METH_O, "mark_ready(index)\n--\n\nSays that a gradient is filled."},
    {"finish", Finish, METH_NOARGS,
     "Waits for the sums; returns (norm, skip, clip_factor, rows, complete)."},
    {"shards", Shards, METH_NOARGS, "Returns (gradient, begin, end) of each part of this rank."},
    {"gather_shards", GatherShards, METH_NOARGS, "Gives this rank's shards to all."},
    {"counters", Counters, METH_NOARGS,
     "Returns (steps, num_buckets, bytes, seconds, exposed_seconds, gather_seconds, "
     "last_finish_seconds, last_awaited)."},
    {"bucket_of", BucketOf, METH_O, "bucket_of(index)\n--\n\nReturns the bucket of a gradient."},
    {"summary", Summary, METH_NOARGS, "Returns a line about buckets, ranks and threads."},
    {"leave", Leave, METH_VARARGS, "leave(code, message)\n--\n\nEnds this rank's part."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("Sums of gradients over a group of ranks.")},
                       {Py_tp_new, reinterpret_cast<void*>(New)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"millrace._core.Reducer", sizeof(Reducer), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

void AddReducer(PyObject* module) { AddType(module, &spec); }

}  // namespace millrace::python
