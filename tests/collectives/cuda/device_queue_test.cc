// The queue that stands in for a device's in other tests does what a device's does.

#include <atomic>

#include "tests/collectives/cuda/device_queue_cases.h"
#include "tests/collectives/cuda/host_queue.h"

namespace millrace::collectives {
namespace {

INSTANTIATE_TEST_SUITE_P(Host, DeviceQueueCases,
                         testing::Values(QueueUnderTest{"queue", MakeHostQueue}), QueueName);

TEST(HostQueue, FollowsAStreamThatIsHeld) {
  HostQueue held, queue;
  std::atomic<bool> go{false};  // test -> held stream, seq_cst
  int64_t number = 0, copy = 0;
  static_cast<HostStream*>(held.stream())->Enqueue([&go] { go.wait(false); });
  ASSERT_TRUE(held.Set(&number, 7).ok());
  ASSERT_TRUE(queue.Follow(held.stream()).ok());
  ASSERT_TRUE(queue.CopyWithin(&copy, &number, sizeof(copy)).ok());
  const auto copied = queue.Record();
  ASSERT_TRUE(copied.ok()) << copied.status();
  for (int i = 0; i < 1000; ++i) {  // a queue that does not wait would be through by then
    EXPECT_FALSE(*queue.Query(*copied));
    std::this_thread::yield();
  }
  go = true;
  go.notify_one();
  int64_t read = 0;
  ASSERT_TRUE(queue.Copy(&read, &copy, sizeof(read)).ok());
  EXPECT_EQ(read, 7);
  queue.Release(*copied);
}

}  // namespace
}  // namespace millrace::collectives
