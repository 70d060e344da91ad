#include "pipeline/op_table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/pipeline/stages/test_run.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

SampleOpSpec LengthSpec() {
  SampleOpSpec spec;
  spec.reads = {"record"};
  spec.expects = {{"record", DType::kBytes, {Shape::kUnknown}}};
  spec.writes = {{"length", DType::kI64, {}}};
  return spec;
}

absl::Status WriteLength(const Sample& sample, SampleOutput& output) {
  MILLRACE_ASSIGN_OR_RETURN(const TensorView length, output.Allocate(0));
  length.as<int64_t>()[0] = static_cast<int64_t>(sample.bytes(0).size());
  return absl::OkStatus();
}

std::unique_ptr<Op> Made(SampleOpSpec spec, SampleFunction function) {
  auto op = MakeSampleOp(std::move(spec), std::move(function));
  EXPECT_TRUE(op.ok()) << op.status();
  return op.ok() ? *std::move(op) : nullptr;
}

TEST(SampleOpTest, WritesWhatItsFunctionComputesAndDeclaresItsFields) {
  // S-USER-2.
  const auto op = Made(LengthSpec(), WriteLength);
  EXPECT_EQ(op->Resolve(RecordSchema())->ToString(), "record: bytes[?], length: int64[]");
  TestRun run({"a", "four", ""});
  op->Apply(*run);
  ASSERT_TRUE(run->all_ok());
  std::vector<int64_t> lengths;
  for (int row = 0; row < 3; ++row) {
    lengths.push_back(run->Get("length").at(row).as<int64_t>()[0]);
  }
  EXPECT_THAT(lengths, ElementsAre(1, 4, 0));
}

TEST(SampleOpTest, AFieldThatIsReadAndWrittenIsSeenAsItWas) {
  SampleOpSpec spec;
  spec.reads = {"record"};
  spec.writes = {{"record", DType::kBytes, {Shape::kUnknown}}};
  const auto op = Made(spec, [](const Sample& sample, SampleOutput& output) {
    MILLRACE_RETURN_IF_ERROR(output.SetBytes(0, "overwritten"));
    return output.SetBytes(0, std::string(sample.bytes(0)) + "!");
  });
  ASSERT_TRUE(op->Resolve(RecordSchema()).ok());
  TestRun run({"a", "b"});
  op->Apply(*run);
  EXPECT_EQ(run->Get("record").bytes(0), "a!");
  EXPECT_EQ(run->Get("record").bytes(1), "b!");
}

TEST(SampleOpTest, RemovedFieldsAreGone) {
  SampleOpSpec spec = LengthSpec();
  spec.removes = {"record"};
  const auto op = Made(spec, WriteLength);
  EXPECT_EQ(op->Resolve(RecordSchema())->ToString(), "length: int64[]");
  TestRun run({"abc"});
  op->Apply(*run);
  EXPECT_EQ(run->Find("record"), nullptr);
  EXPECT_EQ(run->Get("length").at(0).as<int64_t>()[0], 3);
}

TEST(SampleOpTest, ErrorsAndExceptionsAreThoseOfTheirRowAlone) {
  // S-USER-3.
  const auto op = Made(LengthSpec(), [](const Sample& sample, SampleOutput& output) {
    if (sample.bytes(0) == "throw") throw std::runtime_error("deliberate");
    if (sample.bytes(0) == "odd") throw 17;
    if (sample.bytes(0) == "refuse") return absl::OutOfRangeError("refused");
    if (sample.bytes(0) == "forget") return absl::OkStatus();
    return WriteLength(sample, output);
  });
  TestRun run({"good", "throw", "refuse", "odd", "forget", "good"});
  op->Apply(*run);
  EXPECT_TRUE(run->ok(0));
  EXPECT_EQ(run->status(1).code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(run->status(1));
  EXPECT_EQ(run->status(2).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(run->status(3).code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(run->status(4));
  EXPECT_TRUE(run->ok(5));
  EXPECT_EQ(run->Get("length").at(5).as<int64_t>()[0], 4);
}

TEST(SampleOpTest, RowsThatAreBadAlreadyAreNotShownToTheFunction) {
  std::atomic<int> calls = 0;
  const auto op = Made(LengthSpec(), [&](const Sample& sample, SampleOutput& output) {
    ++calls;
    return WriteLength(sample, output);
  });
  TestRun run({"a", "b", "c"});
  run->Fail(1, absl::DataLossError("damaged"));
  op->Apply(*run);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(run->status(1).code(), absl::StatusCode::kDataLoss);
}

TEST(SampleOpTest, AValueThatTheDeclaredShapeDoesNotAdmitIsAnError) {
  SampleOpSpec spec;
  spec.writes = {{"x", DType::kF32, {Shape::kUnknown, 2}}};
  std::vector<Shape> wrong = {{3}, {1, 3}, {-1, 2}, {int64_t{1} << 60, 2}, {1, 2, 1}};
  const auto op = Made(spec, [&](const Sample& sample, SampleOutput& output) {
    EXPECT_EQ(output.Allocate(0).status().code(), absl::StatusCode::kInvalidArgument);
    return output.Allocate(0, wrong[sample.id().record - 40]).status();
  });
  TestRun run(std::vector<std::string>(wrong.size(), "r"));
  op->Apply(*run);
  for (size_t row = 0; row < wrong.size(); ++row) {
    const absl::Status status = run->status(static_cast<int64_t>(row));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row;
    EXPECT_MESSAGE(status);
  }
}

TEST(SampleOpTest, AllocatedMemoryIsZero) {
  SampleOpSpec spec;
  spec.writes = {{"x", DType::kU8, {1000}}};
  const auto op =
      Made(spec, [](const Sample&, SampleOutput& output) { return output.Allocate(0).status(); });
  TestRun run({"a"});
  std::ranges::fill(std::span(run->arena().Allocate(200000), 200000), std::byte{0xEE});
  run->arena().Reset();  // nothing of this run lies in the arena yet
  op->Apply(*run);
  for (const uint8_t byte : run->Get("x").at(0).as<uint8_t>()) ASSERT_EQ(byte, 0);
}

TEST(SampleOpTest, DrawsDependOnTheStageAndTheSample) {
  // S-USER-4.
  const auto draw = [](std::string stage) {
    SampleOpSpec spec;
    spec.stage = std::move(stage);
    spec.writes = {{"x", DType::kF32, {}}};
    const auto op = Made(spec, [](const Sample& sample, SampleOutput& output) {
      MILLRACE_ASSIGN_OR_RETURN(const TensorView x, output.Allocate(0));
      x.as<float>()[0] = sample.Random().NextFloat();
      return absl::OkStatus();
    });
    TestRun run({"a", "b"});
    op->Apply(*run);
    EXPECT_EQ(run->Get("x").at(1).as<float>()[0], run->Random(1, HashName(spec.stage)).NextFloat());
    return std::pair(run->Get("x").at(0).as<float>()[0], run->Get("x").at(1).as<float>()[0]);
  };
  EXPECT_EQ(draw("one"), draw("one"));
  EXPECT_NE(draw("one"), draw("two"));
  EXPECT_NE(draw("one").first, draw("one").second);
}

TEST(SampleOpTest, FieldsThatDoNotFitAreRefusedByName) {
  // S-USER-2.
  const auto op = Made(LengthSpec(), WriteLength);
  EXPECT_EQ(op->Resolve(Schema({{"x", DType::kU8, {}}})).status().code(),
            absl::StatusCode::kNotFound);
  const auto wrong = op->Resolve(Schema({{"record", DType::kU8, {3}}}));
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(wrong.status());
}

TEST(SampleOpTest, ImpossibleSpecsAreRefused) {
  SampleOpSpec twice = LengthSpec();
  twice.writes.push_back(twice.writes[0]);
  SampleOpSpec both = LengthSpec();
  both.removes = {"length"};
  SampleOpSpec bytes;
  bytes.writes = {{"b", DType::kBytes, {4}}};
  SampleOpSpec none = LengthSpec();
  none.preferred_rows = 0;
  SampleOpSpec unnamed;
  unnamed.writes = {{"", DType::kU8, {}}};
  for (const SampleOpSpec& spec : {twice, both, bytes, none, unnamed}) {
    EXPECT_EQ(MakeSampleOp(spec, WriteLength).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(MakeSampleOp(LengthSpec(), {}).status().code(), absl::StatusCode::kInvalidArgument);
}

class ThrowingOp final : public Op {
 public:
  explicit ThrowingOp(bool at_resolve) : at_resolve_(at_resolve) {}
  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    if (at_resolve_) throw std::logic_error("no schema");
    return input;
  }
  void Apply(Run&) const override { throw std::logic_error("no work"); }
  int64_t preferred_rows() const override { return 5; }

 private:
  const bool at_resolve_;
};

TEST(OpTableTest, MakesTheOpOfThatNameAndVersionWithItsOptions) {
  // S-USER-1.
  OpTable table;
  std::string seen;
  for (const uint32_t version : {1u, 2u}) {
    ASSERT_TRUE(table
                    .Register("mine/op", version,
                              [&seen, version](const OpArgs& args) {
                                seen = absl::StrCat(version, " ", ToAbsl(args.options), " ",
                                                    ToAbsl(args.stage));
                                return absl::StatusOr<std::unique_ptr<Op>>(
                                    std::make_unique<ThrowingOp>(false));
                              })
                    .ok());
  }
  EXPECT_EQ(table.KindOf("mine/op", 2), OpTable::Kind::kSample);
  EXPECT_EQ(table.KindOf("mine/op", 3), OpTable::Kind::kNone);
  const auto op = table.Make("mine/op", 2, "k=3", "second");
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(seen, "2 k=3 second");
  EXPECT_EQ((*op)->preferred_rows(), 5);
}

TEST(OpTableTest, AnUnknownOpIsNotFoundWithAdvice) {
  // S-USER-1.
  OpTable table;
  EXPECT_MESSAGE(table.Make("any", 1, "", "s").status());
  ASSERT_TRUE(table.RegisterSample("tokenize", 3, LengthSpec(), WriteLength).ok());
  const auto misspelt = table.Make("tokenise", 3, "", "s").status();
  EXPECT_EQ(misspelt.code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(misspelt);
  const auto version = table.Make("tokenize", 1, "", "s").status();
  EXPECT_EQ(version.code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(version);
}

TEST(OpTableTest, ANameAndVersionAreRegisteredOnce) {
  OpTable table;
  ASSERT_TRUE(table.RegisterSample("op", 1, LengthSpec(), WriteLength).ok());
  EXPECT_EQ(table.RegisterSample("op", 1, LengthSpec(), WriteLength).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(table.RegisterSample("op", 2, LengthSpec(), WriteLength).ok());
  for (const std::string& name : {std::string(), std::string("a b"), std::string(65, 'x')}) {
    EXPECT_EQ(table.RegisterSample(name, 1, LengthSpec(), WriteLength).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(table.RegisterSample("op", 0, LengthSpec(), WriteLength).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Register("empty", 1, {}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(OpTableTest, OptionsOfAnOpThatTakesNoneAreRefused) {
  OpTable table;
  ASSERT_TRUE(table.RegisterSample("op", 1, LengthSpec(), WriteLength).ok());
  EXPECT_EQ(table.Make("op", 1, "x", "s").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(table.Make("op", 1, "", "s").ok());
}

TEST(OpTableTest, ExceptionsOfFactoriesAndOpsBecomeInternal) {
  // S-USER-3.
  OpTable table;
  using Made = absl::StatusOr<std::unique_ptr<Op>>;
  ASSERT_TRUE(table.Register("factory", 1, [](const OpArgs&) -> Made { throw 5; }).ok());
  ASSERT_TRUE(table.Register("nothing", 1, [](const OpArgs&) -> Made { return nullptr; }).ok());
  ASSERT_TRUE(table
                  .Register("throws", 1,
                            [](const OpArgs& args) -> Made {
                              return std::make_unique<ThrowingOp>(args.options == "resolve");
                            })
                  .ok());
  for (const char* name : {"factory", "nothing"}) {
    EXPECT_EQ(table.Make(name, 1, "", "s").status().code(), absl::StatusCode::kInternal) << name;
  }
  EXPECT_MESSAGE((*table.Make("throws", 1, "resolve", "s"))->Resolve({}).status());
  const auto op = *table.Make("throws", 1, "", "s");
  TestRun run({"a"});
  op->Apply(*run);
  EXPECT_EQ(run->status(0).code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(run->status(0));
}

class TestBatchOp final : public BatchOp {
 public:
  using Body = std::function<absl::Status(BatchView&)>;
  TestBatchOp(bool changes, Body body) : changes_(changes), body_(std::move(body)) {}
  absl::StatusOr<Schema> Resolve(const Schema& batch_schema) override {
    return changes_ ? Schema({{"new", DType::kU8, {}}}) : batch_schema;
  }
  absl::Status Apply(BatchView& batch) const override { return body_(batch); }
  uint64_t group_rows() const override { return 2; }

 private:
  const bool changes_;
  const Body body_;
};

std::unique_ptr<BatchOp> MakeTestBatchOp(bool changes, TestBatchOp::Body body) {
  OpTable table;
  EXPECT_TRUE(table
                  .RegisterBatch("batch", 1,
                                 [&](const OpArgs&) -> absl::StatusOr<std::unique_ptr<BatchOp>> {
                                   return std::make_unique<TestBatchOp>(changes, body);
                                 })
                  .ok());
  EXPECT_EQ(table.KindOf("batch", 1), OpTable::Kind::kBatch);
  EXPECT_EQ(table.Make("batch", 1, "", "s").status().code(), absl::StatusCode::kInvalidArgument);
  return *table.MakeBatch("batch", 1, "", "s");
}

TEST(BatchOpTest, ChangesTensorsInPlaceAndNeverTheFields) {
  // S-USER-5.
  std::vector<float> values = {1, 2, 3};
  const std::vector<uint8_t> valid = {1, 1, 0};
  const std::vector<SampleId> ids(3);
  const std::vector<std::string> names = {"x"};
  const std::vector<TensorView> tensors = {{values.data(), DType::kF32, {3}}};
  BatchView view;
  view.valid = valid;
  view.ids = ids;
  view.names = names;
  view.tensors = tensors;
  const auto op = MakeTestBatchOp(false, [](BatchView& batch) {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (batch.valid[row] != 0) batch.Find("x").as<float>()[row] *= 10;
    }
    return batch.Find("y").data == nullptr ? absl::OkStatus() : absl::UnknownError("y");
  });
  const Schema schema({{"x", DType::kF32, {}}});
  EXPECT_TRUE(op->Resolve(schema).ok());
  EXPECT_TRUE(op->Apply(view).ok());
  EXPECT_THAT(values, ElementsAre(10, 20, 3));
  EXPECT_EQ(op->group_rows(), 2u);
  const auto changed = MakeTestBatchOp(true, [](BatchView&) { return absl::OkStatus(); });
  EXPECT_EQ(changed->Resolve(schema).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BatchOpTest, AnExceptionIsTheBatchesInternalError) {
  // S-USER-3.
  const auto op = MakeTestBatchOp(
      false, [](BatchView&) -> absl::Status { throw std::runtime_error("broken"); });
  BatchView view;
  const absl::Status status = op->Apply(view);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(status);
}

TEST(BatchOpTest, DrawsOfABatchAreTheSameOnEveryRankAndThoseOfARowInEveryWorld) {
  // S-USER-4.
  BatchView whole;
  whole.seed = 3;
  whole.stage_key = HashName("mix");
  whole.epoch = 2;
  whole.index = 9;
  BatchView slice = whole;
  slice.first_global_row = 5;
  EXPECT_EQ(whole.Random().NextU64(), slice.Random().NextU64());
  EXPECT_EQ(whole.RandomOfRow(7).NextU64(), slice.RandomOfRow(2).NextU64());
  EXPECT_NE(whole.RandomOfRow(7).NextU64(), slice.RandomOfRow(7).NextU64());
  BatchView next = whole;
  next.index = 10;
  EXPECT_NE(whole.Random().NextU64(), next.Random().NextU64());
}

TEST(BatchOpTest, GroupsMustNotBeTornByRanks) {
  // S-USER-5.
  EXPECT_TRUE(CheckGroupRows(1, 7, 7, 3).ok());
  EXPECT_TRUE(CheckGroupRows(2, 8, 8, 4).ok());
  EXPECT_TRUE(CheckGroupRows(8, 8, 8, 1).ok());
  EXPECT_TRUE(CheckGroupRows(4, 16, 2, 2).ok());
  for (const auto& status : {CheckGroupRows(2, 7, 7, 1), CheckGroupRows(4, 8, 8, 4),
                             CheckGroupRows(0, 8, 8, 1), CheckGroupRows(4, 12, 6, 3 * 2)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(OpTableTest, AnErrorOfAUserOpCarriesTheSamplesIdentity) {
  // S-USER-3.
  OpTable table;
  ASSERT_TRUE(table
                  .RegisterSample("check", 1, LengthSpec(),
                                  [](const Sample& sample, SampleOutput& output) {
                                    if (sample.id().record == 10) throw std::runtime_error("ten");
                                    return WriteLength(sample, output);
                                  })
                  .ok());
  PhysicalPlan plan = MakePlan(4);
  PhysicalOp op;
  op.stage = "mine";
  op.op = *table.Make("check", 1, "", "mine");
  plan.ops.push_back(std::move(op));
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(20), FakeContext(2));
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(stream.end);
  const auto error = GetRecordError(stream.end);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file, "shard-1");
  EXPECT_EQ(error->ordinal, 3);
  EXPECT_EQ(error->position, 10);
}

}  // namespace
}  // namespace millrace::pipeline
