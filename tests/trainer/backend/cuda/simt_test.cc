// The stand-in for a GPU itself: tests of kernels are worth what it sees.

#include "tests/trainer/backend/cuda/simt.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "trainer/backend/cuda/kernels/launch.h"

namespace millrace::trainer::cuda {
namespace {

using on_host::Launch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

__global__ void WriteIndex(int* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = static_cast<int>(i + 1000 * gridDim.x);
}

TEST(SimtTest, EveryThreadRunsOnceWithItsIndex) {
  std::vector<int> values(12);
  for (const bool has_barriers : {false, true}) {
    std::ranges::fill(values, 0);
    const Grid grid = {.name = "k", .blocks = 3, .threads = 4, .has_barriers = has_barriers};
    ASSERT_TRUE(Launch(nullptr, grid, WriteIndex, values.data()).ok());
    std::vector<int> expected(12);
    std::iota(expected.begin(), expected.end(), 3000);
    EXPECT_EQ(values, expected);
  }
}

// Each thread reads what the next one wrote, in each of several rounds.
__global__ void Rotate(int* values, int rounds) {
  __shared__ int shared[256];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    const int taken = shared[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    shared[threadIdx.x] = taken;
  }
  values[blockIdx.x * blockDim.x + threadIdx.x] = shared[threadIdx.x];
}

TEST(SimtTest, ThreadsMeetAtBarriers) {
  std::vector<int> values(2 * 256);
  const Grid grid = {.name = "rotate", .blocks = 2, .threads = 256, .has_barriers = true};
  ASSERT_TRUE(Launch(nullptr, grid, Rotate, values.data(), 70).ok());
  for (int i = 0; i < 512; ++i) EXPECT_EQ(values[i], (i + 70) % 256) << i;
}

__global__ void SumOfWarp(const double* from, double* to) {
  double sum = from[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
  }
  to[threadIdx.x] = sum + 1000 * __shfl_sync(0xFFFFFFFFu, from[threadIdx.x], 3);
}

TEST(SimtTest, LanesOfAWarpExchangeValues) {
  std::vector<double> from(64);
  std::iota(from.begin(), from.end(), 0);
  std::vector<double> to(64);
  const Grid grid = {.name = "warps", .threads = 64, .has_barriers = true};
  ASSERT_TRUE(Launch(nullptr, grid, SumOfWarp, from.data(), to.data()).ok());
  EXPECT_EQ(to[0], 496 + 3000);
  EXPECT_EQ(to[31], 496 + 3000);
  EXPECT_EQ(to[32], 496 + 32 * 32 + 35000);
}

__global__ void HalfWarp(int* to) {
  if (threadIdx.x < 16) __syncwarp(0xFFFF);
  __syncthreads();
  *to += 1;
}

TEST(SimtTest, AWarpWaitsForTheLanesInItsMaskAlone) {
  int count = 0;
  const Grid grid = {.name = "half", .threads = 32, .has_barriers = true};
  ASSERT_TRUE(Launch(nullptr, grid, HalfWarp, &count).ok());
  EXPECT_EQ(count, 32);
}

__global__ void OneLeaves(unsigned who) {
  if (threadIdx.x == who) return;
  __syncthreads();
}

__global__ void TwoBarriers() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void ShuffleWithoutOne(int* to) {
  if (threadIdx.x != 5) *to = __shfl_xor_sync(0xFFFFFFFFu, 1, 1);
}

// What would hang on a device is an error that names the kernel, the block and the threads; and the
// next kernel runs.
TEST(SimtTest, ThreadsThatWaitForEverAreFound) {
  const auto text_of = [](const absl::Status& status) { return std::string(status.message()); };
  int value = 0;
  const Grid left = {.name = "left", .blocks = 2, .threads = 40, .has_barriers = true};
  const Grid torn = {.name = "torn", .threads = 8, .has_barriers = true};
  const Grid lanes = {.name = "lanes", .threads = 32, .has_barriers = true};
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(text_of(Launch(nullptr, left, OneLeaves, 7u)),
                AllOf(HasSubstr("kernel left, block 0: thread 0 waits for its block at "),
                      HasSubstr("simt_test.cc:"), HasSubstr(", but thread 7 has ended")));
    EXPECT_THAT(text_of(Launch(nullptr, left, OneLeaves, 0u)),
                HasSubstr("thread 1 waits for its block at "));
    EXPECT_THAT(text_of(Launch(nullptr, torn, TwoBarriers)),
                AllOf(HasSubstr("kernel torn, block 0: thread 0 waits for its block at "),
                      HasSubstr(", but thread 1 waits for its block at ")));
    EXPECT_THAT(text_of(Launch(nullptr, lanes, ShuffleWithoutOne, &value)),
                AllOf(HasSubstr("kernel lanes"), HasSubstr("thread 0 waits for its warp at "),
                      HasSubstr("thread 5 has ended")));
    std::vector<int> values(256);
    const Grid grid = {.name = "rotate", .threads = 256, .has_barriers = true};
    EXPECT_TRUE(Launch(nullptr, grid, Rotate, values.data(), 3).ok());
    EXPECT_EQ(values[0], 3);
  }
}

// A launch says whether its kernel has barriers; one that lies is found.
TEST(SimtTest, ABarrierOfAKernelThatIsLaunchedWithoutIsFound) {
  std::vector<int> values(64);
  std::vector<double> numbers(64);
  const Grid grid = {.name = "liar", .threads = 64};
  const absl::Status barrier = Launch(nullptr, grid, Rotate, values.data(), 1);
  EXPECT_THAT(std::string(barrier.message()),
              HasSubstr("kernel liar is launched as one without barriers, but has one at "));
  EXPECT_FALSE(Launch(nullptr, grid, SumOfWarp, numbers.data(), numbers.data()).ok());
  EXPECT_FALSE(Launch(nullptr, grid, HalfWarp, values.data()).ok());
  EXPECT_TRUE(Launch(nullptr, grid, WriteIndex, values.data()).ok());
}

TEST(SimtTest, AStreamThatCapturesKeepsTheWork) {
  std::vector<std::function<absl::Status()>> kept;
  HostStream stream{&kept};
  std::vector<int> values(2);
  const Grid grid = {.name = "k", .threads = 2};
  ASSERT_TRUE(Launch(&stream, grid, WriteIndex, values.data()).ok());
  EXPECT_THAT(values, ElementsAre(0, 0));
  ASSERT_EQ(kept.size(), 1u);
  ASSERT_TRUE(kept[0]().ok());
  EXPECT_THAT(values, ElementsAre(1000, 1001));
}

TEST(SimtTest, HostThreadsMayLaunchAtTheSameTime) {
  std::vector<std::vector<int>> values(4, std::vector<int>(256));
  std::vector<std::jthread> threads;
  for (std::vector<int>& mine : values) {
    threads.emplace_back([&mine] {
      const Grid grid = {.name = "rotate", .threads = 256, .has_barriers = true};
      for (int round = 0; round < 5; ++round) {
        EXPECT_TRUE(Launch(nullptr, grid, Rotate, mine.data(), 9).ok());
      }
    });
  }
  threads.clear();
  for (const std::vector<int>& mine : values) EXPECT_EQ(mine[250], 3);
}

}  // namespace
}  // namespace millrace::trainer::cuda
