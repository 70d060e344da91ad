#include "readers/example/short_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "readers/example_builder.h"
#include "readers/parse_example.h"
#include "tests/readers/example/example_oracle.h"
#include "tests/sanitized.h"

// Short entries are read by a way of their own (readers/example/short_entry.h). The WireReader
// alone, which example_parser_test.cc holds against libprotobuf, says what they hold.

namespace millrace::readers {
namespace {

constexpr int kRows = 200;

FeatureSpec Spec(std::string key, DType dtype, Shape shape) {
  FeatureSpec spec;
  spec.name = key;
  spec.key = std::move(key);
  spec.dtype = dtype;
  spec.shape = shape;
  return spec;
}

// What the record has of the keys that are asked for; nullopt: it is damaged.
std::optional<ExampleValues> ReadSlowly(std::string_view record,
                                        std::initializer_list<std::string_view> keys) {
  ExampleValues result;
  internal::WireError error;
  internal::WireError value_error;
  const bool framed =
      internal::VisitExample(record, &error, [&](const internal::FeatureEntry& entry) {
        if (std::ranges::find(keys, entry.key) == keys.end()) return;
        CollectingSink sink;
        internal::DecodeFeature(record, entry, &value_error, sink);
        result[std::string(entry.key)] = sink.values;
      });
  if (!framed || !value_error.ok()) return std::nullopt;
  return result;
}

// Parses the records as one run and compares each row.
void ExpectAsReadSlowly(const std::vector<std::string>& records, const FeatureSpec& ints,
                        const FeatureSpec& floats) {
  const auto op = *MakeParseExample({.features = {ints, floats}});
  RunArena arena;
  Run run(arena, 1, 0, std::vector<SampleId>(records.size()));
  Column& column = run.Add("record", DType::kBytes);
  for (size_t i = 0; i < records.size(); ++i) {
    column.Set(static_cast<int64_t>(i), records[i].data(),
               {static_cast<int64_t>(records[i].size())});
  }
  op->Apply(run);
  int num_ok = 0;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    auto expected = ReadSlowly(records[static_cast<size_t>(row)], {ints.key, floats.key});
    const auto elements = static_cast<size_t>(ints.shape.num_elements());
    const bool good = expected && (*expected)[ints.key].ints.size() == elements &&
                      (*expected)[floats.key].floats.size() == elements;
    ASSERT_EQ(run.ok(row), good) << run.status(row);
    if (!good) continue;
    ++num_ok;
    const auto values = run.Get(ints.name).at(row).as<int64_t>();
    EXPECT_THAT(expected->at(ints.key).ints, testing::ElementsAreArray(values));
    const auto reals = run.Get(floats.name).at(row).as<uint32_t>();
    EXPECT_THAT(expected->at(floats.key).floats, testing::ElementsAreArray(reals));
  }
  EXPECT_GT(num_ok, kRows / 4);
}

class ShortEntryTest : public testing::TestWithParam<size_t> {
 protected:
  // An Example of two features that are asked for, perhaps twice, and perhaps one that is not.
  std::string RandomRecord(size_t num_ints, size_t num_floats) {
    std::vector<int64_t> ints(num_ints);
    for (int64_t& value : ints) value = static_cast<int64_t>(random_() >> (random_() % 64));
    std::vector<float> floats(num_floats);
    for (float& value : floats) value = static_cast<float>(random_() % 1000) / 8;
    ExampleBuilder builder;
    if (random_() % 8 == 0) builder.AddInts(key_ + "?", ints);
    if (random_() % 8 == 0) builder.AddFloats(key_ + "f", floats);
    builder.AddInts(key_ + "i", ints);
    builder.AddFloats(key_ + "f", floats);
    std::string record = builder.Serialize();
    if (random_() % 8 == 0) {  // a second message is merged with the first, its entries are later
      ExampleBuilder again;
      again.AddInts(key_ + "i", std::vector<int64_t>(num_ints, 7));
      record += again.Serialize();
    }
    return record;
  }

  const std::string key_ = std::string(GetParam(), 'k');
  std::mt19937_64 random_{GetParam()};
};

TEST_P(ShortEntryTest, NumbersOfAllSizesReadAsTheWireReaderReadsThem) {
  for (const int count : {1, 3}) {
    std::vector<std::string> records;
    for (int i = 0; i < kRows; ++i) {
      records.push_back(RandomRecord(static_cast<size_t>(count), static_cast<size_t>(count)));
    }
    const Shape shape = count == 1 ? Shape() : Shape({count});
    ExpectAsReadSlowly(records, Spec(key_ + "i", DType::kI64, shape),
                       Spec(key_ + "f", DType::kF32, shape));
  }
}

TEST_P(ShortEntryTest, DamagedOnesReadAsTheWireReaderReadsThem) {
  std::vector<std::string> records;
  for (int i = 0; i < 4 * kRows; ++i) {
    std::string record = RandomRecord(1, 1);
    // Most of the damage goes to the places that are read in words.
    const size_t at = random_() % 4 == 0 ? random_() % record.size() : random_() % 12;
    record[std::min(at + random_() % 3 * (GetParam() + 4), record.size() - 1)] =
        static_cast<char>(random_() % 4 == 0 ? random_() : random_() % 32);
    records.push_back(std::move(record));
  }
  for (int i = 0; i < kRows; ++i) records.push_back(RandomRecord(1, 1));
  ExpectAsReadSlowly(records, Spec(key_ + "i", DType::kI64, {}), Spec(key_ + "f", DType::kF32, {}));
}

INSTANTIATE_TEST_SUITE_P(KeyBytes, ShortEntryTest,
                         testing::Values(0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 17, 30, 100, 108,
                                         109, 110, 116, 117, 118, 119, 126, 127, 130, 300));

TEST(ShortVarint, EveryLengthAndEveryCutIsJudgedLikeTheLoop) {
  std::mt19937_64 random(1);
  for (int i = 0; i < Rounds(20000); ++i) {
    std::string bytes(8, '\0');  // what lies before is read, and does not matter
    for (char& c : bytes) c = static_cast<char>(random());
    const size_t n = random() % 11;
    for (size_t k = 0; k < n; ++k) {
      const bool last = k + 1 == n;
      bytes += static_cast<char>((random() & 0x7f) | (last ? 0 : 0x80));
    }
    if (n > 0 && random() % 4 == 0) bytes[8 + random() % n] ^= static_cast<char>(0x80);
    const std::string_view payload = std::string_view(bytes).substr(8);
    const char* p = payload.data();
    uint64_t expected = 0;
    const bool whole = internal::WireReader::DecodeVarint(p, p + n, &expected) &&
                       p == payload.data() + n && n <= 8;
    int64_t value = 0;
    ASSERT_EQ(internal::DecodeShortVarint(payload, &value), whole) << n;
    if (whole) {
      EXPECT_EQ(static_cast<uint64_t>(value), expected);
    }
  }
}

}  // namespace
}  // namespace millrace::readers
