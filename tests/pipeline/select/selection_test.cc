#include "pipeline/select/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "tests/damaged_bytes.h"

namespace millrace::pipeline {
namespace {

struct Made {
  Selection selection;
  std::vector<uint64_t> kept;  // the numbers of the records, one by one
};

// Keeps each record with a chance of `percent`.
Made Draw(uint64_t num_records, unsigned percent, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint64_t> bits((num_records + 63) / 64, 0);
  std::vector<uint64_t> kept;
  for (uint64_t record = 0; record < num_records; ++record) {
    if (random() % 100 >= percent) continue;
    bits[record / 64] |= uint64_t{1} << (record % 64);
    kept.push_back(record);
  }
  return {Selection(num_records, std::move(bits)), std::move(kept)};
}

constexpr uint64_t kSizes[] = {0, 1, 63, 64, 65, 511, 512, 513, 1024, 5000};
constexpr unsigned kPercents[] = {0, 1, 50, 99, 100};

TEST(SelectionTest, CountsAndNumbersAreThoseOfALoopOverTheRecords) {
  for (const uint64_t size : kSizes) {
    for (const unsigned percent : kPercents) {
      const Made made = Draw(size, percent, 7);
      ASSERT_EQ(made.selection.num_kept(), made.kept.size());
      uint64_t before = 0;
      for (uint64_t record = 0; record <= size; ++record) {
        ASSERT_EQ(made.selection.KeptBefore(record), before) << size << " " << record;
        if (before < made.kept.size() && made.kept[before] == record) ++before;
      }
      std::vector<SampleId> ids(made.kept.size());
      for (size_t i = 0; i < ids.size(); ++i) ids[i].record = i;
      made.selection.ToRecords(0, ids);
      for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i].record, made.kept[i]) << size;
    }
  }
}

TEST(SelectionTest, NumbersMayComeInAnyOrderAndFromAnyPlaceOn) {
  const Made made = Draw(5000, 30, 11);
  std::mt19937 random(3);
  const uint64_t first = 100;
  std::vector<SampleId> ids(500);
  std::vector<uint64_t> wanted;
  for (SampleId& id : ids) {
    id = {.epoch = 4, .record = random() % (made.kept.size() - first)};
    wanted.push_back(made.kept[first + id.record]);
  }
  made.selection.ToRecords(first, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], (SampleId{.epoch = 4, .record = wanted[i]}));
  }
}

TEST(SelectionTest, AFileGivesTheSameSelectionBack) {
  const SelectionKey key = KeyOf("what it was made from");
  for (const uint64_t size : kSizes) {
    const Made made = Draw(size, 40, 5);
    const auto back = DecodeSelection(EncodeSelection(made.selection, key), key, size);
    ASSERT_TRUE(back.has_value()) << size;
    EXPECT_EQ(back->Digest(), made.selection.Digest());
    EXPECT_EQ(back->num_kept(), made.kept.size());
    EXPECT_TRUE(std::ranges::equal(back->bits(), made.selection.bits()));
  }
}

// S-SELECT-5.
TEST(SelectionTest, DamagedForeignAndTornFilesAreNone) {
  const SelectionKey key = KeyOf("a");
  const Made made = Draw(100, 40, 5);
  std::vector<std::byte> bytes = EncodeSelection(made.selection, key);
  EXPECT_FALSE(DecodeSelection(bytes, KeyOf("b"), 100).has_value());
  EXPECT_FALSE(DecodeSelection(bytes, key, 101).has_value());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DecodeSelection(bytes, key, 100).has_value()) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeSelection(std::span(bytes).first(size), key, 100).has_value()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeSelection(bytes, key, 100).has_value());
  bytes.pop_back();
  const std::string good(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::mt19937_64 random(6);
  for (int round = 0; round < 500; ++round) {
    const std::string bad = DamagedBytes(good, random);
    EXPECT_FALSE(DecodeSelection(std::as_bytes(std::span(bad)), key, 100).has_value()) << round;
  }
}

TEST(SelectionTest, DigestsTellSelectionsApart) {
  EXPECT_EQ(Draw(100, 50, 1).selection.Digest(), Draw(100, 50, 1).selection.Digest());
  EXPECT_NE(Draw(100, 50, 1).selection.Digest(), Draw(100, 50, 2).selection.Digest());
  EXPECT_NE(Draw(100, 0, 1).selection.Digest(), Draw(101, 0, 1).selection.Digest());
}

}  // namespace
}  // namespace millrace::pipeline
