#include "pipeline/run_op.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "pipeline/op_table.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/pipeline/stages/test_run.h"

namespace millrace::pipeline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// "length" of "record", made for all rows at once.
SampleOpSpec LengthsSpec() {
  SampleOpSpec spec;
  spec.stage = "lengths";
  spec.reads = {"record"};
  spec.writes = {{"length", DType::kI64, {}}};
  return spec;
}

absl::Status WriteLengths(RunView& run) {
  const std::span<int64_t> lengths = run.writes<int64_t>(0);
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (run.ok(row)) lengths[row] = static_cast<int64_t>(run.reads(0).bytes(row).size());
  }
  return absl::OkStatus();
}

std::vector<int64_t> Copied(std::span<const int64_t> values) {
  return {values.begin(), values.end()};
}

std::unique_ptr<Op> MadeRunOp(SampleOpSpec spec, RunFunction function) {
  auto op = MakeRunOp(std::move(spec), std::move(function));
  EXPECT_TRUE(op.ok()) << op.status();
  return op.ok() ? *std::move(op) : nullptr;
}

std::vector<int64_t> LengthsOf(const Run& run) {
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    lengths.push_back(run.Get("length").at(row).as<int64_t>()[0]);
  }
  return lengths;
}

TEST(RunOpTest, AFunctionGetsAllRowsAtOnceAndWritesThem) {
  // S-USER-2.
  int calls = 0;
  const auto op = MadeRunOp(LengthsSpec(), [&](RunView& run) {
    ++calls;
    EXPECT_EQ(run.num_reads(), 1u);
    EXPECT_EQ(run.num_writes(), 1u);
    EXPECT_EQ(run.field(0).name, "length");
    EXPECT_EQ(run.id(2).record, 42u);
    EXPECT_EQ(run.position(2), 102u);
    return WriteLengths(run);
  });
  EXPECT_EQ(op->Resolve(RecordSchema())->ToString(), "record: bytes[?], length: int64[]");
  TestRun run({"a", "four", ""});
  op->Apply(*run);
  ASSERT_TRUE(run->all_ok());
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(LengthsOf(*run), ElementsAre(1, 4, 0));
}

TEST(RunOpTest, ColumnsOfOneShapeAreStridedViews) {
  std::vector<float> values = {1, 2, -1, 3, 4, -1, 5, 6, -1};  // rows of two, three apart
  SampleOpSpec spec;
  spec.reads = {"x", "record"};
  spec.writes = {{"sum", DType::kF32, {}}};
  const auto op = MadeRunOp(spec, [&](RunView& run) {
    const RunColumn x = run.reads(0);
    EXPECT_FALSE(run.reads(1).is_strided());
    EXPECT_TRUE(x.is_strided());
    EXPECT_EQ(x.name(), "x");
    EXPECT_EQ(x.dtype(), DType::kF32);
    EXPECT_EQ(x.row_shape(), Shape({2}));
    EXPECT_EQ(x.stride_bytes(), 12);
    EXPECT_EQ(static_cast<const void*>(x.first()), values.data());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      const auto* const pair = reinterpret_cast<const float*>(x.first() + row * x.stride_bytes());
      EXPECT_EQ(x.at(row).data, pair);
      run.writes<float>(0)[row] = pair[0] + pair[1];
    }
    return absl::OkStatus();
  });
  TestRun run({"r", "of", "other"});
  run->Add("x", DType::kF32).SetAll(values.data(), 12, {2});
  op->Apply(*run);
  ASSERT_TRUE(run->all_ok());
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(run->Get("sum").at(row).as<float>()[0], static_cast<float>(4 * row + 3));
  }
}

TEST(RunOpTest, ItWritesIntoTheBatchsMemoryWhichIsZeroed) {
  std::vector<int64_t> slab(3, -1);
  const std::vector<FieldSlots> slots = {
      {"length", DType::kI64, {}, reinterpret_cast<std::byte*>(slab.data())}};
  const auto op = MadeRunOp(LengthsSpec(), [&](RunView& run) {
    EXPECT_EQ(run.writes<int64_t>(0).data(), slab.data());
    EXPECT_THAT(Copied(run.writes<int64_t>(0)), Each(0));
    return WriteLengths(run);
  });
  TestRun run({"a", "four", ""});
  run->Bind(slots);
  op->Apply(*run);
  EXPECT_THAT(slab, ElementsAre(1, 4, 0));
  EXPECT_EQ(run->Get("length").first(), slots[0].first_row);
}

TEST(RunOpTest, AFieldThatIsReadAndWrittenIsSeenAsItWas) {
  SampleOpSpec spec;
  spec.reads = {"record"};
  spec.writes = {{"record", DType::kBytes, {Shape::kUnknown}}};
  const auto op = MadeRunOp(spec, [](RunView& run) {
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      MILLRACE_RETURN_IF_ERROR(run.SetBytes(0, row, "overwritten"));
      MILLRACE_RETURN_IF_ERROR(
          run.SetBytes(0, row, absl::StrCat(std::string(run.reads(0).bytes(row)), "!")));
    }
    return absl::OkStatus();
  });
  TestRun run({"a", "b"});
  op->Apply(*run);
  EXPECT_EQ(run->Get("record").bytes(0), "a!");
  EXPECT_EQ(run->Get("record").bytes(1), "b!");
}

TEST(RunOpTest, RemovedFieldsAreReadForTheLastTime) {
  SampleOpSpec spec = LengthsSpec();
  spec.removes = {"record"};
  const auto op = MadeRunOp(spec, WriteLengths);
  EXPECT_EQ(op->Resolve(RecordSchema())->ToString(), "length: int64[]");
  TestRun run({"abc"});
  op->Apply(*run);
  EXPECT_EQ(run->Find("record"), nullptr);
  EXPECT_THAT(LengthsOf(*run), ElementsAre(3));
}

TEST(RunOpTest, ErrorsAndExceptionsOfARunAreThoseOfTheirRows) {
  // S-USER-3.
  const auto op = MadeRunOp(LengthsSpec(), [](RunView& run) {
    EXPECT_THAT(Copied(run.writes<int64_t>(0)), Each(0));
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const std::string_view record = run.reads(0).bytes(row);
      run.writes<int64_t>(0)[row] = 7;
      if (record == "throw") throw std::runtime_error("deliberate");
      if (record == "refuse") return absl::OutOfRangeError("refused");
      if (record == "fail") run.Fail(row, absl::DataLossError("failed"));
    }
    return WriteLengths(run);
  });
  TestRun run({"good", "throw", "refuse", "fail", "bad", "good"});
  run->Fail(4, absl::UnknownError("an earlier stage"));
  op->Apply(*run);
  EXPECT_TRUE(run->ok(0));
  EXPECT_EQ(run->status(1).code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(run->status(1));
  EXPECT_EQ(run->status(2).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(run->status(3).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(run->status(4).code(), absl::StatusCode::kUnknown);
  EXPECT_TRUE(run->ok(5));
  EXPECT_EQ(LengthsOf(*run)[0], 4);
  EXPECT_EQ(LengthsOf(*run)[5], 4);
}

TEST(RunOpTest, AValueThatTheDeclaredShapeDoesNotAdmitIsAnError) {
  // S-USER-2.
  SampleOpSpec spec;
  spec.writes = {{"x", DType::kF32, {Shape::kUnknown, 2}}, {"y", DType::kF32, {2}}};
  const auto op = MadeRunOp(spec, [](RunView& run) {
    EXPECT_TRUE(run.writes(0).empty());
    EXPECT_EQ(run.writes(1).size(), static_cast<size_t>(8 * run.num_rows()));
    EXPECT_EQ(run.Allocate(1, 0, {2}).status().code(), absl::StatusCode::kInvalidArgument);
    for (const Shape& shape : {Shape{3}, Shape{1, 3}, Shape{int64_t{1} << 60, 2}}) {
      EXPECT_EQ(run.Allocate(0, 0, shape).status().code(), absl::StatusCode::kInvalidArgument);
    }
    const absl::StatusOr<TensorView> x = run.Allocate(0, 0, {3, 2});
    EXPECT_EQ(x->size_bytes(), 24u);
    return run.num_rows() == 1 ? absl::OkStatus() : run.Allocate(0, 1, {3}).status();
  });
  TestRun run({"good", "also good"});
  op->Apply(*run);  // together they fail, alone neither does
  EXPECT_TRUE(run->all_ok());
  EXPECT_EQ(run->Get("x").at(1).shape, Shape({3, 2}));
}

TEST(RunOpTest, AFieldThatIsNotWrittenIsAnErrorOfItsRow) {
  SampleOpSpec spec;
  spec.writes = {{"b", DType::kBytes, {Shape::kUnknown}}};
  const auto op = MadeRunOp(spec, [](RunView& run) { return run.SetBytes(0, 0, "b"); });
  TestRun run({"written", "forgotten"});
  op->Apply(*run);
  EXPECT_TRUE(run->ok(0));
  EXPECT_EQ(run->status(1).code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(run->status(1));
}

TEST(RunOpTest, RandomWordsAreThoseOfTheStageAndTheSample) {
  // S-USER-4.
  SampleOpSpec spec;
  spec.stage = "draws";
  spec.writes = {{"words", DType::kI64, {2}}};
  const auto op = MadeRunOp(spec, [](RunView& run) {
    const std::vector<uint32_t> words = run.RandomWords(2);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      RandomStream stream = run.Random(row);
      EXPECT_EQ(words[2 * row], stream.NextU32());
      EXPECT_EQ(words[2 * row + 1], stream.NextU32());
    }
    std::ranges::copy(words, run.writes<int64_t>(0).begin());
    return run.num_rows() == 3 ? absl::CancelledError("once more, row by row") : absl::OkStatus();
  });
  TestRun run({"a", "b", "c"});
  op->Apply(*run);
  ASSERT_TRUE(run->all_ok());
  for (int64_t row = 0; row < 3; ++row) {
    RandomStream stream = run->Random(row, HashName("draws"));
    EXPECT_EQ(run->Get("words").at(row).as<int64_t>()[0], stream.NextU32());
  }
}

TEST(RunOpTest, ImpossibleSpecsAreRefused) {
  SampleOpSpec twice = LengthsSpec();
  twice.writes.push_back(twice.writes[0]);
  EXPECT_EQ(MakeRunOp(twice, WriteLengths).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeRunOp(LengthsSpec(), {}).status().code(), absl::StatusCode::kInvalidArgument);
  OpTable table;
  EXPECT_EQ(table.RegisterRun("op", 1, twice, WriteLengths).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(table.RegisterRun("op", 1, LengthsSpec(), WriteLengths).ok());
  EXPECT_EQ(table.KindOf("op", 1), OpTable::Kind::kSample);
  EXPECT_EQ(table.Make("op", 1, "x", "s").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(table.Make("op", 1, "", "s").ok());
}

// Pairs of a number and its first random word, by an op on runs in a shuffled stream.
class RunOpStreamTest : public ::testing::Test {
 protected:
  RunOpStreamTest() {
    SampleOpSpec spec;
    spec.reads = {"value"};
    spec.writes = {{"pair", DType::kI64, {2}}};
    spec.removes = {"value"};
    spec.preferred_rows = 5;
    auto ops = std::make_shared<OpTable>();
    EXPECT_TRUE(ops->RegisterRun("pair", 1, spec,
                                 [this](RunView& run) {
                                   const std::vector<uint32_t> words = run.RandomWords(1);
                                   const std::span<int64_t> pairs = run.writes<int64_t>(0);
                                   for (int64_t row = 0; row < run.num_rows(); ++row) {
                                     pairs[2 * row] = run.reads(0).at(row).as<int64_t>()[0];
                                     pairs[2 * row + 1] = words[row];
                                   }
                                   MutexLock lock(mu_);
                                   written_.push_back(run.writes(0));
                                   return absl::OkStatus();
                                 })
                    .ok());
    options_.ops = ops;
  }

  std::vector<uint64_t> Read(int threads) {
    const auto plan = Plan::FromText(
        "seed: 3 stage { range { count: 1000 } } stage { global_shuffle {} } "
        "stage { repeat { epochs: 2 } } stage { custom { op: \"pair\" version: 1 } } "
        "stage { batch { size: 32 } }",
        "plan");
    EXPECT_TRUE(plan.ok()) << plan.status();
    ContextOptions context;
    context.threads = threads;
    auto pipeline = Pipeline::Open(*plan, *MakeContext(std::move(context)), options_);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return Drain(**pipeline).digests;
  }

  OpenOptions options_;
  Mutex mu_;
  std::vector<std::span<const std::byte>> written_;
};

TEST_F(RunOpStreamTest, TheBitsAreTheSameForAnyNumberOfThreads) {
  // S-USER-4.
  const std::vector<uint64_t> one = Read(1);
  EXPECT_EQ(one.size(), 63u);
  EXPECT_EQ(Read(2), one);
  EXPECT_EQ(Read(8), one);
}

TEST_F(RunOpStreamTest, TheMemoryIsThatOfTheBatch) {
  const auto plan = Plan::FromText(
      "stage { range { count: 64 } } stage { custom { op: \"pair\" version: 1 } } "
      "stage { batch { size: 64 } }",
      "plan");
  auto pipeline = Pipeline::Open(*plan, *MakeContext(), options_);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const auto batch = (*pipeline)->Next();
  ASSERT_TRUE(batch.ok() && batch->has_value());
  const ConstTensorView pairs = (*batch)->Find("pair");
  const auto* const first = static_cast<const std::byte*>(pairs.data);
  MutexLock lock(mu_);
  size_t bytes = 0;
  for (const std::span<const std::byte> rows : written_) {
    EXPECT_GE(rows.data(), first);
    EXPECT_LE(rows.data() + rows.size(), first + pairs.size_bytes());
    bytes += rows.size();
  }
  EXPECT_EQ(bytes, pairs.size_bytes());
}

}  // namespace
}  // namespace millrace::pipeline
