#ifndef MILLRACE_TESTS_COLLECTIVES_CUDA_DEVICE_QUEUE_CASES_H_
#define MILLRACE_TESTS_COLLECTIVES_CUDA_DEVICE_QUEUE_CASES_H_

// What every device's queue must do with gradients. A test file instantiates DeviceQueueCases with
// a way to make a queue; where there is no such device, all cases are skipped. The oracle is a
// serial loop over base/half.h's conversions: sums are compared to the bit, NaN as NaN.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/cuda/queue.h"
#include "gtest/gtest.h"
#include "tests/collectives/test_buffer.h"
#include "tests/sanitized.h"

namespace millrace::collectives {

struct QueueUnderTest {
  std::string name;  // of the instance
  std::function<absl::StatusOr<std::unique_ptr<DeviceQueue>>()> make;
};

using Bytes = std::vector<std::byte>;

inline constexpr DType kGradientTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr size_t kLargeCount = kSanitized ? 100003 : 1000003;

struct SumCase {
  DType in = DType::kF32;
  DType out = DType::kF32;
  bool with_first = false;
  int num_blocks = 1;
  std::optional<int64_t> rows = std::nullopt;
  size_t count = 0;
  // Elements that are skipped: 0 is aligned to more than any vector, 1 is not.
  size_t first_start = 0;
  size_t blocks_start = 0;
  size_t out_start = 0;
};

inline std::ostream& operator<<(std::ostream& stream, const SumCase& c) {
  stream << (c.with_first ? "first + " : "") << c.num_blocks << " blocks of " << c.count << " "
         << Name(c.in) << " to " << Name(c.out) << ", starts " << c.first_start << c.blocks_start
         << c.out_start;
  return c.rows ? stream << ", rows " << *c.rows : stream;
}

// `c` with every pair of types.
inline void ForTypes(SumCase c, const std::function<void(const SumCase&)>& body) {
  for (const DType in : kGradientTypes) {
    for (const DType out : kGradientTypes) {
      c.in = in;
      c.out = out;
      body(c);
    }
  }
}

inline Bytes ToElements(DType type, const std::vector<double>& values) {
  Bytes elements(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) Store(type, elements.data(), i, values[i]);
  return elements;
}

// Of both signs, within 1/128, of more digits than any type holds.
inline Bytes RandomElements(DType type, size_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = (static_cast<double>(random()) - 0x1p30) * 0x1p-37;
  return ToElements(type, values);
}

inline Bytes ExpectedSum(const SumCase& c, const Bytes& first, const Bytes& blocks) {
  Bytes out(c.count * SizeOf(c.out));
  const auto load = [](DType type, const Bytes& from, size_t i) {
    return static_cast<float>(Load(type, from.data(), i));
  };
  for (size_t i = 0; i < c.count; ++i) {
    float sum = c.with_first ? load(DType::kF32, first, i) : load(c.in, blocks, i);
    for (int b = c.with_first ? 0 : 1; b < c.num_blocks; ++b) {
      sum += load(c.in, blocks, b * c.count + i);
    }
    if (c.rows) sum /= static_cast<float>(std::max<int64_t>(1, *c.rows));
    Store(c.out, out.data(), i, sum);
  }
  return out;
}

// The first element of `type` that is another one, NaN like NaN; `count` when there is none.
inline size_t FirstDifference(DType type, size_t count, const Bytes& a, const Bytes& b) {
  const size_t size = SizeOf(type);
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(&a[i * size], &b[i * size], size) == 0) continue;
    if (!std::isnan(Load(type, a.data(), i)) || !std::isnan(Load(type, b.data(), i))) return i;
  }
  return count;
}

// Memory of the device.
class QueueMemory {
 public:
  QueueMemory(DeviceQueue& queue, size_t bytes) : queue_(queue), bytes_(bytes) {
    const auto memory = queue.Allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status();
    data_ = static_cast<std::byte*>(memory.value_or(nullptr));
  }
  // With these bytes from `start` on.
  QueueMemory(DeviceQueue& queue, const Bytes& bytes, size_t start = 0)
      : QueueMemory(queue, start + bytes.size()) {
    const absl::Status status = queue.Copy(data_ + start, bytes.data(), bytes.size());
    EXPECT_TRUE(status.ok()) << status;
  }
  QueueMemory(const QueueMemory&) = delete;
  QueueMemory& operator=(const QueueMemory&) = delete;
  ~QueueMemory() { queue_.Free(data_); }

  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  Bytes Read() const {
    Bytes bytes(bytes_);
    const absl::Status status = queue_.Copy(bytes.data(), data_, bytes_);
    EXPECT_TRUE(status.ok()) << status;
    return bytes;
  }
  template <typename T>
  T ReadFirst() const {
    T value;
    const absl::Status status = queue_.Copy(&value, data_, sizeof(T));
    EXPECT_TRUE(status.ok()) << status;
    return value;
  }

 private:
  DeviceQueue& queue_;
  const size_t bytes_;
  std::byte* data_ = nullptr;
};

class DeviceQueueCases : public testing::TestWithParam<QueueUnderTest> {
 protected:
  void SetUp() override {
    auto queue = GetParam().make();
    if (absl::IsUnimplemented(queue.status()) || absl::IsFailedPrecondition(queue.status())) {
      GTEST_SKIP() << queue.status();
    }
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *std::move(queue);
  }

  // Sums on the device, among bytes that it must leave alone.
  void ExpectSum(const SumCase& c, const Bytes& first, const Bytes& blocks) {
    constexpr size_t kMargin = 64;
    const Bytes untouched((c.out_start + c.count) * SizeOf(c.out) + kMargin, std::byte{0x5A});
    const QueueMemory device_first(*queue_, first, c.first_start * sizeof(float));
    const QueueMemory device_blocks(*queue_, blocks, c.blocks_start * SizeOf(c.in));
    const QueueMemory device_out(*queue_, untouched);
    const QueueMemory rows(*queue_, sizeof(int64_t));
    ExpectOk(queue_->Set(rows.as<int64_t>(), c.rows.value_or(0)));
    ExpectOk(queue_->Sum({
        .first = c.with_first ? device_first.as<float>() + c.first_start : nullptr,
        .blocks = device_blocks.data() + c.blocks_start * SizeOf(c.in),
        .in_type = c.in,
        .num_blocks = c.num_blocks,
        .out = device_out.data() + c.out_start * SizeOf(c.out),
        .out_type = c.out,
        .count = c.count,
        .rows = c.rows ? rows.as<int64_t>() : nullptr,
    }));
    Bytes expected = untouched;
    std::ranges::copy(ExpectedSum(c, first, blocks), &expected[c.out_start * SizeOf(c.out)]);
    const Bytes got = device_out.Read();
    const size_t all = expected.size() / SizeOf(c.out);
    const size_t at = FirstDifference(c.out, all, expected, got);
    EXPECT_EQ(at, all) << c << ": " << Load(c.out, got.data(), at) << " at "
                       << static_cast<int64_t>(at) - static_cast<int64_t>(c.out_start)
                       << ", expected " << Load(c.out, expected.data(), at);
  }
  void ExpectSumOfRandom(const SumCase& c) {
    ExpectSum(c, RandomElements(DType::kF32, c.count, 1),
              RandomElements(c.in, c.num_blocks * c.count, 2));
  }
  static void ExpectOk(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }

  double SquaresOf(const Bytes& elements, DType type, double before = 0, size_t start = 0) {
    const QueueMemory data(*queue_, elements, start * SizeOf(type));
    const QueueMemory sum(*queue_, ToElements(DType::kF64, {before}));
    ExpectOk(queue_->AddSquares(data.data() + start * SizeOf(type), type,
                                elements.size() / SizeOf(type), sum.as<double>()));
    return sum.ReadFirst<double>();
  }

  std::unique_ptr<DeviceQueue> queue_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceQueueCases);

inline std::string QueueName(const testing::TestParamInfo<QueueUnderTest>& info) {
  return info.param.name;
}

TEST_P(DeviceQueueCases, SumsOfFewElementsHaveTheFormulasBits) {
  for (const bool with_first : {false, true}) {
    for (const int num_blocks : {1, 2, 5}) {
      for (const std::optional<int64_t> rows : {std::optional<int64_t>(), {0}, {3}}) {
        for (const size_t count : {0, 1, 7, 64}) {
          ForTypes(
              {.with_first = with_first, .num_blocks = num_blocks, .rows = rows, .count = count},
              [this](const SumCase& c) { ExpectSumOfRandom(c); });
        }
      }
    }
  }
}

TEST_P(DeviceQueueCases, StartsNeedNotBeAligned) {
  SumCase c = {.with_first = true, .num_blocks = 2, .rows = 3};
  for (const size_t count : {1, 64, 1000}) {
    for (const int starts : {1, 2, 4, 7}) {
      c.count = count;
      c.first_start = starts & 1;
      c.blocks_start = (starts >> 1) & 1;
      c.out_start = (starts >> 2) & 1;
      ForTypes(c, [this](const SumCase& typed) { ExpectSumOfRandom(typed); });
    }
  }
}

TEST_P(DeviceQueueCases, SumsOfManyElementsHaveTheFormulasBits) {
  const auto expect = [this](const SumCase& c) { ExpectSumOfRandom(c); };
  ForTypes({.count = kLargeCount}, expect);
  ForTypes({.with_first = true, .num_blocks = 2, .rows = 3, .count = kLargeCount}, expect);
  // Each block begins where a vector may.
  ForTypes({.with_first = true, .num_blocks = 5, .rows = 7, .count = kLargeCount - 3}, expect);
}

TEST_P(DeviceQueueCases, EveryNumberOfRowsDivides) {
  for (const int64_t rows : {int64_t{-5}, int64_t{1}, (int64_t{1} << 24) + 1, int64_t{1} << 40}) {
    ForTypes({.rows = rows, .count = 100}, [this](const SumCase& c) { ExpectSumOfRandom(c); });
  }
}

TEST_P(DeviceQueueCases, SpecialValuesAreSummedAsTheHostDoes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double specials[] = {0.0,     -0.0,    1.0,      -1.0,     65504.0,   -65504.0,
                             65519.0, 65520.0, 3.4e38,   -3.4e38,  kInfinity, -kInfinity,
                             NAN,     0x1p-14, 0x1p-24,  0x1p-25,  0x3p-25,   -0x1p-26,
                             1e-40,   -1e-45,  0x1p-126, 0x1.01p0, 0x1.03p0,  0x1.001p-14};
  std::vector<double> left, right;
  for (const double a : specials) {
    for (const double b : specials) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  for (const bool with_first : {false, true}) {
    for (const std::optional<int64_t> rows : {std::optional<int64_t>(), {3}}) {
      ForTypes({.with_first = with_first, .rows = rows, .count = left.size()},
               [&](const SumCase& c) {
                 ExpectSum(c, ToElements(DType::kF32, left), ToElements(c.in, right));
               });
    }
  }
}

TEST_P(DeviceQueueCases, EveryElementIsConvertedAsTheHostDoes) {
  constexpr size_t kAll = 1 << 16;  // of a 16-bit type, and as many float32 near what that holds
  std::mt19937 random(3);
  ForTypes({.count = kAll}, [&](const SumCase& c) {
    Bytes blocks(kAll * SizeOf(c.in));
    for (uint32_t i = 0; i < kAll; ++i) {
      if (c.in == DType::kF32) {
        const auto wide = static_cast<float>(Load(c.out, &i, 0));  // little endian
        const uint32_t bits = std::bit_cast<uint32_t>(wide) + random() % 0x4000 - 0x2000;
        std::memcpy(&blocks[i * 4], &bits, 4);
      } else {
        std::memcpy(&blocks[i * 2], &i, 2);
      }
    }
    ExpectSum(c, {}, blocks);
  });
}

TEST_P(DeviceQueueCases, TheSumMayReplaceAnAddend) {
  ForTypes({.with_first = true, .num_blocks = 2, .rows = 3, .count = 1003}, [&](const SumCase& c) {
    const Bytes first = RandomElements(DType::kF32, c.count, 1);
    const Bytes blocks = RandomElements(c.in, 2 * c.count, 2);
    const Bytes expected = ExpectedSum(c, first, blocks);
    for (const int place : {-1, 0, 1}) {  // `first` or a block
      if (SizeOf(place < 0 ? DType::kF32 : c.in) != SizeOf(c.out)) continue;
      const QueueMemory device_first(*queue_, first);
      const QueueMemory device_blocks(*queue_, blocks);
      const QueueMemory rows(*queue_, sizeof(int64_t));
      ExpectOk(queue_->Set(rows.as<int64_t>(), 3));
      std::byte* const out =
          place < 0 ? device_first.data() : device_blocks.data() + place * expected.size();
      ExpectOk(queue_->Sum({.first = device_first.as<float>(),
                            .blocks = device_blocks.data(),
                            .in_type = c.in,
                            .num_blocks = 2,
                            .out = out,
                            .out_type = c.out,
                            .count = c.count,
                            .rows = rows.as<int64_t>()}));
      Bytes got(expected.size());
      ExpectOk(queue_->Copy(got.data(), out, got.size()));
      EXPECT_EQ(FirstDifference(c.out, c.count, expected, got), c.count) << c << " in " << place;
    }
  });
}

// The host knows neither when it issues the sum.
TEST_P(DeviceQueueCases, RowsAndElementsAreThoseOfTheSumsTurn) {
  const QueueMemory source(*queue_, ToElements(DType::kF32, {12, 18}));
  const QueueMemory block(*queue_, sizeof(float));
  const QueueMemory outs(*queue_, 2 * sizeof(float));
  const QueueMemory rows(*queue_, sizeof(int64_t));
  for (const int i : {0, 1}) {
    ExpectOk(queue_->Set(rows.as<int64_t>(), i + 2));
    ExpectOk(queue_->CopyWithin(block.data(), source.as<float>() + i, sizeof(float)));
    ExpectOk(queue_->Sum({.blocks = block.data(),
                          .out = outs.as<float>() + i,
                          .count = 1,
                          .rows = rows.as<int64_t>()}));
  }
  ExpectOk(queue_->Set(rows.as<int64_t>(), 100));
  EXPECT_EQ(outs.Read(), ToElements(DType::kF32, {6, 6}));
}

TEST_P(DeviceQueueCases, WhatIsIssuedRunsInOrder) {
  const QueueMemory numbers(*queue_, 4 * sizeof(int64_t));
  int64_t* const at = numbers.as<int64_t>();
  ExpectOk(queue_->Set(at, -5));
  ExpectOk(queue_->CopyWithin(at + 1, at, sizeof(int64_t)));
  ExpectOk(queue_->Zero(at, sizeof(int64_t) / 2));
  ExpectOk(queue_->CopyWithin(at + 2, at, sizeof(int64_t)));
  ExpectOk(queue_->Zero(at, sizeof(int64_t)));
  ExpectOk(queue_->CopyWithin(at + 3, at, sizeof(int64_t)));
  ExpectOk(queue_->Set(at, int64_t{1} << 40));
  const Bytes got = numbers.Read();
  std::vector<int64_t> values(4);
  std::memcpy(values.data(), got.data(), got.size());
  EXPECT_EQ(values, (std::vector<int64_t>{int64_t{1} << 40, -5, -(int64_t{1} << 32), 0}));
}

TEST_P(DeviceQueueCases, AStreamThatFollowsFindsTheOthersWorkDone) {
  constexpr size_t kCount = 1 << 20;
  constexpr int kSums = 50;
  const auto other = queue_->Another();
  ASSERT_TRUE(other.ok()) << other.status();
  const QueueMemory ones(*queue_, ToElements(DType::kF32, std::vector<double>(kCount, 1)));
  const QueueMemory total(*queue_, kCount * sizeof(float));
  const QueueMemory copy(*queue_, kCount * sizeof(float));
  ExpectOk((*other)->Follow(queue_->stream()));  // for the zeros
  for (int i = 0; i < kSums; ++i) {
    ExpectOk((*other)->Sum(
        {.first = total.as<float>(), .blocks = ones.data(), .out = total.data(), .count = kCount}));
  }
  ExpectOk((*other)->Precede(queue_->stream()));
  ExpectOk(queue_->CopyWithin(copy.data(), total.data(), kCount * sizeof(float)));
  ExpectOk((*other)->Follow(queue_->stream()));
  ExpectOk((*other)->Zero(total.data(), kCount * sizeof(float)));
  const Bytes expected = ToElements(DType::kF32, std::vector<double>(kCount, kSums));
  EXPECT_EQ(FirstDifference(DType::kF32, kCount, copy.Read(), expected), kCount);
  ExpectOk(queue_->Follow((*other)->stream()));
  EXPECT_EQ(total.Read(), Bytes(kCount * sizeof(float)));
}

TEST_P(DeviceQueueCases, SquaresAreAddedToWhatIsThere) {
  for (const DType type : kGradientTypes) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, kLargeCount}) {
      const Bytes elements = RandomElements(type, count, 4);
      double expected = 2.5;
      for (size_t i = 0; i < count; ++i) {
        expected += Load(type, elements.data(), i) * Load(type, elements.data(), i);
      }
      EXPECT_NEAR(SquaresOf(elements, type, 2.5), expected, 1e-12 * expected)
          << count << " " << Name(type);
    }
  }
}

TEST_P(DeviceQueueCases, TheOrderOfSquaresDependsOnTheCountAlone) {
  for (const DType type : kGradientTypes) {
    const Bytes elements = RandomElements(type, kLargeCount, 5);
    const double sum = SquaresOf(elements, type);
    EXPECT_EQ(SquaresOf(elements, type), sum) << Name(type);
    EXPECT_EQ(SquaresOf(elements, type, 0, 1), sum) << Name(type);
  }
}

TEST_P(DeviceQueueCases, SquaresOfSpecialValuesAreTheirs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType type : kGradientTypes) {
    for (const size_t place : {size_t{0}, size_t{700}, size_t{1000}}) {
      Bytes elements = RandomElements(type, 1001, 6);
      Store(type, elements.data(), place, -kInfinity);
      EXPECT_EQ(SquaresOf(elements, type), kInfinity) << Name(type) << " at " << place;
      Store(type, elements.data(), place, NAN);
      EXPECT_TRUE(std::isnan(SquaresOf(elements, type))) << Name(type) << " at " << place;
    }
  }
  // Neither overflows nor vanishes in float64.
  const float huge = 0x1p127f, tiny = 0x1p-149f;
  EXPECT_EQ(SquaresOf(ToElements(DType::kF32, {huge, huge}), DType::kF32), 0x1p255);
  EXPECT_EQ(SquaresOf(ToElements(DType::kF32, {tiny, -tiny}), DType::kF32), 0x1p-297);
}

TEST_P(DeviceQueueCases, SquaresOfTwoThreadsDoNotMix) {
  constexpr int kRounds = 100;
  const auto other = queue_->Another();
  ASSERT_TRUE(other.ok()) << other.status();
  const Bytes elements[] = {RandomElements(DType::kF32, 100000, 7),
                            RandomElements(DType::kF32, 100000, 8)};
  for (DeviceQueue* const second : {queue_.get(), other->get()}) {
    const auto add = [&](int which, DeviceQueue* queue) {
      const double alone = SquaresOf(elements[which], DType::kF32);
      const QueueMemory data(*queue, elements[which]);
      const QueueMemory sums(*queue, kRounds * sizeof(double));
      for (int i = 0; i < kRounds; ++i) {
        ExpectOk(queue->AddSquares(data.data(), DType::kF32, 100000, sums.as<double>() + i));
      }
      EXPECT_EQ(sums.Read(), ToElements(DType::kF64, std::vector<double>(kRounds, alone)));
    };
    std::jthread thread(add, 0, queue_.get());
    add(1, second);
  }
}

TEST_P(DeviceQueueCases, AllocatedMemoryIsZeros) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, kLargeCount}) {
    {
      const QueueMemory spoilt(*queue_, Bytes(bytes, std::byte{0xFF}));
    }
    const QueueMemory memory(*queue_, bytes);
    EXPECT_EQ(memory.Read(), Bytes(bytes));
  }
  const auto none = queue_->Allocate(0);
  ASSERT_TRUE(none.ok()) << none.status();
  queue_->Free(*none);
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_CUDA_DEVICE_QUEUE_CASES_H_
