#include "pipeline/device/slabs.h"

#include <gmock/gmock.h>

#include <memory>

#include "tests/pipeline/device/fake_device.h"

namespace millrace::pipeline {
namespace {

// A slab that was given back before its consumer's work on the device was done.
class SlabsTest : public testing::Test {
 protected:
  void SetUp() override {
    slab_ = **slabs_->Take(kBytes);
    void* const used = *slabs_->TakeEvent();
    device_->Launch(consumer_, [this] { is_read_ = true; });
    ASSERT_TRUE(device_->Record(used, consumer_).ok());
    slabs_->GiveBack(slab_, {used});
  }
  void TearDown() override {
    slabs_.reset();
    device_->DestroyStream(consumer_);
    device_->RunAll();
    EXPECT_THAT(device_->violations(), testing::IsEmpty());
    EXPECT_EQ(device_->live_events(), 0);
    EXPECT_EQ(device_->live_streams(), 0);
  }
  // Takes the slab again and writes to it; true if the consumer had read it by then.
  bool IsReadBeforeTheWrite() {
    EXPECT_EQ((*slabs_->Take(kBytes))->memory, slab_.memory);
    bool is_before = false;
    device_->Launch(slabs_->copy_stream(), [&] { is_before = is_read_; });
    device_->RunStream(slabs_->copy_stream());
    device_->RunAll();
    slabs_->GiveBack(slab_, {});
    return is_before;
  }

  static constexpr size_t kBytes = 1000;
  const std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>(/*automatic=*/false);
  void* const consumer_ = *device_->CreateStream();
  std::shared_ptr<DeviceSlabs> slabs_ = *DeviceSlabs::Make(device_, 1, int64_t{1} << 30);
  DeviceSlab slab_;
  bool is_read_ = false;
};

TEST_F(SlabsTest, SlabIsWrittenBehindItsUse) { EXPECT_TRUE(IsReadBeforeTheWrite()); }

TEST_F(SlabsTest, QueryThatFailsDoesNotSayThatAUseIsOver) {
  device_->FailCall("Query", 0, absl::InternalError("refused"));
  EXPECT_TRUE(IsReadBeforeTheWrite());
}

TEST_F(SlabsTest, SlabThatCouldNotBeWaitedForKeepsItsUse) {
  device_->FailCall("Wait", 0, absl::InternalError("refused"));
  EXPECT_TRUE(absl::IsInternal(slabs_->Take(kBytes).status()));
  EXPECT_TRUE(IsReadBeforeTheWrite());
}

// Its memory goes with the device.
TEST_F(SlabsTest, SlabThatCannotBeFreedInOrderIsGivenUp) {
  device_->FailCall("Wait", 0, absl::InternalError("lost"));
  slabs_->Close();
  EXPECT_EQ(slabs_->allocated_bytes(), 0);
  device_->RunAll();
  EXPECT_GT(device_->allocated_bytes(), 0u);
}

}  // namespace
}  // namespace millrace::pipeline
