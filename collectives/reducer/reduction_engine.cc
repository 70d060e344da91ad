#include "collectives/reducer/reduction_engine.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

constexpr std::string_view kBucket = "gradient bucket ";

}  // namespace

absl::Status MetAt(size_t bucket, const absl::Status& failure) {
  if (ToStd(failure.message()).starts_with(kBucket)) return failure;
  return Annotate(failure, absl::StrCat(ToAbsl(kBucket), bucket));
}

float DivisorOf(int64_t rows) { return static_cast<float>(std::max<int64_t>(1, rows)); }

ReductionEngine::ReductionEngine(const BucketPlan& plan, const PrivateReducerOptions& options,
                                 Waiting waiting)
    : plan_(plan),
      options_(options),
      waiting_(std::move(waiting)),
      step_stride_(options.step_stride),
      step_(options.first_step),
      times_(plan),
      accumulator_(plan.counts.size()) {}

absl::Status ReductionEngine::CheckHealth() const {
  MILLRACE_RETURN_IF_ERROR(waiting_.stopped());
  return options_.progress != nullptr ? options_.progress->Health() : absl::OkStatus();
}

void ReductionEngine::Enter(size_t bucket, Phase phase) {
  place_ = {.step = step_, .bucket = static_cast<int>(bucket), .phase = phase};
  if (options_.progress != nullptr) {
    options_.progress->Enter(step_, static_cast<int>(bucket), phase);
  }
}

}  // namespace millrace::collectives
