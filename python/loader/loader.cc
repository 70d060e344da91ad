#include "python/loader/loader.h"

#include "python/batch/batch.h"
#include "python/call/lock.h"
#include "python/loader/loader_type.h"
#include "python/loader/open_options.h"

namespace millrace::python {
namespace {

struct LoaderCalls {
  using Handle = mr_loader;
  using BatchHandle = mr_batch;
  static constexpr const char* kName = "millrace._core.Loader";
  static constexpr const char* kDoc = "A plan that runs.";

  static mr_error* Open(const mr_plan* plan, mr_context* context, const OpenArguments& open,
                        mr_loader** loader) {
    return mr_loader_open(plan, context, &open.options(), loader);
  }
  static constexpr auto Free = mr_loader_free;
  static constexpr auto Cancel = mr_loader_cancel;
  static constexpr auto TryNext = mr_loader_try_next;
  static constexpr auto Next = mr_loader_next;
  static constexpr auto Save = mr_loader_save;
  static constexpr auto Restore = mr_loader_restore;
  static constexpr auto Seek = mr_loader_seek;
  static constexpr auto Length = mr_loader_length;
  static constexpr auto Schema = mr_loader_schema;
  static constexpr auto Locate = mr_loader_locate;
  static constexpr auto Diagnose = mr_loader_diagnose;
  static constexpr auto MeasureAnew = mr_loader_measure_anew;
};

}  // namespace

void AddLoader(PyObject* module) { LoaderType<LoaderCalls>::Add(module); }

PyObject* Explain(PyObject*, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    OpenArguments open(arguments, keywords);
    const mr_plan* const plan = open.plan();
    mr_context* const context = open.context();
    std::string text;
    open.Run([&] { return mr_explain(plan, context, &open.options(), AppendTo, &text); });
    return Text(text);
  });
}

}  // namespace millrace::python
