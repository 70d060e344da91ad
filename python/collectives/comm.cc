#include "python/collectives/comm.h"

#include <memory>

#include "python/array/tensor.h"
#include "python/call/error.h"

namespace millrace::python {
namespace {

constexpr std::chrono::milliseconds kLook{50};

PyTypeObject* comm_type = nullptr;

Comm* AsComm(PyObject* object) { return reinterpret_cast<Comm*>(object); }

// The watchdog's thread, which is awaited, may wait for the interpreter's lock.
void Close(Comm* comm) {
  mr_comm* const open = std::exchange(comm->comm, nullptr);
  if (open == nullptr) return;
  const Unlocked unlocked;
  mr_comm_free(open);
}

void Dealloc(PyObject* object) {
  Close(AsComm(object));
  delete AsComm(object)->calls;
  Py_XDECREF(AsComm(object)->reason);
  Free(object);
}

struct ConnectArguments {
  ConnectArguments(PyObject* arguments, PyObject* keywords) {
    const char* names[] = {"backend",         "rendezvous",         "job_id",     "rank",
                           "world",           "connect_timeout_ns", "timeout_ns", "watchdog",
                           "stall_report_ns", "stall_abort_ns",     "stalled",    nullptr};
    long long times[4] = {};
    int watchdog = 1;
    options.struct_size = sizeof options;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "|$zzziiLLpLLO", const_cast<char**>(names), &options.backend,
            &options.rendezvous, &options.job_id, &options.rank, &options.world, &times[0],
            &times[1], &watchdog, &times[2], &times[3], &stalled)) {
      throw Raised();
    }
    options.connect_timeout_ns = times[0];
    options.timeout_ns = times[1];
    options.stall_report_ns = times[2];
    options.stall_abort_ns = times[3];
    options.no_watchdog = !watchdog;
  }
  mr_comm_options options = {};
  PyObject* stalled = Py_None;
};

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    ConnectArguments connect(arguments, keywords);
    Ref object(reinterpret_cast<PyObject*>(Make<Comm>(type)));
    Comm* const comm = AsComm(object.get());
    comm->calls = new GroupCalls(connect.stalled);
    connect.options.watch = GroupCalls::Watch;
    connect.options.stalled = connect.stalled == Py_None ? nullptr : GroupCalls::TellStall;
    connect.options.user = comm->calls;
    std::string reason;
    comm->calls->Run(
        [&] { return mr_comm_connect(&connect.options, &comm->comm, AppendTo, &reason); });
    comm->reason = Text(reason).release();
    return object;
  });
}

PyObject* Threads(PyObject*, PyObject* arguments) {
  return Call([&] {
    int size = 0;
    long long timeout_ns = 0;
    if (!PyArg_ParseTuple(arguments, "i|L", &size, &timeout_ns)) throw Raised();
    std::vector<mr_comm*> made(static_cast<size_t>(std::max(1, size)));
    Check(mr_comm_threads(size, timeout_ns, made.data()));
    Ref list = Checked(PyList_New(0));
    for (mr_comm* const rank : made) {
      Ref object(reinterpret_cast<PyObject*>(Make<Comm>(comm_type)));
      AsComm(object.get())->comm = rank;
      AsComm(object.get())->calls = new GroupCalls(Py_None);
      AsComm(object.get())->reason = Text("threads").release();
      CheckedZero(PyList_Append(list.get(), object.get()));
    }
    return list;
  });
}

// An open group.
Comm* Open(PyObject* object) {
  if (AsComm(object)->comm == nullptr) Raise(PyExc_ValueError, "the communicator is closed");
  return AsComm(object);
}

// Calls call(group, data, dtype, count, number) with memory and a number that Python gives.
template <typename Collective>
PyObject* RunOnMemory(PyObject* self, PyObject* arguments, const Collective& call) {
  return CallNone([&] {
    unsigned long long address = 0;
    unsigned long long count = 0;
    const char* dtype = nullptr;
    int number = 0;
    if (!PyArg_ParseTuple(arguments, "KsKi", &address, &dtype, &count, &number)) throw Raised();
    const int32_t type = DtypeOf(dtype);
    Comm* const comm = Open(self);
    comm->calls->Run(
        [&] { return call(comm->comm, reinterpret_cast<void*>(address), type, count, number); });
  });
}

PyObject* AllReduce(PyObject* self, PyObject* arguments) {
  return RunOnMemory(self, arguments, mr_comm_allreduce);
}

PyObject* Broadcast(PyObject* self, PyObject* arguments) {
  return RunOnMemory(self, arguments, mr_comm_broadcast);
}

PyObject* Barrier(PyObject* self, PyObject*) {
  return CallNone([&] {
    Comm* const comm = Open(self);
    comm->calls->Run([&] { return mr_comm_barrier(comm->comm); });
  });
}

PyObject* Abort(PyObject* self, PyObject* message) {
  return CallNone([&] {
    const std::string text = TextOf(message);
    Comm* const comm = Open(self);
    comm->calls->Run([&] { return mr_comm_abort(comm->comm, text.c_str()); });
  });
}

PyObject* Leave(PyObject* self, PyObject* message) {
  return CallNone([&] {
    const std::string text = TextOf(message);
    Comm* const comm = Open(self);
    comm->calls->Run([&] { return mr_comm_leave(comm->comm, text.c_str()); });
  });
}

PyObject* Cancel(PyObject* self, PyObject*) {
  mr_comm_cancel(AsComm(self)->comm);
  Py_RETURN_NONE;
}

// No call is under way while it is closed.
PyObject* CloseComm(PyObject* self, PyObject*) {
  return CallNone([&] {
    AsComm(self)->calls->Run([] { return static_cast<mr_error*>(nullptr); });
    Close(AsComm(self));
  });
}

PyObject* Place(PyObject* self, PyObject*) {
  return Call([&] {
    mr_comm_place place = {};
    place.struct_size = sizeof place;
    Check(mr_comm_get_place(Open(self)->comm, &place));
    return Checked(Py_BuildValue("(iiiisO)", place.rank, place.size, place.local_rank,
                                 place.local_size, place.backend, AsComm(self)->reason));
  });
}

PyObject* IsClosed(PyObject* self, void*) { return PyBool_FromLong(AsComm(self)->comm == nullptr); }

PyMethodDef methods[] = {
    {"threads", Threads, METH_VARARGS | METH_STATIC,
     "threads(size, timeout_ns=0)\n--\n\nReturns the groups of ranks that are threads."},
    {"place", Place, METH_NOARGS, "Returns (rank, size, local_rank, local_size, backend, reason)."},
    {"allreduce", AllReduce, METH_VARARGS,
     "allreduce(address, dtype, count, reduction)\n--\n\nReduces memory over all ranks."},
    {"broadcast", Broadcast, METH_VARARGS,
     "broadcast(address, dtype, count, root)\n--\n\nGives the memory of a rank to all."},
    {"barrier", Barrier, METH_NOARGS, "Waits for all ranks."},
    {"abort", Abort, METH_O, "abort(message)\n--\n\nEnds the calls of all ranks."},
    {"leave", Leave, METH_O, "leave(message)\n--\n\nTakes this rank out of the group."},
    {"cancel", Cancel, METH_NOARGS, "Ends the wait under way, in any thread."},
    {"close", CloseComm, METH_NOARGS, "Ends the group, behind the last of its reducers."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {{"closed", IsClosed, nullptr, "True once it is closed.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A group of ranks.")},
                       {Py_tp_new, reinterpret_cast<void*>(New)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};
PyType_Spec spec = {"millrace._core.Comm", sizeof(Comm), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

void GroupCalls::Begin() {
  const std::thread::id caller = caller_.load(std::memory_order_relaxed);
  if (caller == std::this_thread::get_id()) {
    Raise(PyExc_RuntimeError,
          "this thread is in a call of this group of ranks, which the handler "
          "of a signal has interrupted");
  }
  if (caller != std::thread::id()) {
    Raise(PyExc_RuntimeError, "another thread is in a call of this group of ranks");
  }
  next_look_ = Clock::now() + kLook;
  caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void GroupCalls::End(mr_error* error) {
  caller_.store(std::thread::id(), std::memory_order_relaxed);
  if (std::exchange(is_raised_, false)) {
    mr_error_free(error);
    PyErr_Restore(raised_[0].release(), raised_[1].release(), raised_[2].release());
    throw Raised();
  }
  Check(error);
}

void GroupCalls::LookAtSignals() {
  const Locked locked;
  if (!locked || PyErr_CheckSignals() == 0) return;
  PyObject* error[3] = {};
  PyErr_Fetch(&error[0], &error[1], &error[2]);
  for (int i = 0; i < 3; ++i) raised_[i] = Ref(error[i]);
  is_raised_ = true;
}

// Only the thread of the call may run handlers; a reducer's own thread looks, too.
mr_error* GroupCalls::Watch(void* self) {
  auto& calls = *static_cast<GroupCalls*>(self);
  if (calls.caller_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return nullptr;
  if (const Clock::time_point now = Clock::now(); !calls.is_raised_ && now >= calls.next_look_) {
    calls.next_look_ = now + kLook;
    calls.LookAtSignals();
  }
  return calls.is_raised_ ? mr_error_create(MR_CANCELLED,
                                            "an exception was raised in its handler "
                                            "of a signal")
                          : nullptr;
}

void GroupCalls::TellStall(void* self, const char* text, size_t size) {
  const Locked locked;
  if (!locked) return;
  PyObject* const stalled = static_cast<GroupCalls*>(self)->stalled_.get();
  try {
    const Ref sentence = Text(std::string(text, size));
    Checked(PyObject_CallFunctionObjArgs(stalled, sentence.get(), nullptr));
  } catch (const Raised&) {
    PyErr_WriteUnraisable(stalled);
  }
}

void AddComm(PyObject* module) { comm_type = AddType(module, &spec); }

Comm* CommOf(PyObject* object) {
  if (!PyObject_TypeCheck(object, comm_type)) Raise(PyExc_TypeError, "not a group of ranks");
  return AsComm(object);
}

}  // namespace millrace::python
