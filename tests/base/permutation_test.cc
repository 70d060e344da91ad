#include "base/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace millrace {
namespace {

std::vector<uint64_t> AllImages(uint64_t size, uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<uint64_t> images(size);
  for (uint64_t i = 0; i < size; ++i) images[i] = permutation(i);
  return images;
}

bool IsBijection(const std::vector<uint64_t>& images) {
  std::vector<bool> seen(images.size());
  for (uint64_t image : images) {
    if (image >= images.size() || seen[image]) return false;
    seen[image] = true;
  }
  return true;
}

TEST(Permutation, IsABijectionOfEverySmallSize) {
  for (uint64_t size = 1; size <= 300; ++size) {
    for (uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      ASSERT_TRUE(IsBijection(AllImages(size, key))) << "size " << size << " key " << key;
    }
  }
}

TEST(Permutation, IsABijectionAroundPowersOfTwo) {
  for (int bits = 9; bits <= 14; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    for (uint64_t size : {power - 1, power, power + 1}) {
      ASSERT_TRUE(IsBijection(AllImages(size, 0x1234'5678'9abc'def0))) << "size " << size;
    }
  }
}

TEST(Permutation, StaysInsideHugeRangesAndDoesNotRepeat) {
  for (uint64_t size : {(uint64_t{1} << 40) + 3, uint64_t{1} << 63, ~uint64_t{0}}) {
    const Permutation permutation(size, 99);
    std::vector<uint64_t> images;
    for (uint64_t i = 0; i < 1000; ++i) images.push_back(permutation(i));
    images.push_back(permutation(size - 1));
    for (uint64_t image : images) ASSERT_LT(image, size);
    std::ranges::sort(images);
    EXPECT_EQ(std::ranges::adjacent_find(images), images.end()) << "size " << size;
  }
}

// Computed apart from this code in Python: saved positions depend on these staying as they are.
TEST(Permutation, ImagesAreStableForEver) {
  EXPECT_THAT(AllImages(10, 1), testing::ElementsAre(3, 2, 4, 7, 8, 9, 6, 0, 1, 5));
  const Permutation large((uint64_t{1} << 40) + 3, 99);
  EXPECT_EQ(large(0), 988869744777u);
  EXPECT_EQ(large(1), 231713307467u);
}

TEST(Permutation, KeysGiveDifferentOrders) {
  const std::vector<uint64_t> first = AllImages(1000, 1), second = AllImages(1000, 2);
  int same = 0;
  for (size_t i = 0; i < first.size(); ++i) same += first[i] == second[i] ? 1 : 0;
  // Two random orders agree in one place on average.
  EXPECT_LT(same, 12);
}

// Over many keys each image of index 0 is as likely as any other: chi-square, six deviations.
TEST(Permutation, ImagesOfAnIndexAreUniformOverKeys) {
  constexpr int kSize = 20, kKeys = 8000;
  std::vector<int> counts(kSize);
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[Permutation(kSize, key)(0)];
  const double expected = static_cast<double>(kKeys) / kSize;
  double chi_square = 0;
  for (int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, kSize - 1 + 6 * std::sqrt(2.0 * (kSize - 1)));
}

}  // namespace
}  // namespace millrace
