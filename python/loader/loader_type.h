#ifndef MILLRACE_PYTHON_LOADER_LOADER_TYPE_H_
#define MILLRACE_PYTHON_LOADER_LOADER_TYPE_H_

#include <array>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "capi/millrace.h"
#include "capi/millrace_diagnosis.h"
#include "python/array/tensor.h"
#include "python/batch/batch.h"
#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/call/wait.h"
#include "python/loader/open_options.h"
#include "python/ops/function.h"
#include "python/ops/ops.h"

namespace millrace::python {

// The type of a plan that runs. `Calls` has the handle in C, its calls and its batches: those of
// mr_loader or of mr_feed.
template <typename Calls>
class LoaderType {
 public:
  static PyTypeObject* Add(PyObject* module) { return AddType(module, &spec_); }

 private:
  using Handle = typename Calls::Handle;

  // The deliveries of a loader, and the time that calls have waited for it.
  struct Counts {
    uint64_t batches, samples, waits, wait_ns;
  };

  static PyObject* GetCounts(PyObject* self, void*) {
    const Counts& counts = AsLoader(self)->counts;
    return Py_BuildValue("(KKKK)", static_cast<unsigned long long>(counts.batches),
                         static_cast<unsigned long long>(counts.samples),
                         static_cast<unsigned long long>(counts.waits),
                         static_cast<unsigned long long>(counts.wait_ns));
  }

  struct Loader {
    PyObject_HEAD;
    Handle* loader;  // NULL once it is closed
    PyObject* context;
    PyObject* ops;
    Look look;
    bool busy;     // true while a thread is in a call
    bool closing;  // true if that thread closes it when it comes back
    Counts counts;
  };

  static Loader* AsLoader(PyObject* object) { return reinterpret_cast<Loader*>(object); }

  // ---- Life ----

  // Worker threads may wait for the interpreter's lock, and are awaited. The ops live as long.
  static void Close(Loader* loader) {
    Handle* const open = std::exchange(loader->loader, nullptr);
    if (open == nullptr) return;
    Py_XINCREF(loader->ops);
    RunAwayFromOps([open] { Calls::Free(open); }, loader->ops);
  }

  // Ops may hold the object that holds this one: only the collector of garbage ends that.
  static int Traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(AsLoader(object)->context);
    Py_VISIT(AsLoader(object)->ops);
    return 0;
  }

  static int Clear(PyObject* object) {
    Close(AsLoader(object));
    Py_CLEAR(AsLoader(object)->context);
    Py_CLEAR(AsLoader(object)->ops);
    return 0;
  }

  static void Dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    Clear(object);
    AsLoader(object)->look.~Look();
    Free(object);
  }

  // The use of a loader by one thread. The interpreter's lock guards the two flags.
  class Use {
   public:
    explicit Use(PyObject* object) : loader_(AsLoader(object)) {
      if (loader_->busy) Raise(PyExc_RuntimeError, "another thread is in a call of this loader");
      if (loader_->loader == nullptr) Raise(PyExc_ValueError, "the loader is closed");
      loader_->busy = true;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (IsOver()) return;
      if (loader_->closing) Close(loader_);
      loader_->busy = false;
    }
    Handle* get() const { return loader_->loader; }
    Loader* operator->() const { return loader_; }

    // Throws the exception of an error, caused by what an op of Python raised.
    void CheckError(mr_error* error) const {
      if (error == nullptr) return;
      const Ref exception = ExceptionOf(error);
      if (loader_->ops != nullptr && loader_->ops != Py_None) {
        SetCause(loader_->ops, exception.get());
      }
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
      throw Raised();
    }

    // Makes a call that may wait, and throws the exception of its error.
    template <typename Waiting>
    void Wait(const Waiting& call) const {
      mr_error* error = nullptr;
      {
        const Unlocked unlocked;
        error = call();
      }
      CheckError(error);
    }

   private:
    Loader* const loader_;
  };

  static PyObject* CloseLoader(PyObject* self, PyObject*) {
    return CallNone([&] {
      Loader* const loader = AsLoader(self);
      if (!loader->busy) return Close(loader);
      loader->closing = true;
      if (loader->loader != nullptr) Calls::Cancel(loader->loader);
    });
  }

  static PyObject* Cancel(PyObject* self, PyObject*) {
    if (Handle* const loader = AsLoader(self)->loader; loader != nullptr) Calls::Cancel(loader);
    Py_RETURN_NONE;
  }

  static PyObject* IsClosed(PyObject* self, void*) {
    return PyBool_FromLong(AsLoader(self)->loader == nullptr);
  }

  static PyObject* IsBusy(PyObject* self, void*) { return PyBool_FromLong(AsLoader(self)->busy); }

  // ---- The fields of its batches ----

  struct FieldText {
    std::string name;
    int32_t dtype;
    std::vector<int64_t> shape;
  };

  static std::vector<FieldText> FieldsOf(Handle* loader) {
    std::vector<FieldText> fields;
    Check(Calls::Schema(
        loader,
        [](void* user, const mr_field* field) {
          static_cast<std::vector<FieldText>*>(user)->push_back(
              {field->name, field->dtype, {field->shape, field->shape + field->rank}});
        },
        &fields));
    return fields;
  }

  static PyObject* Schema(PyObject* self, PyObject*) {
    return Call([&] {
      const Use use(self);
      Ref list = Checked(PyList_New(0));
      for (const FieldText& field : FieldsOf(use.get())) {
        const auto rank = static_cast<int32_t>(field.shape.size());
        const Ref row =
            Checked(Py_BuildValue("(NsN)", Text(field.name).release(), NameOf(field.dtype),
                                  Extents(field.shape.data(), rank).release()));
        CheckedZero(PyList_Append(list.get(), row.get()));
      }
      return list;
    });
  }

  // ---- Opening ----

  static PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    return Call([&] {
      OpenArguments open(arguments, keywords);
      auto* const loader = Make<Loader>(type);
      Ref object(reinterpret_cast<PyObject*>(loader));
      auto fields = std::make_shared<Fields>();
      fields->codes = open.KeepCodes();
      new (&loader->look)
          Look{std::move(fields), open.trim(), open.readonly(), open.feed_options().device};
      loader->context = open.KeepContext().release();
      loader->ops = open.KeepOps().release();
      const mr_plan* const plan = open.plan();
      mr_context* const context = open.context();
      open.Run([&] { return Calls::Open(plan, context, open, &loader->loader); });
      return object;
    });
  }

  // ---- Batches ----

  static uint64_t Unsigned(PyObject* number) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() != nullptr) throw Raised();
    return value;
  }

  static void WaitForNext(const Use& use, int64_t timeout_ns, typename Calls::BatchHandle** batch,
                          int32_t* outcome) {
    const Wait wait(timeout_ns);
    const WaitCount count(use->counts.waits, use->counts.wait_ns);
    while (*outcome == MR_TIMED_OUT && wait.GoesOn()) {
      use.CheckError(wait.Slice(
          [&](int64_t slice_ns) { return Calls::Next(use.get(), slice_ns, batch, outcome); }));
    }
  }

  static Ref Deliver(typename Calls::BatchHandle* owned, Loader& from) {
    int64_t valid_rows = 0;
    Ref batch = MakeBatch(owned, from.look, valid_rows);
    ++from.counts.batches;
    from.counts.samples += static_cast<uint64_t>(valid_rows);
    return batch;
  }

  // Tries with the interpreter's lock held: given up for every batch, it would come back late where
  // another thread of Python is busy.
  static PyObject* Next(PyObject* self, PyObject* arguments) {
    return Call([&] {
      long long timeout_ns = -1;
      if (!PyArg_ParseTuple(arguments, "|L", &timeout_ns)) throw Raised();
      const Use use(self);
      typename Calls::BatchHandle* batch = nullptr;
      int32_t outcome = MR_FAILED;
      use.CheckError(Calls::TryNext(use.get(), &batch, &outcome));
      if (outcome == MR_TIMED_OUT) WaitForNext(use, timeout_ns, &batch, &outcome);
      if (outcome == MR_BATCH) return Deliver(batch, *AsLoader(self));
      if (outcome == MR_END) return Ref::Borrow(Py_None);
      Check(mr_error_create(MR_DEADLINE_EXCEEDED, "no batch was ready in that time"));
      throw Raised();
    });
  }

  static PyObject* Save(PyObject* self, PyObject*) {
    return Call([&] {
      const Use use(self);
      std::string token;
      Check(Calls::Save(use.get(), AppendTo, &token));
      return Text(token);
    });
  }

  static PyObject* Restore(PyObject* self, PyObject* token) {
    return CallNone([&] {
      const std::string text = TextOf(token);
      const Use use(self);
      use.Wait([&] { return Calls::Restore(use.get(), text.data(), text.size()); });
    });
  }

  static PyObject* Seek(PyObject* self, PyObject* number) {
    return CallNone([&] {
      const uint64_t batch = Unsigned(number);
      const Use use(self);
      use.Wait([&] { return Calls::Seek(use.get(), batch); });
    });
  }

  static PyObject* Length(PyObject* self, PyObject*) {
    return Call([&] {
      const Use use(self);
      mr_length length = {};
      length.struct_size = sizeof length;
      Check(Calls::Length(use.get(), &length));
      const Ref infinite = Checked(PyBool_FromLong(length.infinite));
      const Ref known = Checked(PyBool_FromLong(length.known));
      return Checked(Py_BuildValue("(OOKK)", infinite.get(), known.get(),
                                   static_cast<unsigned long long>(length.batches),
                                   static_cast<unsigned long long>(length.batches_per_epoch)));
    });
  }

  struct Place {
    std::string file;
    int64_t offset = -1;
    int64_t ordinal = -1;
  };

  static PyObject* Locate(PyObject* self, PyObject* arguments) {
    return Call([&] {
      std::array<PyObject*, 3> of = {};  // epoch, record, sub_index
      if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyLong_Type, &of[0], &PyLong_Type, &of[1],
                            &PyLong_Type, &of[2])) {
        throw Raised();
      }
      const mr_sample_id id = {Unsigned(of[0]), Unsigned(of[1]), Unsigned(of[2])};
      const Use use(self);
      Place place;
      use.Wait([&] { return Calls::Locate(use.get(), &id, TakePlace, &place); });
      return Checked(Py_BuildValue("(NLL)", Text(place.file).release(),
                                   static_cast<long long>(place.offset),
                                   static_cast<long long>(place.ordinal)));
    });
  }

  static void TakePlace(void* user, const mr_record* found) {
    *static_cast<Place*>(user) = {found->file, found->offset, found->ordinal};
  }

  // ---- Diagnosis ----

  static PyObject* MeasureAnew(PyObject* self, PyObject*) {
    return CallNone([&] {
      const Use use(self);
      use.Wait([&] { return Calls::MeasureAnew(use.get()); });
    });
  }

  static PyObject* Diagnose(PyObject* self, PyObject*) {
    return Call([&] {
      mr_diagnosis_options options = {};
      options.struct_size = sizeof options;
      options.threads = "Context(threads=$0)";
      options.memory_budget = "Context(memory_budget=\"$0MiB\")";
      options.cpu_budget = "cpu_budget=$0";
      options.prefetch = "prefetch=$0";
      const Use use(self);
      std::string json;
      use.Wait([&] { return Calls::Diagnose(use.get(), &options, TakeJson, &json); });
      return Text(json);
    });
  }

  static void TakeJson(void* user, const mr_diagnosis* diagnosis) {
    *static_cast<std::string*>(user) = diagnosis->json;
  }

  static inline PyMethodDef methods_[] = {
      {"next", Next, METH_VARARGS,
       "next(timeout_ns=-1)\n--\n\nWaits for the next batch, and returns it, or None at the end."},
      {"cancel", Cancel, METH_NOARGS, "Makes the call under way, and every later one, Cancelled."},
      {"close", CloseLoader, METH_NOARGS, "Stops the work under way. Batches stay valid."},
      {"schema", Schema, METH_NOARGS, "Returns (name, dtype, shape of a row) of each field."},
      {"save", Save, METH_NOARGS, "Returns the token of the stream's state."},
      {"restore", Restore, METH_O,
       "restore(token)\n--\n\nMoves the stream behind the token's batch."},
      {"seek", Seek, METH_O, "seek(batch)\n--\n\nMoves the stream in front of a batch."},
      {"length", Length, METH_NOARGS, "Returns (infinite, known, batches, batches_per_epoch)."},
      {"locate", Locate, METH_VARARGS,
       "locate(epoch, record, sub_index)\n--\n\nReturns (file, offset, ordinal) of a sample's "
       "record."},
      {"measure_anew", MeasureAnew, METH_NOARGS, "Begins the time of diagnose() here."},
      {"diagnose", Diagnose, METH_NOARGS,
       "Returns the diagnosis of the time since the stream began, or was measured anew, as JSON."},
      {nullptr, nullptr, 0, nullptr}};

  static inline PyGetSetDef properties_[] = {
      {"closed", IsClosed, nullptr, "True once it is closed.", nullptr},
      {"busy", IsBusy, nullptr, "True while a thread is in a call.", nullptr},
      {"counts", GetCounts, nullptr,
       "The batches and samples delivered, the calls that waited for one, and their nanoseconds.",
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};

  static inline PyType_Slot slots_[] = {{Py_tp_doc, const_cast<char*>(Calls::kDoc)},
                                        {Py_tp_new, reinterpret_cast<void*>(New)},
                                        {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                                        {Py_tp_traverse, reinterpret_cast<void*>(Traverse)},
                                        {Py_tp_clear, reinterpret_cast<void*>(Clear)},
                                        {Py_tp_methods, methods_},
                                        {Py_tp_getset, properties_},
                                        {0, nullptr}};

  static inline PyType_Spec spec_ = {Calls::kName, sizeof(Loader), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots_};
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_LOADER_LOADER_TYPE_H_
