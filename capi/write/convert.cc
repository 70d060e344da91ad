#include "readers/convert.h"

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/status.h"
#include "capi/call/cancel.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/write/convert_options.h"
#include "capi/write/output.h"

namespace millrace::capi {
namespace {

// Tells the program how far the conversion is, and asks it whether to go on: by its `progress` in
// the thread that converts, by its `cancel` in any.
class Told {
 public:
  explicit Told(const mr_convert_options& options)
      : options_(options), cancel_(CancelsOf(options.cancel)) {}

  void Tell(int64_t done, int64_t total) {
    done_ = done;
    total_ = total;
  }
  bool Cancels() {
    if (cancel_ && cancel_()) return true;
    const bool is_due = total_ > 0 && std::this_thread::get_id() == thread_;
    if (options_.progress != nullptr && is_due && !is_cancelled_) {
      is_cancelled_ = options_.progress(options_.user, done_, total_) != 0;
    }
    return is_cancelled_;
  }

 private:
  const mr_convert_options& options_;
  const millrace::Cancels cancel_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> is_cancelled_{false};  // thread that converts -> any, relaxed: a flag alone
  int64_t done_ = 0;
  std::atomic<int64_t> total_{0};  // as is_cancelled_; 0: no record is done
};

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace readers = millrace::readers;

mr_error* mr_convert(const mr_convert_options* options, mr_convert_report* report) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_convert", {{"options", options != nullptr}}));
    mr_convert_options taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(options, "mr_convert_options", taken));
    mr_convert_report filled = {};
    if (report != nullptr) {  // before the work, so that it is not done in vain
      MILLRACE_RETURN_IF_ERROR(capi::Give(filled, report, "mr_convert_report"));
    }
    capi::Told told(taken);
    MILLRACE_ASSIGN_OR_RETURN(readers::ConvertOptions made,
                              capi::ConvertOptionsOf(taken, [&told] { return told.Cancels(); }));
    MILLRACE_ASSIGN_OR_RETURN(const capi::Output output,
                              capi::MakeOutput("mr_convert_options", taken.prefix));
    made.output_prefix = output.prefix;
    const auto progress = [&told](int64_t done, int64_t total) { told.Tell(done, total); };
    MILLRACE_ASSIGN_OR_RETURN(const readers::ConvertReport done, readers::Convert(made, progress));
    if (report == nullptr) return absl::OkStatus();
    filled.records = done.num_records;
    filled.left_out = done.num_left_out;
    filled.images_not_read = done.num_images_not_read;
    filled.file_bytes = done.file_bytes;
    return capi::Give(filled, report, "mr_convert_report");
  });
}
