#ifndef MILLRACE_TESTS_PIPELINE_DEVICE_DEVICE_FEED_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_DEVICE_DEVICE_FEED_FIXTURE_H_

#include <gmock/gmock.h>

#include <memory>
#include <utility>
#include <vector>

#include "pipeline/device/handoff.h"
#include "tests/pipeline/device/fake_device.h"
#include "tests/pipeline/device/fake_pipeline.h"

namespace millrace::pipeline {

inline std::unique_ptr<DeviceFeed> OpenFeed(std::shared_ptr<Device> device,
                                            std::unique_ptr<Pipeline> pipeline,
                                            const DeviceFeedOptions& options = {}) {
  auto handoff = Handoff::Make(std::move(device), std::move(pipeline), options);
  EXPECT_TRUE(handoff.ok()) << handoff.status();
  return std::make_unique<DeviceFeed>(*std::move(handoff));
}

// A fake device, a pipeline of batches that are ready, and a feed over both.
struct Rig {
  explicit Rig(std::vector<int64_t> rows, DeviceFeedOptions options = {}, bool automatic = false)
      : device(std::make_shared<FakeDevice>(automatic)) {
    auto owned = std::make_unique<FakePipeline>(std::move(rows), host);
    pipeline = owned.get();
    consumer = *device->CreateStream();
    feed = OpenFeed(device, std::move(owned), options);
  }
  ~Rig() {
    feed.reset();
    device->DestroyStream(consumer);
    device->RunAll();
    EXPECT_THAT(device->violations(), testing::IsEmpty());
    EXPECT_EQ(device->allocated_bytes(), 0u);
    EXPECT_EQ(device->live_events(), 0);
    EXPECT_EQ(device->live_streams(), 0);
    EXPECT_EQ(host->live(), 0);
  }
  DeviceBatch Next() {
    auto batch = feed->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    EXPECT_TRUE(batch->has_value());
    return **batch;
  }
  absl::Status NextStatus() { return feed->Next().status(); }
  // Runs the copy stream as far as it comes.
  void RunCopies() {
    while (device->StepNumber(1)) {
    }
  }

  const std::shared_ptr<SpoilingAllocator> host = std::make_shared<SpoilingAllocator>();
  const std::shared_ptr<FakeDevice> device;
  FakePipeline* pipeline = nullptr;
  void* consumer = nullptr;
  std::unique_ptr<DeviceFeed> feed;
  int right = 0;  // batches that UseLater found whole; read by the device until it is done
};

// True when `a` holds what FakePipeline put into the batch of that index.
inline bool HoldsBatch(const DeviceTensorView& a, uint64_t index) {
  const auto* const values = static_cast<const int32_t*>(a.data);
  for (int64_t i = 0; i < a.shape.num_elements(); ++i) {
    if (values[i] != FakeValue(index, i)) return false;
  }
  return true;
}

// A step of a consumer: a kernel that looks at the batch when the device comes to it.
inline void UseLater(Rig& rig, const DeviceBatch& batch) {
  ASSERT_TRUE(batch.WaitOn(rig.consumer).ok());
  rig.device->Launch(rig.consumer, [a = batch.Find("a"), index = batch.index(),
                                    &right = rig.right] { right += HoldsBatch(a, index) ? 1 : 0; });
  ASSERT_TRUE(batch.RecordUse(rig.consumer).ok());
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DEVICE_DEVICE_FEED_FIXTURE_H_
