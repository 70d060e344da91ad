#ifndef MILLRACE_TESTS_PIPELINE_DEVICE_FAKE_PIPELINE_H_
#define MILLRACE_TESTS_PIPELINE_DEVICE_FAKE_PIPELINE_H_

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "pipeline/batch/data.h"
#include "pipeline/pipeline.h"

// A pipeline whose batches are there at once, are of whatever sizes a test asks for, and whose host
// memory is spoilt the moment a batch is given back.

namespace millrace::pipeline {

// Fills what is freed with 0xDD, and keeps it until the end: whoever still reads it gets that.
class SpoilingAllocator final : public HostAllocator {
 public:
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    MutexLock lock(mu_);
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    ++live_;
    return memory_.back().get();
  }
  void Free(std::byte* memory, size_t bytes) override {
    MutexLock lock(mu_);
    std::memset(memory, 0xDD, bytes);
    --live_;
  }
  std::string_view name() const override { return "spoiling"; }
  int live() const {
    MutexLock lock(mu_);
    return live_;
  }

 private:
  mutable Mutex mu_;
  std::vector<std::unique_ptr<std::byte[]>> memory_ MILLRACE_GUARDED_BY(mu_);
  int live_ MILLRACE_GUARDED_BY(mu_) = 0;
};

// The value of element i of batch b.
inline int32_t FakeValue(uint64_t batch, int64_t i) {
  return static_cast<int32_t>(batch * 100'003 + static_cast<uint64_t>(i));
}

class FakePipeline final : public Pipeline {
 public:
  // Batch b has rows[b] rows of int32[16] "a" and uint8[] "b".
  explicit FakePipeline(std::vector<int64_t> rows,
                        std::shared_ptr<SpoilingAllocator> allocator = nullptr)
      : rows_(std::move(rows)),
        allocator_(allocator ? std::move(allocator) : std::make_shared<SpoilingAllocator>()),
        budget_(std::make_shared<MemoryBudget>(int64_t{1} << 40, std::make_shared<Metrics>())),
        schema_({{"a", DType::kI32, {16}}, {"b", DType::kU8, {}}}) {}

  absl::StatusOr<std::optional<Batch>> Next() override {
    if (auto outcome = TryNext()) return *std::move(outcome);
    MutexLock lock(mu_);
    waiting_ = true;
    changed_.NotifyAll();
    while (!cancelled_) changed_.Wait(mu_);
    return absl::CancelledError("the pipeline was cancelled");
  }
  // A batch that is not there at once never comes.
  std::optional<absl::StatusOr<std::optional<Batch>>> NextFor(std::chrono::nanoseconds) override {
    return TryNext();
  }
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() override {
    using Outcome = absl::StatusOr<std::optional<Batch>>;
    {
      MutexLock lock(mu_);
      if (cancelled_) return Outcome(absl::CancelledError("the pipeline was cancelled"));
    }
    if (next_ == stall_at) return std::nullopt;
    if (errors.contains(next_)) return Outcome(errors[next_]);
    if (allocator_->live() >= max_host_slabs) {
      return Outcome(MarkRetryable(absl::ResourceExhaustedError("too many host slabs are held")));
    }
    if (next_ == rows_.size()) return Outcome(std::nullopt);
    return Outcome(MakeBatch(next_++));
  }
  void Cancel() override {
    MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
  }
  // Returns when another thread is asleep in Next.
  void AwaitWaiter() {
    MutexLock lock(mu_);
    while (!waiting_) changed_.Wait(mu_);
  }

  std::string Save() const override { return next_ == 0 ? "" : absl::StrCat("token ", next_ - 1); }
  absl::Status Restore(const std::string& token) override {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (token == absl::StrCat("token ", i)) return Seek(i + 1);
    }
    return absl::InvalidArgumentError("not a token of this stream");
  }
  absl::Status Seek(uint64_t batch) override {
    if (batch > rows_.size()) return absl::InvalidArgumentError("there are fewer batches");
    next_ = batch;
    return absl::OkStatus();
  }

  const Schema& schema() const override { return schema_; }
  StreamLength length() const override { return {.batches = rows_.size()}; }
  uint64_t data_fingerprint() const override { return 0; }
  RecordError Locate(const SampleId&) const override { return {}; }
  size_t taken() const { return next_; }

  size_t stall_at = SIZE_MAX;             // this batch is never ready
  std::map<size_t, absl::Status> errors;  // in place of a batch
  int max_host_slabs = INT32_MAX;

 private:
  std::optional<Batch> MakeBatch(size_t index) {
    auto layout = std::make_shared<BatchLayout>(
        *MakeBatchLayout(schema_, static_cast<uint64_t>(rows_[index])));
    auto data = std::make_shared<BatchData>(
        layout, std::make_shared<SlabPool>(allocator_, budget_, 0), budget_);
    data->slab = *data->pool->Take(layout->slab_bytes);
    auto* const values = reinterpret_cast<int32_t*>(data->tensor(0));
    for (int64_t i = 0; i < 16 * rows_[index]; ++i) values[i] = FakeValue(index, i);
    for (int64_t i = 0; i < rows_[index]; ++i) {
      data->tensor(1)[i] = static_cast<std::byte>(index + static_cast<size_t>(i));
      data->ids()[i] = SampleId();
      data->ids()[i].record = index * 1000 + static_cast<uint64_t>(i);
      data->valid()[i] = i % 3 != 2;
    }
    data->index = index;
    data->epoch = index / 4;
    data->ends_epoch = index % 4 == 3;
    data->num_valid_rows = rows_[index] - rows_[index] / 3;
    data->num_global_valid_rows = 7 * rows_[index];
    data->first_global_row = 5;
    data->resume_token = absl::StrCat("token ", index);
    if (index % 2 == 1) data->damaged.push_back({2, {0, 7, 0}, absl::DataLossError("record 7")});
    return Batch(data);
  }

  const std::vector<int64_t> rows_;
  const std::shared_ptr<SpoilingAllocator> allocator_;
  const std::shared_ptr<MemoryBudget> budget_;
  const Schema schema_;
  size_t next_ = 0;

  Mutex mu_;
  CondVar changed_;
  bool waiting_ MILLRACE_GUARDED_BY(mu_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mu_) = false;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DEVICE_FAKE_PIPELINE_H_
