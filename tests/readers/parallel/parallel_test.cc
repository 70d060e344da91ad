#include "readers/parallel/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

TEST(ParallelForTest, EachIndexRunsOnceAndSlotsAreNotShared) {
  for (const int threads : {1, 2, 7}) {
    std::vector<int> calls(1000, 0);
    std::vector<int> sums(static_cast<size_t>(threads), 0);  // without a lock: one call at a time
    const auto status = ParallelFor(calls.size(), threads, [&](size_t index, size_t slot) {
      ++calls[index];
      ++sums.at(slot);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok());
    EXPECT_THAT(calls, testing::Each(1));
    int sum = 0;
    for (const int part : sums) sum += part;
    EXPECT_EQ(sum, 1000);
  }
  EXPECT_TRUE(ParallelFor(0, 3, [](size_t, size_t) { return absl::OkStatus(); }).ok());
}

TEST(ParallelForTest, MoreThreadsThanCoresRunAtOnce) {
  constexpr size_t kThreads = 9;
  std::atomic<size_t> running = 0;
  EXPECT_TRUE(ParallelFor(kThreads, kThreads, [&](size_t, size_t) {
                ++running;
                while (running < kThreads) std::this_thread::yield();
                return absl::OkStatus();
              }).ok());
}

TEST(ParallelForTest, TheErrorOfTheLowestIndexIsReturnedAndNothingMoreBegins) {
  for (const int threads : {1, 6}) {
    std::atomic<size_t> calls = 0;
    const auto status = ParallelFor(10'000, threads, [&](size_t index, size_t) {
      ++calls;
      return index >= 100 ? absl::DataLossError(std::to_string(index)) : absl::OkStatus();
    });
    EXPECT_MESSAGE(status, "lowest");
    EXPECT_LE(calls, 100u + static_cast<size_t>(threads));
  }
}

TEST(ParallelForTest, WithoutMemoryItIsAnError) {
  for (const int threads : {1, 6}) {
    const auto status = ParallelFor(100, threads, [&](size_t index, size_t) -> absl::Status {
      if (index == 40) throw std::bad_alloc();
      return absl::OkStatus();
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
}

TEST(ParallelForTest, WithoutThreadsTheCallerDoesAll) {
  const NoMoreThreads none;
  std::set<std::thread::id> callers;
  EXPECT_TRUE(ParallelFor(20, 4, [&](size_t, size_t) {
                callers.insert(std::this_thread::get_id());
                return absl::OkStatus();
              }).ok());
  EXPECT_THAT(callers, testing::ElementsAre(std::this_thread::get_id()));
}

}  // namespace
}  // namespace millrace::readers
