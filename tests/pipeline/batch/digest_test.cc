#include "pipeline/digest.h"

#include <gmock/gmock.h>

#include "tests/pipeline/batch/batch_fixture.h"

namespace millrace::pipeline {
namespace {

using Kind = BatchSpec::Kind;

constexpr int64_t kAny = Shape::kUnknown;

uint64_t DigestOf(Kind kind, int64_t num_slots, const std::vector<HandRow>& rows,
                  int64_t first_global_row = 0, int32_t padding = 0) {
  PhysicalPlan plan = BatchPlan(kind, {{"a", DType::kI32, {kAny, 2}}});
  plan.batch.padding.push_back({"a", padding, 0});
  const auto data = MakeBatch(plan, num_slots, rows);
  data->first_global_row = first_global_row;
  StreamDigest digest;
  digest.Add(Batch(data));
  return digest.value();
}

class DigestTest : public ::testing::TestWithParam<Kind> {};

// S-RANK-2: ranks pad to other extents, and have other row splits.
TEST_P(DigestTest, RanksAddUpToTheSingleRank) {
  const HandRow short_row{0, {Counting({1, 2})}};
  const HandRow long_row{1, {Counting({5, 2}, 70)}};
  const HandRow empty_row{2, {Counting({0, 2})}};
  const uint64_t whole = DigestOf(GetParam(), 4, {short_row, long_row, empty_row});
  const uint64_t first = DigestOf(GetParam(), 1, {short_row});
  const uint64_t second = DigestOf(GetParam(), 3, {{0, long_row.values}, {1, empty_row.values}}, 1);
  EXPECT_EQ(first + second, whole);
}

TEST_P(DigestTest, PaddingValueDoesNotCount) {
  const std::vector<HandRow> rows = {{0, {Counting({1, 2})}}, {1, {Counting({5, 2})}}};
  EXPECT_EQ(DigestOf(GetParam(), 2, rows, 0, 3), DigestOf(GetParam(), 2, rows, 0, 4));
}

TEST_P(DigestTest, ValuesAndExtentsCount) {
  const uint64_t digest = DigestOf(GetParam(), 1, {{0, {Counting({2, 2})}}});
  EXPECT_NE(digest, DigestOf(GetParam(), 1, {{0, {Counting({2, 2}, 2)}}}));
  Value longer = Counting({2, 2});
  longer.shape = {3, 2};
  longer.elements.resize(6);
  EXPECT_NE(digest, DigestOf(GetParam(), 1, {{0, {longer}}}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DigestTest, ::testing::Values(Kind::kPadded, Kind::kRagged),
                         [](const auto& kind) {
                           return kind.param == Kind::kPadded ? "Padded" : "Ragged";
                         });

}  // namespace
}  // namespace millrace::pipeline
