// What operations say of their memory is true: nothing outside what they write changes, and nothing
// outside what they read matters.

#include "trainer/backend/cuda/operations.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/tested_device.h"
#include "tests/trainer/backend/nets.h"
#include "trainer/backend/cuda/network.h"

namespace millrace::trainer::cuda {
namespace {

// NaN in every type of values.
constexpr std::byte kNaN{0xFF};

// Bytes in the order of their places.
struct Bytes {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

std::vector<Bytes> SortedBytes(const std::vector<MemoryRange>& ranges) {
  std::vector<Bytes> sorted;
  for (const MemoryRange& range : ranges) {
    const auto* const begin = static_cast<const std::byte*>(range.memory);
    sorted.push_back({begin, begin + range.bytes});
  }
  std::ranges::sort(sorted, {}, &Bytes::begin);
  return sorted;
}

// The content of all memory of a device.
class Content {
 public:
  explicit Content(const HostDevice& device) : memory_(device.memory()) {
    for (const auto& part : memory_) bytes_.emplace_back(part.begin(), part.end());
  }
  void Restore() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      std::memcpy(memory_[i].data(), bytes_[i].data(), bytes_[i].size());
    }
  }
  // Restores the ranges alone, and makes all else NaN.
  void RestoreOnly(const std::vector<MemoryRange>& ranges) const {
    for (const auto& part : memory_) std::ranges::fill(part, kNaN);
    for (const MemoryRange& range : ranges) {
      auto* const to = static_cast<std::byte*>(const_cast<void*>(range.memory));
      std::memcpy(to, At(to), range.bytes);
    }
  }
  // What was at a place, and behind it.
  const std::byte* At(const std::byte* place) const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const std::byte* const begin = memory_[i].data();
      if (place >= begin && place < begin + bytes_[i].size()) return &bytes_[i][place - begin];
    }
    ADD_FAILURE() << "a range outside the device's memory";
    return nullptr;
  }
  // True if the memory outside `ranges` is as it was.
  bool IsElsewhere(const std::vector<MemoryRange>& ranges) const {
    const std::vector<Bytes> written = SortedBytes(ranges);
    for (const auto& part : memory_) {
      const std::byte* at = part.data();
      const std::byte* const end = at + part.size();
      for (const Bytes& bytes : written) {
        if (bytes.begin < part.data() || bytes.begin >= end) continue;
        if (bytes.begin > at && !IsAsBefore(at, bytes.begin)) return false;
        at = std::max(at, bytes.end);
      }
      if (at < end && !IsAsBefore(at, end)) return false;
    }
    return true;
  }

 private:
  bool IsAsBefore(const std::byte* begin, const std::byte* end) const {
    return std::memcmp(begin, At(begin), end - begin) == 0;
  }

  const std::vector<std::span<std::byte>> memory_;
  std::vector<std::vector<std::byte>> bytes_;
};

class Checker {
 public:
  explicit Checker(HostDevice& device) : device_(device) {}

  void Check(const Operation& operation) {
    SCOPED_TRACE(operation.name);
    ++count_;
    const Content before(device_);
    ASSERT_TRUE(operation.run(device_).ok());
    ASSERT_TRUE(before.IsElsewhere(operation.writes)) << "it writes what it does not say";
    const Content after(device_);
    before.RestoreOnly(operation.reads);
    ASSERT_TRUE(operation.run(device_).ok());
    for (const MemoryRange& range : operation.writes) {
      // Bytes of these are no results.
      if (range.value == "scratch" || range.value == "workspace") continue;
      const auto* const now = static_cast<const std::byte*>(range.memory);
      const std::byte* const first = before.At(now);
      const std::byte* const second = after.At(now);
      for (size_t i = 0; i < range.bytes; ++i) {
        const bool is_untouched = now[i] == kNaN && first[i] == second[i];
        ASSERT_TRUE(is_untouched || now[i] == second[i])
            << "it reads what it does not say, for byte " << i << " of " << range.value;
      }
    }
    before.Restore();
  }
  int count() const { return count_; }

 private:
  HostDevice& device_;
  int count_ = 0;
};

struct Case {
  const char* net = kEveryLayer;
  NetworkUse use = NetworkUse::kTraining;
  Precision precision = Precision::kFloat32;
  bool fuses = true;
  bool lacks = false;  // true: the device has plain products alone
};

class OperationsTest : public ::testing::TestWithParam<Case> {};

bool HasEpilogue(const ProductSpec& spec) {
  return spec.has_bias || spec.has_relu || spec.has_addend || spec.result != spec.type;
}

TEST_P(OperationsTest, MemoryIsAsTheySay) {
  const Model model = MakeModel(GetParam().net);
  BackendOptions options(1);
  options.precision = GetParam().precision;
  options.fuses = GetParam().fuses;
  std::unique_ptr<Checker> checker;
  NetworkOptions more;
  more.on_operation = [&](const Operation& operation) {
    if (!testing::Test::HasFatalFailure()) checker->Check(operation);
  };
  auto made = TestedDevice::Make(model, MakeInitialWeights(model, 3), MakeInitialBuffers(model),
                                 options, more);
  ASSERT_TRUE(made.ok()) << made.status();
  auto& tested = static_cast<TestedDevice&>(**made);
  if (GetParam().lacks) tested.device().lacks = HasEpilogue;
  checker = std::make_unique<Checker>(tested.device());
  Samples samples(model, 2, 1, 4);
  StepInput input = samples.All();
  input.loss_scale = 4;
  const auto network = tested.backend().Compile(2, GetParam().use);
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_TRUE((*network)->Forward(input).ok());
  if (IsTraining(GetParam().use)) {
    ASSERT_TRUE((*network)->Backward(Ignore).ok());
  }
  EXPECT_GT(checker->count(), 10);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, OperationsTest,
    ::testing::Values(Case{}, Case{.use = NetworkUse::kInputGradients},
                      Case{.use = NetworkUse::kEvaluation}, Case{.precision = Precision::kBFloat16},
                      Case{.precision = Precision::kFloat16}, Case{.fuses = false},
                      Case{.precision = Precision::kBFloat16, .lacks = true},
                      Case{.net = kTwoStems, .precision = Precision::kBFloat16},
                      Case{.net = kTwoStems, .precision = Precision::kFloat16, .lacks = true},
                      Case{.net = kTransposed}, Case{.net = kTransposed, .fuses = false}));

}  // namespace
}  // namespace millrace::trainer::cuda
