#include "readers/parse_sequence_example.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/record_error.h"
#include "tests/messages.h"
#include "tests/readers/example/sequence_oracle.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

FeatureSpec Spec(std::string key, DType dtype, Shape shape = {}) {
  FeatureSpec spec = ListSpec(std::move(key), dtype);
  spec.shape = shape;
  spec.per_step = false;
  return spec;
}

std::string Float(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return Message(2, Message(1, bytes));
}

class ParseSequenceTest : public testing::Test {
 protected:
  // Parses `records` as the rows of one run.
  void Parse(std::vector<FeatureSpec> features, std::vector<std::string> records) {
    records_ = std::move(records);
    auto op = MakeParseSequenceExample({std::move(features)});
    ASSERT_TRUE(op.ok()) << op.status();
    op_ = *std::move(op);
    ASSERT_TRUE(op_->Resolve(Schema({{"record", DType::kBytes, {Shape::kUnknown}}})).ok());
    run_.emplace(arena_, 1, 100, std::vector<SampleId>(records_.size()));
    Column& column = run_->Add("record", DType::kBytes);
    for (size_t i = 0; i < records_.size(); ++i) {
      column.Set(static_cast<int64_t>(i), records_[i].data(),
                 {static_cast<int64_t>(records_[i].size())});
    }
    run_->Bind(slots_);
    op_->Apply(*run_);
  }

  template <typename T>
  std::vector<T> Values(std::string_view name, int64_t row = 0) {
    const auto values = run_->Get(name).at(row).as<T>();
    return {values.begin(), values.end()};
  }
  Shape ShapeAt(std::string_view name, int64_t row = 0) { return run_->Get(name).at(row).shape; }

  void ExpectFailure(int64_t row, RecordErrorReason reason) {
    const absl::Status status = run_->status(row);
    EXPECT_EQ(status.code(), reason == RecordErrorReason::kExample
                                 ? absl::StatusCode::kDataLoss
                                 : absl::StatusCode::kInvalidArgument);
    EXPECT_MESSAGE(status) << "row " << row;
    const auto error = GetRecordError(status);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->reason, reason);
    EXPECT_EQ(error->position, 100 + row);
  }

  RunArena arena_;
  std::vector<std::string> records_;
  std::vector<FieldSlots> slots_;
  std::unique_ptr<Op> op_;
  std::optional<millrace::Run> run_;
};

TEST_F(ParseSequenceTest, ContextAndListsBecomeColumns) {
  const std::string steps = StepOf(Ints(Varint(1))) + StepOf(Ints(Varint(uint64_t(-2))));
  const std::string boxes = StepOf(Float(1) + Float(2)) + StepOf(Float(3) + Float(4));
  Parse({Spec("label", DType::kI64), ListSpec("ids", DType::kI64),
         ListSpec("boxes", DType::kF32, {2})},
        {Wrap(Entry("label", Ints(Varint(7)))) +
             WrapLists(Entry("ids", steps) + Entry("boxes", boxes)),
         WrapLists(Entry("boxes", "") + Entry("ids", "")) + Wrap(Entry("label", Ints(Varint(8))))});
  ASSERT_TRUE(run_->all_ok()) << run_->status(0) << run_->status(1);
  EXPECT_EQ(run_->Find("record"), nullptr);
  EXPECT_THAT(Values<int64_t>("label"), ElementsAre(7));
  EXPECT_THAT(Values<int64_t>("ids"), ElementsAre(1, -2));
  EXPECT_EQ(ShapeAt("boxes"), (Shape{2, 2}));
  EXPECT_THAT(Values<float>("boxes"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values<int64_t>("label", 1), ElementsAre(8));
  EXPECT_EQ(ShapeAt("ids", 1), (Shape{0}));
  EXPECT_EQ(ShapeAt("boxes", 1), (Shape{0, 2}));
  EXPECT_NE(run_->Get("boxes").at(1).data, nullptr);
}

TEST_F(ParseSequenceTest, StringsOfOneSizeBecomeBytes) {
  const std::string steps =
      StepOf(Message(1, Message(1, "abc"))) + StepOf(Message(1, Message(1, "def")));
  const std::string longer = StepOf(Message(1, Message(1, "abcd")));
  const std::string two = StepOf(Message(1, Message(1, "abc") + Message(1, "def")));
  Parse({ListSpec("rgb", DType::kU8, {3})},
        {WrapLists(Entry("rgb", steps)), WrapLists(Entry("rgb", steps + longer)),
         WrapLists(Entry("rgb", two))});
  EXPECT_THAT(Values<uint8_t>("rgb"), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_EQ(ShapeAt("rgb"), (Shape{2, 3}));
  ExpectFailure(1, RecordErrorReason::kFeature);
  ExpectFailure(2, RecordErrorReason::kFeature);
}

TEST_F(ParseSequenceTest, AMissingListIsAnErrorOrHasNoSteps) {
  FeatureSpec optional = ListSpec("extra", DType::kF32, {2});
  optional.allow_missing = true;
  const std::string ids = WrapLists(Entry("ids", StepOf(Ints(Varint(1)))));
  // A key of the context is none of a list.
  Parse({ListSpec("ids", DType::kI64), optional}, {ids, Wrap(Entry("ids", Ints(Varint(1))))});
  EXPECT_TRUE(run_->ok(0)) << run_->status(0);
  EXPECT_EQ(ShapeAt("extra"), (Shape{0, 2}));
  EXPECT_NE(run_->Get("extra").at(0).data, nullptr);
  ExpectFailure(1, RecordErrorReason::kFeature);
}

TEST_F(ParseSequenceTest, StepsThatAreNotAsDeclaredAreToldByKeyAndStep) {
  const std::string good = StepOf(Ints(Varint(1) + Varint(2)));
  const auto list = [&](const std::string& step) {
    return WrapLists(Entry("ids", good + step + good));
  };
  Parse({ListSpec("ids", DType::kI64, {2})},
        {list(StepOf(Ints(Varint(1)))), list(StepOf(Ints(std::string(3, '\1')))),
         list(StepOf(Float(1) + Float(2))), list(StepOf("")), list(StepOf(Message(3, ""))),
         list(good)});
  const auto expect = [&](int64_t row) { ExpectFailure(row, RecordErrorReason::kFeature); };
  expect(0);
  expect(1);
  expect(2);
  expect(3);
  expect(4);
  EXPECT_THAT(Values<int64_t>("ids", 5), ElementsAre(1, 2, 1, 2, 1, 2));
}

TEST_F(ParseSequenceTest, ContextIsParsedAsAnExample) {
  FeatureSpec label = Spec("label", DType::kI64);
  label.has_default = true;
  label.default_int = -1;
  Parse({label, Spec("id", DType::kBytes), Spec("tags", DType::kI64, {Shape::kUnknown})},
        {Wrap(Entry("id", Message(1, Message(1, "x"))) + Entry("tags", Ints("\1\2"))),
         Wrap(Entry("tags", Ints("\3"))), "\x0a\x07"});
  EXPECT_THAT(Values<int64_t>("label"), ElementsAre(-1));
  EXPECT_EQ(run_->Get("id").bytes(0), "x");
  EXPECT_THAT(Values<int64_t>("tags"), ElementsAre(1, 2));
  ExpectFailure(1, RecordErrorReason::kFeature);
  ExpectFailure(2, RecordErrorReason::kExample);
}

TEST_F(ParseSequenceTest, OneKeyMayBeThatOfTheContextAndOfAList) {
  FeatureSpec list = ListSpec("k", DType::kI64);
  list.name = "steps";
  Parse({Spec("k", DType::kI64), list},
        {Wrap(Entry("k", Ints("\1"))) + WrapLists(Entry("k", StepOf(Ints("\2"))))});
  EXPECT_THAT(Values<int64_t>("k"), ElementsAre(1));
  EXPECT_THAT(Values<int64_t>("steps"), ElementsAre(2));
}

TEST_F(ParseSequenceTest, OfAListGivenTwiceTheLaterCountsAndTheEarlierMustBeValid) {
  const std::string later = Entry("ids", StepOf(Ints("\2")));
  const std::string odd = Entry("ids", StepOf(Message(2, Message(1, "abc"))));
  Parse({ListSpec("ids", DType::kI64)},
        {WrapLists(Entry("ids", StepOf(Float(1)) + StepOf("")) + later), WrapLists(odd + later)});
  EXPECT_THAT(Values<int64_t>("ids"), ElementsAre(2));
  ExpectFailure(1, RecordErrorReason::kExample);
}

TEST_F(ParseSequenceTest, ListsThatNobodyAsksForAreNotParsed) {
  const std::string odd = Entry("odd", StepOf(Message(2, Message(1, "abc"))));
  Parse({ListSpec("ids", DType::kI64)}, {WrapLists(odd + Entry("ids", StepOf(Ints("\1"))))});
  EXPECT_THAT(Values<int64_t>("ids"), ElementsAre(1));
}

TEST_F(ParseSequenceTest, ListsOfABoundColumnGoStraightToTheSlab) {
  alignas(64) std::array<int64_t, 5> slab = {0, 0, 0, 0, 99};
  slots_ = {{"ids", DType::kI64, {2}, reinterpret_cast<std::byte*>(slab.data())}};
  const std::string two = StepOf(Ints("\1")) + StepOf(Ints("\2"));
  Parse({ListSpec("ids", DType::kI64)},
        {WrapLists(Entry("ids", two)), WrapLists(Entry("ids", two + two))});
  EXPECT_EQ(run_->Get("ids").at(0).data, slab.data());
  EXPECT_THAT(slab, ElementsAre(1, 2, 0, 0, 99));
  EXPECT_THAT(Values<int64_t>("ids", 1), ElementsAre(1, 2, 1, 2));
}

TEST_F(ParseSequenceTest, ShortStepsCannotClaimALargeAllocation) {
  std::string steps;
  for (int i = 0; i < 1000; ++i) steps += StepOf(Ints("\1"));
  Parse({ListSpec("ids", DType::kI64, {1 << 28})}, {WrapLists(Entry("ids", steps))});
  ExpectFailure(0, RecordErrorReason::kFeature);
  EXPECT_LT(arena_.capacity_bytes(), size_t{1} << 20);
}

// What the op makes of records is what libprotobuf reads in them.
class SequenceAgreement : public ParseSequenceTest {
 protected:
  void ExpectAgreement(std::vector<std::string> records) {
    const std::vector<FeatureSpec> specs = {ListSpec("a", DType::kI64),
                                            ListSpec("b", DType::kF32, {2}),
                                            ListSpec("c", DType::kU8, {2, 2})};
    Parse(specs, std::move(records));
    for (int64_t row = 0; row < run_->num_rows(); ++row) {
      const auto expected = ParseSequenceWithProtobuf(records_[row]);
      if (!run_->ok(row)) {
        CheckError(row, specs, expected);
        continue;
      }
      ++num_good_;
      if (!expected) continue;  // damaged where nobody looks
      for (const FeatureSpec& spec : specs) {
        EXPECT_EQ(BytesOf(spec.name, row), ArrayOf(spec, expected->lists.at(spec.key)));
      }
    }
  }

  int num_good_ = 0;
  int num_of_other_form_ = 0;

 private:
  std::string BytesOf(const std::string& name, int64_t row) {
    const ConstTensorView value = run_->Get(name).at(row);
    return {static_cast<const char*>(value.data), value.size_bytes()};
  }

  void CheckError(int64_t row, const std::vector<FeatureSpec>& specs,
                  const std::optional<SequenceValues>& expected) {
    const bool damaged = GetRecordError(run_->status(row))->reason == RecordErrorReason::kExample;
    if (!expected) return;
    EXPECT_FALSE(damaged) << run_->status(row);
    bool fits = true;
    for (const FeatureSpec& spec : specs) {
      const auto list = expected->lists.find(spec.key);
      fits = fits && list != expected->lists.end() && ArrayOf(spec, list->second).has_value();
    }
    EXPECT_FALSE(fits) << run_->status(row);
    ++num_of_other_form_;
  }
};

std::string Sample(std::mt19937_64& random) {
  oracle::SequenceExample example = RandomSequenceExample(random);
  auto& lists = *example.mutable_feature_lists()->mutable_feature_list();
  for (uint64_t n = random() % 4; n > 0; --n) {
    lists["a"].add_feature()->mutable_int64_list()->add_value(static_cast<int64_t>(random()));
  }
  for (const char* key : {"a", "b", "c"}) {
    if (random() % 8 != 0) lists[key].clear_feature();
  }
  for (uint64_t n = random() % 4; n > 0; --n) {
    lists["a"].add_feature()->mutable_int64_list()->add_value(static_cast<int64_t>(random()));
    auto* floats = lists["b"].add_feature()->mutable_float_list();
    floats->add_value(0.5f);
    floats->add_value(static_cast<float>(random() % 100));
    lists["c"].add_feature()->mutable_bytes_list()->add_value("four");
  }
  return example.SerializeAsString();
}

TEST_F(SequenceAgreement, RandomRecords) {
  std::mt19937_64 random(5);
  std::vector<std::string> records;
  for (int i = 0; i < 2000; ++i) records.push_back(Sample(random));
  ExpectAgreement(std::move(records));
  EXPECT_GT(num_good_, 500);
  EXPECT_GT(num_of_other_form_, 100);
}

TEST_F(SequenceAgreement, EveryTruncationAndFlippedBytes) {
  const google::protobuf::LogSilencer silencer;  // about keys that are not UTF-8
  std::mt19937_64 random(6);
  std::vector<std::string> records;
  for (int i = 0; i < 10; ++i) {
    const std::string whole = Sample(random);
    for (size_t size = 0; size < whole.size(); ++size) records.push_back(whole.substr(0, size));
    for (int k = 0; k < 500; ++k) {
      records.push_back(whole);
      records.back()[random() % whole.size()] = static_cast<char>(random());
    }
  }
  ExpectAgreement(std::move(records));
}

TEST(ParseSequenceResolve, ListsHaveAnUnknownNumberOfSteps) {
  const auto op = *MakeParseSequenceExample(
      {{Spec("label", DType::kI64), ListSpec("boxes", DType::kF32, {4})}, "packed"});
  const Schema input({{"packed", DType::kBytes, {Shape::kUnknown}}});
  EXPECT_EQ(op->Resolve(input)->ToString(), "label: int64[], boxes: float32[?, 4]");
  EXPECT_EQ(op->Resolve(Schema()).status().code(), absl::StatusCode::kNotFound);
}

TEST(MakeParseSequenceExample, RefusesOptionsThatCannotWork) {
  const auto error = [](const FeatureSpec& spec) {
    const absl::Status status = MakeParseSequenceExample({{spec}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return status;
  };
  FeatureSpec flat = ListSpec("a", DType::kI64);
  flat.shape = {};
  EXPECT_MESSAGE(error(flat));
  EXPECT_MESSAGE(error(ListSpec("a", DType::kBytes)));
  EXPECT_MESSAGE(error(ListSpec("a", DType::kI32)));
  EXPECT_MESSAGE(error(Spec("a", DType::kU8, {3})));
  EXPECT_MESSAGE(error(ListSpec("a", DType::kI64, {Shape::kUnknown})));
  FeatureSpec defaulted = ListSpec("a", DType::kI64);
  defaulted.has_default = true;
  EXPECT_MESSAGE(error(defaulted));
  EXPECT_FALSE(MakeParseSequenceExample({{flat, flat}}).ok());
}

}  // namespace
}  // namespace millrace::readers
