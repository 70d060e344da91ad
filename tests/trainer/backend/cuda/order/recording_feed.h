#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_FEED_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_FEED_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/batch/data.h"
#include "pipeline/device/device.h"
#include "pipeline/device_feed.h"
#include "tests/trainer/backend/cuda/order/recording.h"

namespace millrace::trainer::cuda::order {

// A device of DeviceFeed, so that the feed's own hand-off is recorded: slabs, copies, events. An
// event passes when it was asked for a few times after it was recorded. Used by one thread.
class RecordingFeedDevice final : public pipeline::Device {
 public:
  // `recording` outlives the device.
  explicit RecordingFeedDevice(Recording& recording) : recording_(recording) {}

  std::string_view name() const override { return "recording device"; }
  absl::StatusOr<std::byte*> Allocate(size_t bytes, void* stream) override {
    return recording_.Allocate(bytes, "of the feed", NumberOf(stream));
  }
  void Free(std::byte* memory, void* stream) override { recording_.Free(memory, NumberOf(stream)); }
  absl::StatusOr<void*> CreateStream() override {
    return static_cast<void*>(recording_.MakeStream("feed"));
  }
  void DestroyStream(void*) override {}
  absl::StatusOr<void*> CreateEvent() override {
    return static_cast<void*>(new Event{recording_.MakeEvent()});
  }
  void DestroyEvent(void* event) override { delete ToEvent(event); }
  absl::Status Copy(std::byte* device_memory, const void* host_memory, size_t bytes,
                    void* stream) override {
    recording_.Work(NumberOf(stream), "copy of the feed",
                    {.reads = {{host_memory, bytes}}, .writes = {{device_memory, bytes}}});
    return absl::OkStatus();
  }
  absl::Status Record(void* event, void* stream) override {
    ToEvent(event)->questions = kNotYet;
    recording_.Record(ToEvent(event)->number, NumberOf(stream));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Query(void* event) override {
    if (ToEvent(event)->questions-- > 0) return false;
    recording_.Wait(kHost, ToEvent(event)->number);
    return true;
  }
  absl::Status Wait(void* stream, void* event) override {
    recording_.Wait(NumberOf(stream), ToEvent(event)->number);
    return absl::OkStatus();
  }
  absl::Status Synchronize(void* stream) override {
    recording_.Order(NumberOf(stream), kHost);
    return absl::OkStatus();
  }

 private:
  static constexpr int kNotYet = 2;
  struct Event {
    int number = 0;
    int questions = 0;  // to be answered with "not yet"
  };
  static Event* ToEvent(void* event) { return static_cast<Event*>(event); }
  static int NumberOf(void* stream) { return Recording::ToStream(stream)->number; }

  Recording& recording_;
};

// Slabs of batches: the host writes them before it hands them out, and again when they come back.
// Real memory, of which nothing is touched.
class RecordedSlabs final : public pipeline::HostAllocator {
 public:
  explicit RecordedSlabs(Recording& recording) : recording_(recording) {}

  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    recording_.AddHostMemory(memory, bytes, "of a batch");
    recording_.Work(kHost, "decode", {.writes = {{memory, bytes}}});
    return memory;
  }
  void Free(std::byte* memory, size_t bytes) override {
    recording_.Work(kHost, "reuse of a slab", {.writes = {{memory, bytes}}});
    recording_.RemoveHostMemory(memory);
    std::free(memory);
  }
  std::string_view name() const override { return "recorded"; }

 private:
  Recording& recording_;
};

// A pipeline whose batches of `rows` rows are there at once. Their values are undefined.
class RecordedPipeline final : public pipeline::Pipeline {
 public:
  RecordedPipeline(Recording& recording, Schema schema, int64_t rows)
      : slabs_(std::make_shared<RecordedSlabs>(recording)),
        budget_(std::make_shared<MemoryBudget>(int64_t{1} << 40, std::make_shared<Metrics>())),
        schema_(std::move(schema)),
        rows_(rows) {}

  using Outcome = absl::StatusOr<std::optional<pipeline::Batch>>;
  Outcome Next() override { return std::optional(MakeBatch()); }
  std::optional<Outcome> NextFor(std::chrono::nanoseconds) override { return Next(); }
  std::optional<Outcome> TryNext() override { return Next(); }
  void Cancel() override {}
  std::string Save() const override { return absl::StrCat(next_); }
  absl::Status Restore(const std::string&) override { return absl::OkStatus(); }
  absl::Status Seek(uint64_t) override { return absl::OkStatus(); }
  const Schema& schema() const override { return schema_; }
  pipeline::StreamLength length() const override { return {}; }
  uint64_t data_fingerprint() const override { return 0; }
  RecordError Locate(const SampleId&) const override { return {}; }

 private:
  pipeline::Batch MakeBatch() {
    auto layout = std::make_shared<pipeline::BatchLayout>(
        *pipeline::MakeBatchLayout(schema_, static_cast<uint64_t>(rows_)));
    auto data = std::make_shared<pipeline::BatchData>(
        layout, std::make_shared<pipeline::SlabPool>(slabs_, budget_, 0), budget_);
    data->slab = *data->pool->Take(layout->slab_bytes);
    for (int64_t i = 0; i < rows_; ++i) {
      data->ids()[i] = SampleId();
      data->valid()[i] = 1;
    }
    data->index = next_++;
    data->num_valid_rows = rows_;
    data->num_global_valid_rows = 2 * rows_;
    return pipeline::Batch(data);
  }

  const std::shared_ptr<RecordedSlabs> slabs_;
  const std::shared_ptr<MemoryBudget> budget_;
  const Schema schema_;
  const int64_t rows_;
  uint64_t next_ = 0;
};

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_FEED_H_
