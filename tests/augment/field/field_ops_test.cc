#include "augment/field_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using ::testing::ElementsAre;
using testing::ResolveAndApply;
using testing::TestRun;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
DType TypeOf() {
  if (std::is_same_v<T, uint8_t>) return DType::kU8;
  if (std::is_same_v<T, int32_t>) return DType::kI32;
  if (std::is_same_v<T, int64_t>) return DType::kI64;
  return std::is_same_v<T, float> ? DType::kF32 : DType::kF64;
}

// How the rows of a column lie.
enum class Layout { kDense, kApart, kOneFailed };

constexpr Layout kLayouts[] = {Layout::kDense, Layout::kApart, Layout::kOneFailed};

// Adds scalar rows; `values` must outlive the run and, for kApart and kOneFailed, is not in order.
template <typename T>
void AddColumn(TestRun& run, const std::string& name, const std::vector<T>& values, Layout layout) {
  Column& column = run->Add(name, TypeOf<T>());
  const auto last = std::ssize(values) - 1;
  if (layout == Layout::kDense) {
    for (int64_t row = 0; row <= last; ++row) column.Set(row, &values[row], {});
  } else {
    for (int64_t row = last; row >= 0; --row) column.Set(row, &values[row], {});
  }
}

template <typename To>
std::vector<To> ValuesOf(TestRun& run, const std::string& name) {
  std::vector<To> values;
  for (int64_t row = 0; row < run->num_rows(); ++row) {
    if (run->ok(row)) values.push_back(run->Get(name).at(row).template as<To>()[0]);
  }
  return values;
}

// What the op makes of scalars. With kOneFailed the last row has failed before, and is left out.
template <typename To, typename From>
std::vector<To> Apply(absl::StatusOr<std::unique_ptr<Op>> op, const std::vector<From>& values,
                      Layout layout = Layout::kDense) {
  EXPECT_TRUE(op.ok()) << op.status();
  if (!op.ok()) return {};
  TestRun run(std::ssize(values));
  AddColumn(run, "x", values, layout);
  if (layout == Layout::kOneFailed) {
    run->Fail(std::ssize(values) - 1, absl::InternalError("before"));
  }
  const Schema output = ResolveAndApply(**op, Schema({{"x", TypeOf<From>(), {}}}), *run);
  EXPECT_EQ(output.Find("x")->dtype, TypeOf<To>());
  EXPECT_EQ(run->Get("x").dtype(), TypeOf<To>());
  return ValuesOf<To>(run, "x");
}

absl::Status ResolveError(absl::StatusOr<std::unique_ptr<Op>> op, DType dtype,
                          const Shape& shape = {}) {
  EXPECT_TRUE(op.ok()) << op.status();
  const auto schema = (*op)->Resolve(Schema({{"x", dtype, shape}}));
  EXPECT_FALSE(schema.ok());
  return schema.status();
}

// S-FIELD-1.
TEST(ScaleTest, MultipliesAndAddsInFloat64AndRoundsOnce) {
  const ScaleOptions options{.fields = {"x"}, .factor = {0.1}, .offset = {-3}};
  const auto expected = [](double x) { return static_cast<float>(x * 0.1 - 3); };
  for (const Layout layout : kLayouts) {
    const auto floats = Apply<float>(MakeScale(options), std::vector<float>{1, 2.5f, 7, 8}, layout);
    EXPECT_EQ(floats[1], expected(2.5));
    EXPECT_EQ(floats.size(), layout == Layout::kOneFailed ? 3u : 4u);
  }
  EXPECT_THAT(Apply<float>(MakeScale(options), std::vector<int64_t>{1 << 30, -5}),
              ElementsAre(expected(1 << 30), expected(-5)));
  EXPECT_THAT(Apply<float>(MakeScale(options), std::vector<uint8_t>{255, 0}),
              ElementsAre(expected(255), -3.0f));
  EXPECT_THAT(Apply<float>(MakeScale(options), std::vector<int32_t>{9}), ElementsAre(expected(9)));
  EXPECT_THAT(Apply<double>(MakeScale(options), std::vector<double>{7}), ElementsAre(7 * 0.1 - 3));
}

TEST(ScaleTest, MinAndMaxBecomeZeroAndOne) {
  EXPECT_THAT(Apply<float>(MakeScale({.fields = {"x"}, .min = {-10}, .max = {30}}),
                           std::vector<float>{-10, 30, 10, 70}),
              ElementsAre(0, 1, 0.5f, 2));
}

TEST(ScaleTest, EachFieldHasItsOwnNumbers) {
  auto op = MakeScale({.fields = {"a", "b"}, .factor = {2, 3}, .offset = {1}});
  ASSERT_TRUE(op.ok());
  TestRun run(2);
  const std::vector<float> a = {1, 2};
  const std::vector<int64_t> b = {3, 4};
  AddColumn(run, "a", a, Layout::kDense);
  AddColumn(run, "b", b, Layout::kDense);
  const Schema in({{"a", DType::kF32, {}}, {"b", DType::kI64, {}}});
  ResolveAndApply(**op, in, *run);
  EXPECT_THAT(ValuesOf<float>(run, "a"), ElementsAre(3, 5));
  EXPECT_THAT(ValuesOf<float>(run, "b"), ElementsAre(10, 13));
}

TEST(ScaleTest, RowsOfAnyShapeKeepIt) {
  auto op = MakeScale({.fields = {"x"}, .factor = {2}});
  ASSERT_TRUE(op.ok());
  const float values[] = {1, 2, 3, 4, 5, 6};
  TestRun run(2);
  Column& column = run->Add("x", DType::kF32);
  column.Set(0, values, {3});
  column.Set(1, values + 3, {2});
  ResolveAndApply(**op, Schema({{"x", DType::kF32, {Shape::kUnknown}}}), *run);
  EXPECT_THAT(run->Get("x").at(0).as<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(run->Get("x").at(1).as<float>(), ElementsAre(8, 10));
}

TEST(ScaleTest, WritesStraightIntoTheSlab) {
  auto op = MakeScale({.fields = {"x"}, .factor = {2}});
  ASSERT_TRUE(op.ok());
  const std::vector<float> values = {1, 2, 3};
  std::vector<float> slab(3);
  const FieldSlots slots[] = {{"x", DType::kF32, {}, reinterpret_cast<std::byte*>(slab.data())}};
  TestRun run(3);
  AddColumn(run, "x", values, Layout::kDense);
  run->Bind(slots);
  ResolveAndApply(**op, Schema({{"x", DType::kF32, {}}}), *run);
  EXPECT_THAT(slab, ElementsAre(2, 4, 6));
  EXPECT_EQ(run->Get("x").at(0).data, slab.data());
}

// S-FIELD-2.
TEST(LogTest, IsCriteosRuleByDefault) {
  for (const Layout layout : kLayouts) {
    const auto logs =
        Apply<float>(MakeLog({.fields = {"x"}}), std::vector<int64_t>{-3, 0, 1, 65535, 9}, layout);
    EXPECT_EQ(logs[0], 0);
    EXPECT_EQ(logs[1], 0);
    EXPECT_EQ(logs[2], static_cast<float>(std::log(2.0)));
    EXPECT_EQ(logs[3], static_cast<float>(std::log(65536.0)));
  }
}

TEST(LogTest, KeepsSmallNumbersAndNaN) {
  const auto logs = Apply<double>(MakeLog({.fields = {"x"}}), std::vector<double>{1e-18, kNaN});
  EXPECT_EQ(logs[0], 1e-18);
  EXPECT_TRUE(std::isnan(logs[1]));
}

TEST(LogTest, TakesAnotherLeastNumberAndOffset) {
  EXPECT_THAT(
      Apply<float>(MakeLog({.fields = {"x"}, .min = -1, .offset = 3}), std::vector<float>{-7, 5}),
      ElementsAre(static_cast<float>(std::log(2.0)), static_cast<float>(std::log(8.0))));
}

TEST(LogTest, KeepsASmallLeastNumberOfIntegers) {
  EXPECT_THAT(Apply<float>(MakeLog({.fields = {"x"}, .min = 1e-20}), std::vector<int64_t>{0, 1}),
              ElementsAre(1e-20f, static_cast<float>(std::log(2.0))));
}

TEST(BucketizeTest, IsTorchsBucketizeOnBothSides) {
  // torch.bucketize([0, 1, 2, 3, 9, nan], [1, 3]) and with right=True; the latter is np.digitize.
  const std::vector<double> values = {0, 1, 2, 3, 9, kNaN};
  for (const Layout layout : {Layout::kDense, Layout::kApart}) {
    EXPECT_THAT(
        Apply<int64_t>(MakeBucketize({.fields = {"x"}, .boundaries = {1, 3}}), values, layout),
        ElementsAre(0, 0, 1, 1, 2, 2));
    EXPECT_THAT(
        Apply<int64_t>(MakeBucketize({.fields = {"x"}, .boundaries = {1, 3}, .right = true}),
                       values, layout),
        ElementsAre(0, 1, 1, 2, 2, 2));
  }
}

// S-FIELD-3.
TEST(HashTest, IsXxh3OfBytesAndOfIntegersTimesBins) {
  // Python: xxhash.xxh3_64_intdigest(b, seed) * bins >> 64.
  TestRun run(3);
  const std::vector<std::string> values = {"a", "68fd1e64", ""};
  run.AddBytes("x", values);
  auto op = MakeHash({.fields = {"x"}, .num_bins = {1'000'000}, .salt = {0}});
  ASSERT_TRUE(op.ok());
  const Schema out = ResolveAndApply(**op, Schema({{"x", DType::kBytes, {Shape::kUnknown}}}), *run);
  EXPECT_EQ(out.Find("x")->shape, Shape());
  EXPECT_THAT(ValuesOf<int64_t>(run, "x"), ElementsAre(901461, 2689, 175880));
  const HashOptions salted{.fields = {"x"}, .num_bins = {1000}, .salt = {7}};
  for (const Layout layout : {Layout::kDense, Layout::kApart}) {
    EXPECT_THAT(Apply<int64_t>(MakeHash(salted), std::vector<int64_t>{0, 1, -1}, layout),
                ElementsAre(278, 651, 244));
  }
  EXPECT_EQ(Apply<int64_t>(MakeHash(salted), std::vector<int32_t>{-1, 5}),
            Apply<int64_t>(MakeHash(salted), std::vector<int64_t>{-1, 5}));
  EXPECT_EQ(Apply<int64_t>(MakeHash(salted), std::vector<uint8_t>{5}),
            Apply<int64_t>(MakeHash(salted), std::vector<int64_t>{5}));
}

TEST(HashTest, FillsAllBinsAlikeAndNoOther) {
  constexpr int kBins = 64;
  constexpr int kValues = 64'000;
  std::vector<int64_t> values(kValues);
  std::iota(values.begin(), values.end(), 0);
  const auto count = [&](uint64_t salt) {
    std::vector<int> counts(kBins);
    const HashOptions options{.fields = {"x"}, .num_bins = {kBins}, .salt = {salt}};
    for (const int64_t bin : Apply<int64_t>(MakeHash(options), values)) ++counts.at(bin);
    return counts;
  };
  const std::vector<int> counts = count(0);
  double chi_square = 0;
  for (const int n : counts) chi_square += (n - 1000.0) * (n - 1000.0) / 1000;
  EXPECT_LT(chi_square, 120);  // 63 degrees of freedom: mean 63, deviation 11
  EXPECT_NE(count(1), counts);
}

TEST(HashTest, RowsThatHaveFailedAreLeftAlone) {
  TestRun run(2);
  const std::vector<std::string> values = {"a", "b"};
  run.AddBytes("x", values);
  run->Fail(0, absl::InternalError("before"));
  auto op = MakeHash({.fields = {"x"}, .num_bins = {10}});
  ASSERT_TRUE(op.ok());
  ResolveAndApply(**op, Schema({{"x", DType::kBytes, {Shape::kUnknown}}}), *run);
  EXPECT_EQ(run->Get("x").at(0).data, nullptr);
  EXPECT_EQ(ValuesOf<int64_t>(run, "x").size(), 1u);
}

TEST(ClipTest, KeepsTheDtypeAndRoundsBoundsInwards) {
  const ClipOptions options{.fields = {"x"}, .min = -1.5, .max = 2.5};
  for (const Layout layout : {Layout::kDense, Layout::kApart}) {
    EXPECT_THAT(Apply<int64_t>(MakeClip(options), std::vector<int64_t>{-9, 0, 9}, layout),
                ElementsAre(-1, 0, 2));
  }
  EXPECT_THAT(Apply<float>(MakeClip(options), std::vector<float>{-9, 0, 9}),
              ElementsAre(-1.5f, 0, 2.5f));
  EXPECT_THAT(Apply<uint8_t>(MakeClip(options), std::vector<uint8_t>{0, 9}), ElementsAre(0, 2));
  EXPECT_TRUE(std::isnan(Apply<double>(MakeClip(options), std::vector<double>{kNaN})[0]));
}

TEST(ClipTest, OneBoundIsEnoughAndFarOnesHoldAll) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> values = {kLeast, 0, kMost};
  EXPECT_THAT(Apply<int64_t>(MakeClip({.fields = {"x"}, .min = 1}), values),
              ElementsAre(1, 1, kMost));
  EXPECT_THAT(Apply<int64_t>(MakeClip({.fields = {"x"}, .min = -1e30, .max = 1e30}), values),
              ElementsAre(kLeast, 0, kMost));
  EXPECT_MESSAGE(ResolveError(MakeClip({.fields = {"x"}, .min = 0.2, .max = 0.8}), DType::kI64));
  EXPECT_MESSAGE(ResolveError(MakeClip({.fields = {"x"}, .max = -1}), DType::kU8));
}

TEST(ClipTest, BoundsOutsideOfTheDtypeAreRefusedOrHoldAll) {
  const double above = std::ldexp(1.0, 63);  // int64's largest value, plus one
  EXPECT_MESSAGE(ResolveError(MakeClip({.fields = {"x"}, .min = above}), DType::kI64));
  EXPECT_MESSAGE(ResolveError(MakeClip({.fields = {"x"}, .min = 1e39}), DType::kF32));
  EXPECT_MESSAGE(ResolveError(MakeClip({.fields = {"x"}, .max = -1e39}), DType::kF32));
  EXPECT_THAT(Apply<float>(MakeClip({.fields = {"x"}, .min = -1e39, .max = 1e39}),
                           std::vector<float>{-3e38f, HUGE_VALF}),
              ElementsAre(-3e38f, HUGE_VALF));
}

TEST(FillMissingTest, ReplacesNaNAndWhatIsCalledMissing) {
  EXPECT_THAT(
      Apply<float>(MakeFillMissing({.fields = {"x"}, .value = 7}), std::vector<float>{1, NAN, -1}),
      ElementsAre(1, 7, -1));
  const FillMissingOptions options{.fields = {"x"}, .value = 7, .missing = -1};
  for (const Layout layout : {Layout::kDense, Layout::kApart}) {
    EXPECT_THAT(Apply<double>(MakeFillMissing(options), std::vector<double>{1, NAN, -1}, layout),
                ElementsAre(1, 7, 7));
  }
  EXPECT_THAT(Apply<int64_t>(MakeFillMissing(options), std::vector<int64_t>{1, -1}),
              ElementsAre(1, 7));
}

TEST(FillMissingTest, LeavesTheSignOfZeroAlone) {
  const auto values =
      Apply<float>(MakeFillMissing({.fields = {"x"}}), std::vector<float>{-0.0f, NAN});
  EXPECT_TRUE(std::signbit(values[0]));
  EXPECT_FALSE(std::signbit(values[1]));
}

TEST(FillMissingTest, IntegersNeedNumbersOfTheirOwn) {
  EXPECT_MESSAGE(ResolveError(MakeFillMissing({.fields = {"x"}}), DType::kI64));
  EXPECT_MESSAGE(
      ResolveError(MakeFillMissing({.fields = {"x"}, .value = 0.5, .missing = 1}), DType::kI32));
  EXPECT_MESSAGE(
      ResolveError(MakeFillMissing({.fields = {"x"}, .value = 0, .missing = -1}), DType::kU8));
  EXPECT_MESSAGE(
      ResolveError(MakeFillMissing({.fields = {"x"}, .value = 0, .missing = 9.3e18}), DType::kI64));
}

TEST(FillMissingTest, Float32NeedsNumbersOfItsRange) {
  EXPECT_MESSAGE(ResolveError(MakeFillMissing({.fields = {"x"}, .value = 1e39}), DType::kF32));
  EXPECT_MESSAGE(ResolveError(MakeFillMissing({.fields = {"x"}, .missing = -1e39}), DType::kF32));
  EXPECT_THAT(
      Apply<double>(MakeFillMissing({.fields = {"x"}, .value = 1e39}), std::vector<double>{kNaN}),
      ElementsAre(1e39));
}

TEST(StackTest, PutsFieldsSideBySide) {
  auto op = MakeStack({.fields = {"b", "a"}, .output = "dense"});
  ASSERT_TRUE(op.ok());
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {4, 5, 6};
  const Schema in({{"a", DType::kF32, {}}, {"b", DType::kF32, {}}});
  for (const Layout layout : kLayouts) {
    TestRun run(3);
    AddColumn(run, "a", a, layout);
    AddColumn(run, "b", b, Layout::kDense);
    if (layout == Layout::kOneFailed) run->Fail(2, absl::InternalError("before"));
    const Schema out = ResolveAndApply(**op, in, *run);
    EXPECT_EQ(out.fields(), Schema({{"dense", DType::kF32, {2}}}).fields());
    EXPECT_THAT(run->Get("dense").at(1).as<float>(), ElementsAre(5, 2));
    EXPECT_EQ(run->columns().size(), 1u);
  }
}

TEST(StackTest, KeepsTheShapeOfItsFieldsBehindTheirNumber) {
  auto op = MakeStack({.fields = {"a", "b"}, .output = "a"});
  ASSERT_TRUE(op.ok());
  const int64_t values[] = {1, 2, 3};
  TestRun run(1);
  run.AddValue("a", DType::kI64, {3}, values);
  run.AddValue("b", DType::kI64, {3}, values);
  const Schema in({{"a", DType::kI64, {3}}, {"b", DType::kI64, {3}}});
  EXPECT_EQ(ResolveAndApply(**op, in, *run).fields(),
            Schema({{"a", DType::kI64, {2, 3}}}).fields());
  EXPECT_THAT(run->Get("a").at(0).as<int64_t>(), ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST(StackTest, RefusesToReplaceAFieldThatItDoesNotTake) {
  auto op = MakeStack({.fields = {"a"}, .output = "b"});
  ASSERT_TRUE(op.ok());
  const Schema in({{"a", DType::kF32, {}}, {"b", DType::kF32, {}}});
  EXPECT_MESSAGE((*op)->Resolve(in).status());
}

TEST(StackTest, RefusesFieldsThatDiffer) {
  auto op = MakeStack({.fields = {"a", "b"}, .output = "c"});
  ASSERT_TRUE(op.ok());
  const auto error = [&](const Field& a, const Field& b) {
    return (*op)->Resolve(Schema({a, b})).status();
  };
  EXPECT_MESSAGE(error({"a", DType::kF32, {}}, {"b", DType::kI64, {}}));
  EXPECT_MESSAGE(error({"a", DType::kF32, {2}}, {"b", DType::kF32, {3}}));
  EXPECT_MESSAGE(error({"a", DType::kF32, {Shape::kUnknown}}, {"b", DType::kF32, {3}}));
}

TEST(FieldOpsTest, NameTheFieldAndTheDtypeTheyDoNotTake) {
  EXPECT_MESSAGE(ResolveError(MakeScale({.fields = {"x"}}), DType::kBytes, {Shape::kUnknown}));
  EXPECT_MESSAGE(ResolveError(MakeLog({.fields = {"x"}}), DType::kF16));
  EXPECT_MESSAGE(ResolveError(MakeBucketize({.fields = {"x"}, .boundaries = {1}}), DType::kBF16));
  EXPECT_MESSAGE(ResolveError(MakeHash({.fields = {"x"}, .num_bins = {2}}), DType::kF32));
  EXPECT_MESSAGE(ResolveError(MakeScale({.fields = {"y"}}), DType::kF32));
}

TEST(FieldOpsTest, RefuseOptionsThatMakeNoSense) {
  EXPECT_MESSAGE(MakeScale({}));
  EXPECT_MESSAGE(MakeScale({.fields = {"x", "x"}}));
  EXPECT_MESSAGE(MakeScale({.fields = {""}}));
  EXPECT_MESSAGE(MakeScale({.fields = {"x", "y", "z"}, .factor = {1, 2}}));
  EXPECT_MESSAGE(MakeScale({.fields = {"x"}, .factor = {kNaN}}));
  EXPECT_MESSAGE(MakeScale({.fields = {"x"}, .min = {1}, .max = {1}}));
  EXPECT_MESSAGE(MakeScale({.fields = {"x"}, .min = {1}}));
  EXPECT_MESSAGE(MakeLog({.fields = {"x"}, .min = -1}));
  EXPECT_MESSAGE(MakeBucketize({.fields = {"x"}}));
  EXPECT_MESSAGE(MakeBucketize({.fields = {"x"}, .boundaries = {1, 1}}));
  EXPECT_MESSAGE(MakeHash({.fields = {"x"}, .num_bins = {0}}));
  EXPECT_MESSAGE(MakeClip({.fields = {"x"}}));
  EXPECT_MESSAGE(MakeClip({.fields = {"x"}, .min = 2, .max = 1}));
  EXPECT_MESSAGE(MakeFillMissing({.fields = {"x"}, .value = kNaN}));
  EXPECT_MESSAGE(MakeStack({.fields = {"x"}}));
}

}  // namespace
}  // namespace millrace::augment
