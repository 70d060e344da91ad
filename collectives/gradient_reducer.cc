#include "collectives/gradient_reducer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/bucket_plan_internal.h"

namespace millrace::collectives {
namespace {

constexpr std::align_val_t kAlignment{BucketPlan::kAlignFloats * sizeof(float)};

struct AlignedDelete {
  void operator()(float* memory) const { ::operator delete[](memory, kAlignment); }
};
using BucketMemory = std::unique_ptr<float[], AlignedDelete>;

// Zeros, so that the padding, which is reduced along, stays zero. Null when memory is out.
BucketMemory AllocateZeros(size_t floats) {
  const size_t bytes = std::max<size_t>(floats, 1) * sizeof(float);
  auto* memory = static_cast<float*>(::operator new[](bytes, kAlignment, std::nothrow));
  if (memory != nullptr) std::fill_n(memory, std::max<size_t>(floats, 1), 0.0f);
  return BucketMemory(memory);
}

class PlannedReducer final : public GradientReducer {
 public:
  PlannedReducer(Communicator& communicator, std::vector<GradientSpec> gradients, BucketPlan plan,
                 uint64_t hash, BucketMemory memory)
      : communicator_(communicator),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        hash_(hash),
        memory_(std::move(memory)),
        ready_(gradients_.size()) {
    StartStep();
  }

  std::span<float> gradient(size_t i) override {
    return {memory_.get() + plan_.offsets[i], plan_.sizes[i]};
  }
  absl::Status MarkReady(size_t i) override;
  absl::Status Finish() override;
  size_t num_buckets() const override { return plan_.buckets.size(); }
  std::string Summary() const override;

 private:
  void StartStep();
  absl::Status ReduceNextBucket();

  // Constant after construction.
  Communicator& communicator_;
  const std::vector<GradientSpec> gradients_;
  const BucketPlan plan_;
  const uint64_t hash_;
  const BucketMemory memory_;

  // Of the running step.
  std::vector<bool> ready_;      // by gradient
  std::vector<size_t> missing_;  // by bucket: gradients that are not ready
  size_t next_bucket_ = 0;       // buckets before it are reduced
  absl::Status failed_;  // of a reduction: half of the sums are lost, so no later call succeeds
};

void PlannedReducer::StartStep() {
  ready_.assign(gradients_.size(), false);
  missing_.clear();
  for (const BucketPlan::Bucket& bucket : plan_.buckets) {
    missing_.push_back(bucket.last - bucket.first);
  }
  next_bucket_ = 0;
}

absl::Status PlannedReducer::MarkReady(size_t i) {
  MILLRACE_RETURN_IF_ERROR(failed_);
  if (i >= gradients_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", i, " of ", gradients_.size(), " does not exist"));
  }
  if (ready_[i]) {
    return absl::FailedPreconditionError(
        absl::StrCat("gradient '", gradients_[i].name, "' was marked twice in one step"));
  }
  ready_[i] = true;
  --missing_[plan_.bucket_of[i]];
  while (next_bucket_ < missing_.size() && missing_[next_bucket_] == 0) {
    failed_ = ReduceNextBucket();
    MILLRACE_RETURN_IF_ERROR(failed_);
  }
  return absl::OkStatus();
}

absl::Status PlannedReducer::ReduceNextBucket() {
  const BucketPlan::Bucket& bucket = plan_.buckets[next_bucket_];
  const TensorView view{memory_.get() + bucket.offset, DType::kF32,
                        Shape{static_cast<int64_t>(bucket.size)}};
  const absl::Status status = communicator_.AllReduce(view, ReduceOp::kSum);
  if (!status.ok()) return Annotate(status, absl::StrCat("gradient bucket ", next_bucket_));
  ++next_bucket_;
  return absl::OkStatus();
}

absl::Status PlannedReducer::Finish() {
  MILLRACE_RETURN_IF_ERROR(failed_);
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  if (missing != ready_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "gradient '", gradients_[missing - ready_.begin()].name, "' was not marked in this step"));
  }
  StartStep();
  return absl::OkStatus();
}

std::string PlannedReducer::Summary() const {
  std::string text = absl::StrCat(num_buckets(), num_buckets() == 1 ? " bucket" : " buckets");
  const char* separator = ": ";
  for (const BucketPlan::Bucket& bucket : plan_.buckets) {
    absl::StrAppendFormat(&text, "%s%.1f", separator, bucket.size * sizeof(float) / 1e6);
    separator = ", ";
  }
  if (num_buckets() > 0) text += " MB";
  absl::StrAppendFormat(&text, "; plan 0x%016x", hash_);
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Make(
    Communicator& communicator, std::vector<GradientSpec> gradients,
    const ReducerOptions& options) {
  const std::string encoded = EncodePlanInputs(gradients, options);
  absl::StatusOr<BucketPlan> plan = MakeBucketPlan(gradients, options);
  BucketMemory memory;
  absl::Status planned = plan.status();
  if (planned.ok()) {
    memory = AllocateZeros(plan->total);
    if (memory == nullptr) {
      planned = absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", plan->total * sizeof(float), " bytes of gradients"));
    }
  }
  MILLRACE_RETURN_IF_ERROR(AgreeOnPlan(communicator, planned, encoded));
  return std::make_unique<PlannedReducer>(communicator, std::move(gradients), *std::move(plan),
                                          HashPlanInputs(encoded), std::move(memory));
}

}  // namespace millrace::collectives
