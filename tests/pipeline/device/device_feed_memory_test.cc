#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/failing_new.h"
#include "tests/pipeline/device/device_feed_fixture.h"

// Where the host has no memory for a call, the feed is as it was: no batch is lost, and no slab and
// no event. What gives something back needs none.

namespace millrace::pipeline {
namespace {

constexpr int kMostAllocations = 10'000;

// A device that needs no memory by operator new, and does its work at once.
class PlainDevice final : public Device {
 public:
  std::string_view name() const override { return "plain device"; }
  absl::StatusOr<std::byte*> Allocate(size_t bytes, void*) override {
    ++live;
    return static_cast<std::byte*>(std::malloc(bytes));
  }
  void Free(std::byte* memory, void*) override {
    --live;
    std::free(memory);
  }
  absl::StatusOr<void*> CreateStream() override { return static_cast<void*>(this); }
  void DestroyStream(void*) override {}
  absl::StatusOr<void*> CreateEvent() override {
    ++live;
    return std::malloc(1);
  }
  void DestroyEvent(void* event) override {
    --live;
    std::free(event);
  }
  absl::Status Copy(std::byte* to, const void* from, size_t bytes, void*) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Record(void*, void*) override { return absl::OkStatus(); }
  absl::StatusOr<bool> Query(void*) override { return true; }
  absl::Status Wait(void*, void*) override { return absl::OkStatus(); }
  absl::Status Synchronize(void*) override { return absl::OkStatus(); }

  int live = 0;  // slabs and events
};

// Delivers batches that it has, and keeps: neither needs memory.
class ReadyPipeline final : public Pipeline {
 public:
  using Outcome = absl::StatusOr<std::optional<Batch>>;

  explicit ReadyPipeline(size_t batches) {
    FakePipeline fake(std::vector<int64_t>(batches, 4));
    for (size_t i = 0; i < batches; ++i) batches_.push_back(**fake.Next());
  }
  Outcome Next() override {
    if (next_ == batches_.size()) return std::optional<Batch>();
    return std::optional<Batch>(batches_[next_++]);
  }
  std::optional<Outcome> NextFor(std::chrono::nanoseconds) override { return Next(); }
  std::optional<Outcome> TryNext() override { return Next(); }
  void Cancel() override {}
  std::string Save() const override { return "the token of a batch, which is a longer text"; }
  absl::Status Restore(const std::string&) override { return absl::UnimplementedError("a fake"); }
  absl::Status Seek(uint64_t batch) override {
    next_ = batch;
    return absl::OkStatus();
  }
  const Schema& schema() const override { return schema_; }
  StreamLength length() const override { return {.batches = batches_.size()}; }
  uint64_t data_fingerprint() const override { return 0; }
  RecordError Locate(const SampleId&) const override { return {}; }

 private:
  const Schema schema_;
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

// Calls `call` with 0, 1, 2, ... allocations until it succeeds; returns how many there were.
template <typename Call>
int FailWithoutMemory(const Call& call) {
  for (int allocations = 0; allocations < kMostAllocations; ++allocations) {
    try {
      const AllocationsLeft left(allocations);
      call();
      return allocations;
    } catch (const std::bad_alloc&) {
    }
  }
  ADD_FAILURE() << "the call never succeeds";
  return 0;
}

TEST(DeviceFeedMemoryTest, NothingIsLostWhereThereIsNoMemory) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  const auto device = std::make_shared<PlainDevice>();
  int streams[8];
  int allocations = 0;
  {
    const auto feed = OpenFeed(device, std::make_unique<ReadyPipeline>(12), {.ring = 2});
    for (uint64_t i = 0; i < 12; ++i) {
      std::optional<DeviceBatch> batch;
      allocations += FailWithoutMemory([&] { batch = *feed->Next(); });
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(batch->index(), i);
      EXPECT_EQ(feed->Save(), batch->resume_token());
      EXPECT_TRUE(HoldsBatch(batch->Find("a"), i));
      for (int& stream : streams) {
        FailWithoutMemory([&] { EXPECT_TRUE(batch->RecordUse(&stream).ok()); });
      }
      const AllocationsLeft none(0);
      batch.reset();
    }
    EXPECT_FALSE(feed->Next()->has_value());
  }
  EXPECT_GT(allocations, 12);
  EXPECT_EQ(device->live, 0);
}

TEST(DeviceFeedMemoryTest, RestoringMayBeTriedAgain) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  const auto feed = OpenFeed(std::make_shared<PlainDevice>(), std::make_unique<ReadyPipeline>(6));
  EXPECT_EQ((**feed->Next()).index(), 0u);
  FailWithoutMemory([&] { EXPECT_TRUE(feed->Seek(4).ok()); });
  EXPECT_EQ((**feed->Next()).index(), 4u);
}

}  // namespace
}  // namespace millrace::pipeline
