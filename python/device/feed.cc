#include "python/device/feed.h"

#include "capi/millrace_device.h"
#include "python/device/device_batch.h"
#include "python/loader/loader_type.h"

namespace millrace::python {
namespace {

struct FeedCalls {
  using Handle = mr_feed;
  using BatchHandle = mr_device_batch;
  static constexpr const char* kName = "millrace._core.Feed";
  static constexpr const char* kDoc = "A plan that runs, whose batches lie on a CUDA device.";

  static mr_error* Open(const mr_plan* plan, mr_context* context, const OpenArguments& open,
                        mr_feed** feed) {
    return mr_feed_open(plan, context, &open.options(), &open.feed_options(), feed);
  }
  static constexpr auto Free = mr_feed_free;
  static constexpr auto Cancel = mr_feed_cancel;
  static constexpr auto TryNext = mr_feed_try_next;
  static constexpr auto Next = mr_feed_next;
  static constexpr auto Save = mr_feed_save;
  static constexpr auto Restore = mr_feed_restore;
  static constexpr auto Seek = mr_feed_seek;
  static constexpr auto Length = mr_feed_length;
  static constexpr auto Schema = mr_feed_schema;
  static constexpr auto Locate = mr_feed_locate;
  static constexpr auto Diagnose = mr_feed_diagnose;
  static constexpr auto MeasureAnew = mr_feed_measure_anew;
};

}  // namespace

void AddFeed(PyObject* module) { LoaderType<FeedCalls>::Add(module); }

}  // namespace millrace::python
