// The kernels of optimizers beside the loops of the CPU.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/backend/cuda/kernels/update.h"
#include "trainer/optimizer/square_sum.h"

namespace millrace::trainer::cuda {
namespace {

// A number of many magnitudes in [-1, 1).
float NumberOf(uint64_t seed, size_t k) {
  const uint64_t mixed = (seed * 1000003 + k) * 0x9e3779b97f4a7c15ull;
  const auto whole = static_cast<int64_t>(mixed >> 43) - (int64_t{1} << 20);
  return static_cast<float>(whole >> (mixed % 13)) * 0x1p-20f;
}

std::vector<float> NumbersOf(uint64_t seed, size_t count) {
  std::vector<float> numbers(count);
  for (size_t k = 0; k < count; ++k) numbers[k] = NumberOf(seed, k);
  return numbers;
}

std::vector<float> MagnitudesOf(uint64_t seed, size_t count) {
  std::vector<float> numbers = NumbersOf(seed, count);
  for (float& number : numbers) number = std::abs(number);
  return numbers;
}

struct alignas(64) Line {
  float values[16];
};

// Numbers that begin `shift` elements behind a multiple of 64 bytes.
class Shifted {
 public:
  Shifted(const std::vector<float>& values, size_t shift)
      : lines_(values.size() / 16 + 2), count_(values.size()), shift_(shift) {
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return lines_[0].values + shift_; }
  std::vector<float> values() { return {data(), data() + count_}; }

 private:
  std::vector<Line> lines_;
  size_t count_;
  size_t shift_;
};

struct Updated {
  std::vector<float> weights;
  std::vector<std::vector<float>> slots;
  std::vector<BFloat> compute;
};

constexpr size_t kCount = 3 * UpdateTile::kMostCount / 2 + 3;

// Elements [first, kCount), in two tiles, all `shift` elements off the alignment.
Updated UpdateOnDevice(const UpdateElement& element, size_t num_slots, size_t first, size_t shift) {
  Shifted gradient(NumbersOf(1, kCount), shift);
  Shifted master(NumbersOf(2, kCount), shift);
  std::vector<Shifted> slots;
  for (size_t s = 0; s < num_slots; ++s) slots.emplace_back(MagnitudesOf(3 + s, kCount), shift);
  Updated updated;
  updated.compute.resize(kCount);
  const auto end_of_first = static_cast<uint32_t>(UpdateTile::kMostCount);
  const UpdateTile tiles[] = {
      {first, end_of_first, 0, 0, 0},
      {first + end_of_first, static_cast<uint32_t>(kCount - first - end_of_first), 0, 0, 0}};
  UpdateArgs args;
  args.element = element;
  std::visit([&](const auto& one) { args.elements = &one; }, args.element);
  args.tiles = tiles;
  args.num_tiles = 2;
  args.gradient = gradient.data();
  args.master = master.data();
  args.compute = updated.compute.data();
  args.compute_type = DType::kBF16;
  args.slots_begin = first;
  for (size_t s = 0; s < num_slots; ++s) args.slots[s] = slots[s].data() + first;
  args.allows_vectors = first % 4 == 0;
  EXPECT_TRUE(HostKernels().update->update(nullptr, args).ok());
  updated.weights = master.values();
  for (Shifted& slot : slots) updated.slots.push_back(slot.values());
  return updated;
}

Updated UpdateOnHost(const UpdateElement& element, size_t num_slots, size_t first) {
  const std::vector<float> gradient = NumbersOf(1, kCount);
  Updated updated;
  updated.weights = NumbersOf(2, kCount);
  std::vector<float*> memory;
  for (size_t s = 0; s < num_slots; ++s) {
    updated.slots.push_back(MagnitudesOf(3 + s, kCount));
  }
  for (std::vector<float>& slot : updated.slots) memory.push_back(slot.data() + first);
  UpdateElements(element, std::span(gradient).subspan(first),
                 std::span(updated.weights).subspan(first), memory);
  return updated;
}

TEST(UpdateKernelsTest, AlignedOrNotUpdatesHaveTheBitsOfTheCpu) {
  for (const char* const text :
       {"momentum: 0.9", "momentum: 0.9 nesterov: true", "adam {}", "adamw {}", "rmsprop {}",
        "rmsprop { momentum: 0.9 }", "rmsprop { centered: true }",
        "rmsprop { momentum: 0.9 centered: true }", "lars {}"}) {
    const auto rule = MakeUpdateRule(ParseOptimizer(text));
    const size_t num_slots = rule->slots().size();
    const UpdateElement element = rule->ElementOf({3, 0.01, 0.75f, 0.125f, std::nullopt});
    for (const size_t first : {0, 4, 5}) {
      const Updated expected = UpdateOnHost(element, num_slots, first);
      for (const size_t shift : {0, 1, 4}) {
        const Updated found = UpdateOnDevice(element, num_slots, first, shift);
        EXPECT_EQ(found.weights, expected.weights) << text << first << shift;
        EXPECT_EQ(found.slots, expected.slots) << text << first << shift;
        for (size_t k = first; k < kCount; ++k) {
          ASSERT_EQ(found.compute[k].bits, ToBFloat(expected.weights[k]).bits) << text << k;
        }
      }
    }
  }
}

// The squares of a parameter of `weights` and `gradient`, in tiles of uneven size.
SquaresPair SquaresOf(const std::vector<float>& weights, const std::vector<float>& gradient) {
  std::vector<UpdateTile> tiles;
  for (size_t begin = 0; begin < weights.size();) {
    const size_t count = std::min(weights.size() - begin, 1 + begin % 4093);
    tiles.push_back({begin, static_cast<uint32_t>(count), 0, 0, 1});
    begin += count;
  }
  const uint64_t size = weights.size();
  std::vector<LargestPair> largest_of_tiles(tiles.size());
  std::vector<SquaresPair> squares_of_tiles(tiles.size());
  LargestPair largest;
  SquaresPair squares;
  TileNormArgs of_tiles;
  of_tiles.tiles = tiles.data();
  of_tiles.num_tiles = static_cast<int64_t>(tiles.size());
  of_tiles.gradient = gradient.data();
  of_tiles.master = weights.data();
  of_tiles.sizes = &size;
  of_tiles.largest = &largest;
  of_tiles.largest_of_tiles = largest_of_tiles.data();
  of_tiles.squares_of_tiles = squares_of_tiles.data();
  const TileRange range = {0, 0, static_cast<uint32_t>(tiles.size())};
  const NormArgsOfParameters of_parameters = {
      &range, 1, largest_of_tiles.data(), squares_of_tiles.data(), &largest, &squares};
  const UpdateKernels& kernels = *HostKernels().update;
  EXPECT_TRUE(kernels.largest_of_tiles(nullptr, of_tiles).ok());
  EXPECT_TRUE(kernels.largest(nullptr, of_parameters).ok());
  EXPECT_EQ(largest.of[0], LargestMagnitude(weights));
  EXPECT_EQ(largest.of[1], LargestMagnitude(gradient));
  EXPECT_TRUE(kernels.squares_of_tiles(nullptr, of_tiles).ok());
  EXPECT_TRUE(kernels.squares(nullptr, of_parameters).ok());
  return squares;
}

TEST(UpdateKernelsTest, SquaresHaveTheBitsOfTheCpuHoweverTheyAreCut) {
  for (const size_t count : {1, 255, 4097, 70001}) {
    std::vector<float> weights = NumbersOf(1, count);
    const std::vector<float> gradient(count, 1e-30f);
    weights[count / 2] = 1e20f;
    double expected[4] = {};
    AddSquares(weights, LargestMagnitude(weights), count, expected);
    AddSquares(gradient, LargestMagnitude(gradient), count, expected + 2);
    const SquaresPair found = SquaresOf(weights, gradient);
    for (int k = 0; k < 4; ++k) EXPECT_EQ(found.of[k / 2][k % 2], expected[k]) << count << k;
  }
}

TEST(UpdateKernelsTest, NormsOfZerosAreZeroAndOthersThanNumbersGiveNone) {
  const std::vector<float> zeros(100);
  std::vector<float> odd(100, 1);
  odd[37] = std::numeric_limits<float>::infinity();
  const SquaresPair found = SquaresOf(zeros, odd);
  EXPECT_EQ(NormOf(found.of[0]), 0);
  EXPECT_TRUE(std::isnan(NormOf(found.of[1])));
  odd[37] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(NormOf(SquaresOf(zeros, odd).of[1])));
}

TEST(UpdateKernelsTest, ValuesThatAreNotFiniteAreFoundAnywhere) {
  const auto is_found = [](const std::vector<float>& values) {
    uint32_t found = 0;
    const NonFiniteArgs args = {values.data(), static_cast<int64_t>(values.size()), &found};
    EXPECT_TRUE(HostKernels().update->find_non_finite(nullptr, args).ok());
    return found != 0;
  };
  std::vector<float> values(1000, -std::numeric_limits<float>::max());
  EXPECT_FALSE(is_found(values));
  EXPECT_FALSE(is_found({}));
  for (const float odd :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t place : {0, 513, 999}) {
      values[place] = odd;
      EXPECT_TRUE(is_found(values)) << odd << place;
      values[place] = 0;
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
