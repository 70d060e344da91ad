#include "readers/parse_example.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/record_error.h"
#include "readers/example_builder.h"
#include "tests/messages.h"
#include "tests/readers/example/example_oracle.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;

FeatureSpec Spec(std::string key, DType dtype, Shape shape = {}) {
  FeatureSpec spec;
  spec.name = key;
  spec.key = std::move(key);
  spec.dtype = dtype;
  spec.shape = shape;
  return spec;
}

class ParseExampleTest : public testing::Test {
 protected:
  // Parses `records` as the rows of one run.
  void Parse(std::vector<FeatureSpec> features, std::vector<std::string> records) {
    records_ = std::move(records);
    auto op = MakeParseExample({std::move(features)});
    EXPECT_TRUE(op.ok()) << op.status();
    op_ = std::move(op).value();
    EXPECT_TRUE(op_->Resolve(Schema({{"record", DType::kBytes, {Shape::kUnknown}}})).ok());
    std::vector<SampleId> ids(records_.size());
    run_.emplace(arena_, 1, 100, ids);
    Column& column = run_->Add("record", DType::kBytes);
    for (size_t i = 0; i < records_.size(); ++i) {
      column.Set(static_cast<int64_t>(i), records_[i].data(),
                 {static_cast<int64_t>(records_[i].size())});
    }
    run_->Bind(slots_);
    op_->Apply(*run_);
  }

  std::vector<int64_t> Ints(std::string_view name, int64_t row) {
    const auto values = run_->Get(name).at(row).as<int64_t>();
    return {values.begin(), values.end()};
  }
  std::vector<float> Floats(std::string_view name, int64_t row) {
    const auto values = run_->Get(name).at(row).as<float>();
    return {values.begin(), values.end()};
  }
  // The row failed so.
  void ExpectFailure(int64_t row, absl::StatusCode code, RecordErrorReason reason) {
    const absl::Status status = run_->status(row);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_MESSAGE(status);
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

std::string Labelled(int64_t label, std::string_view image) {
  ExampleBuilder builder;
  builder.AddBytes("image", image);
  builder.AddInt("label", label);
  return builder.Serialize();
}

TEST_F(ParseExampleTest, FeaturesBecomeColumnsAndTheRecordGoes) {
  Parse({Spec("label", DType::kI64), Spec("image", DType::kBytes)},
        {Labelled(3, "abc"), Labelled(-1, "")});
  EXPECT_EQ(run_->Find("record"), nullptr);
  EXPECT_THAT(Ints("label", 0), ElementsAre(3));
  EXPECT_THAT(Ints("label", 1), ElementsAre(-1));
  EXPECT_EQ(run_->Get("image").bytes(0), "abc");
  EXPECT_EQ(run_->Get("image").bytes(1), "");
}

TEST_F(ParseExampleTest, BytesPointIntoTheRecord) {
  Parse({Spec("image", DType::kBytes)}, {Labelled(3, "abc")});
  const char* const data = run_->Get("image").bytes(0).data();
  EXPECT_GE(data, records_[0].data());
  EXPECT_LT(data, records_[0].data() + records_[0].size());
}

TEST_F(ParseExampleTest, NumbersOfABoundColumnGoStraightToTheSlab) {
  alignas(64) std::array<int64_t, 2> slab = {0, 0};
  slots_ = {{"label", DType::kI64, {}, reinterpret_cast<std::byte*>(slab.data())}};
  Parse({Spec("label", DType::kI64)}, {Labelled(3, "abc"), Labelled(4, "d")});
  EXPECT_THAT(slab, ElementsAre(3, 4));
  EXPECT_EQ(run_->Get("label").at(1).data, &slab[1]);
}

TEST_F(ParseExampleTest, NumbersOfAnotherKindAreNotWrittenBehindTheSlot) {
  alignas(64) std::array<float, 6> slab = {0, 0, 0, 0, 77, 88};  // two rows of two, and a neighbour
  slots_ = {{"box", DType::kF32, {2}, reinterpret_cast<std::byte*>(slab.data())}};
  ExampleBuilder floats;
  floats.AddFloats("box", std::vector<float>{1, 2});
  ExampleBuilder ints;
  ints.AddInts("box", std::vector<int64_t>{-1, -1});
  Parse({Spec("box", DType::kF32, {2})}, {floats.Serialize(), ints.Serialize()});
  EXPECT_THAT(slab, ElementsAre(1, 2, 0, 0, 77, 88));
  ExpectFailure(1, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
}

TEST_F(ParseExampleTest, AListOfAnotherKindAndUnknownLengthIsAFeatureError) {
  ExampleBuilder ints;
  ints.AddInts("box", std::vector<int64_t>(100, 1));
  ExampleBuilder floats;
  floats.AddFloats("ids", std::vector<float>(100, 1));
  Parse({Spec("box", DType::kF32, {-1}), Spec("ids", DType::kI64, {-1})},
        {ints.Serialize(), floats.Serialize()});
  ExpectFailure(0, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
  ExpectFailure(1, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
}

TEST_F(ParseExampleTest, ListsTakeTheDeclaredShape) {
  ExampleBuilder builder;
  builder.AddFloats("box", std::vector<float>{1, 2, 3, 4, 5, 6});
  Parse({Spec("box", DType::kF32, {2, 3})}, {builder.Serialize()});
  EXPECT_EQ(run_->Get("box").at(0).shape, (Shape{2, 3}));
  EXPECT_THAT(Floats("box", 0), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(ParseExampleTest, ABadRowDoesNotStopTheOthers) {
  Parse({Spec("label", DType::kI64)}, {Labelled(1, ""), "\x0a\x05", Labelled(2, "")});
  EXPECT_THAT(Ints("label", 0), ElementsAre(1));
  EXPECT_THAT(Ints("label", 2), ElementsAre(2));
  ExpectFailure(1, absl::StatusCode::kDataLoss, RecordErrorReason::kExample);
}

TEST_F(ParseExampleTest, MissingOtherKindAndOtherLengthAreFeatureErrors) {
  ExampleBuilder pair;
  pair.AddInts("label", std::vector<int64_t>{1, 2});
  ExampleBuilder real;
  real.AddFloat("label", 1);
  ExampleBuilder none;
  none.AddInts("label", {});
  Parse({Spec("label", DType::kI64)},
        {ExampleBuilder().Serialize(), pair.Serialize(), real.Serialize(), none.Serialize(),
         Wrap(Entry("label", ""))});
  const auto expect = [&](int64_t row) {
    ExpectFailure(row, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
  };
  expect(0);
  expect(1);
  expect(2);
  expect(3);
  expect(4);
}

TEST_F(ParseExampleTest, AMissingFeatureIsToldWithTheNearestKeyOfItsRecord) {
  ExampleBuilder near;
  near.AddInts("image/class/lable", std::vector<int64_t>{1});
  ExampleBuilder far;
  far.AddInts("x", std::vector<int64_t>{1});
  far.AddInts("y", std::vector<int64_t>{1});
  Parse({Spec("image/class/label", DType::kI64)}, {near.Serialize(), far.Serialize()});
  ExpectFailure(0, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
  ExpectFailure(1, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
}

TEST_F(ParseExampleTest, SeveralStringsAreNotOne) {
  ExampleBuilder builder;
  builder.AddBytes("image", std::vector<std::string_view>{"a", "b"});
  Parse({Spec("image", DType::kBytes)}, {builder.Serialize()});
  ExpectFailure(0, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
}

TEST_F(ParseExampleTest, DefaultsFillMissingFeatures) {
  FeatureSpec label = Spec("label", DType::kI64, {2});
  label.has_default = true;
  label.default_int = -7;
  FeatureSpec weight = Spec("weight", DType::kF32);
  weight.has_default = true;
  weight.default_float = 0.5f;
  FeatureSpec text = Spec("text", DType::kBytes);
  text.has_default = true;
  text.default_bytes = "none";
  Parse({label, weight, text}, {""});
  EXPECT_TRUE(run_->ok(0)) << run_->status(0);
  EXPECT_THAT(Ints("label", 0), ElementsAre(-7, -7));
  EXPECT_THAT(Floats("weight", 0), ElementsAre(0.5f));
  EXPECT_EQ(run_->Get("text").bytes(0), "none");
}

TEST_F(ParseExampleTest, AnUnknownFirstExtentIsWhatTheRecordHas) {
  ExampleBuilder two;
  two.AddInts("ids", std::vector<int64_t>{1, -2, int64_t{1} << 60, 4, 5, 600});
  two.AddFloats("box", std::vector<float>{1, 2});
  ExampleBuilder none;
  none.AddInts("ids", {});
  none.AddFloats("box", {});
  Parse({Spec("ids", DType::kI64, {Shape::kUnknown, 3}), Spec("box", DType::kF32, {-1})},
        {two.Serialize(), none.Serialize(), ""});
  ASSERT_TRUE(run_->all_ok());
  EXPECT_EQ(run_->Get("ids").at(0).shape, (Shape{2, 3}));
  EXPECT_THAT(Ints("ids", 0), ElementsAre(1, -2, int64_t{1} << 60, 4, 5, 600));
  EXPECT_THAT(Floats("box", 0), ElementsAre(1, 2));
  for (int64_t row = 1; row < 3; ++row) {
    EXPECT_EQ(run_->Get("ids").at(row).shape, (Shape{0, 3}));
    EXPECT_EQ(run_->Get("box").at(row).shape, (Shape{0}));
    EXPECT_NE(run_->Get("box").at(row).data, nullptr);
  }
}

TEST_F(ParseExampleTest, AnUnknownExtentTakesWholeRowsOnly) {
  ExampleBuilder builder;
  builder.AddInts("ids", std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7});
  Parse({Spec("ids", DType::kI64, {Shape::kUnknown, 3})}, {builder.Serialize()});
  ExpectFailure(0, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature);
}

TEST_F(ParseExampleTest, TheDefaultOfAnUnknownExtentIsOneRow) {
  FeatureSpec ids = Spec("ids", DType::kI64, {Shape::kUnknown, 2});
  ids.has_default = true;
  ids.default_int = 9;
  ExampleBuilder builder;
  builder.AddInts("ids", {});
  Parse({ids}, {"", builder.Serialize()});
  EXPECT_EQ(run_->Get("ids").at(0).shape, (Shape{1, 2}));
  EXPECT_THAT(Ints("ids", 0), ElementsAre(9, 9));
  EXPECT_EQ(run_->Get("ids").at(1).shape, (Shape{0, 2}));  // there, and empty
}

// Lists of any length, packed or not, given once or several times, against libprotobuf.
TEST_F(ParseExampleTest, ListsOfAnyLengthReadLikeLibprotobuf) {
  std::mt19937_64 random(11);
  std::vector<std::string> records;
  for (int i = 0; i < 500; ++i) {
    std::string lists;
    for (uint64_t part = random() % 4; part > 0; --part) {
      std::string list;
      for (uint64_t n = random() % 9; n > 0; --n) {
        const std::string value = Varint(random() >> (random() % 64));
        list += random() % 2 == 0 ? Tag(1, 0) + value : Message(1, value + value);
      }
      lists += Message(3, list);
    }
    records.push_back(Wrap(Entry("ids", lists)));
  }
  Parse({Spec("ids", DType::kI64, {Shape::kUnknown})}, records);
  for (int64_t row = 0; row < run_->num_rows(); ++row) {
    ASSERT_TRUE(run_->ok(row)) << run_->status(row);
    EXPECT_EQ(Ints("ids", row), ParseWithProtobuf(records_[row])->at("ids").ints);
  }
}

TEST_F(ParseExampleTest, EntriesThatNobodyAsksForAreNotParsed) {
  // A float list of three bytes: libprotobuf refuses it, but it is not wanted here.
  const std::string odd = Entry("odd", Message(2, Message(1, "abc")));
  const std::string label = Entry("label", Message(3, Message(1, Varint(9))));
  Parse({Spec("label", DType::kI64)}, {Wrap(odd + label)});
  EXPECT_TRUE(run_->ok(0)) << run_->status(0);
  EXPECT_THAT(Ints("label", 0), ElementsAre(9));
}

TEST_F(ParseExampleTest, ReplacedDuplicateMustBeValidNevertheless) {
  const std::string odd = Entry("label", Message(2, Message(1, "abc")));
  const std::string label = Entry("label", Message(3, Message(1, Varint(9))));
  const std::string real = Entry("label", Message(2, Message(1, "abcd")));
  Parse({Spec("label", DType::kI64)}, {Wrap(odd + label), Wrap(real + label)});
  ExpectFailure(0, absl::StatusCode::kDataLoss, RecordErrorReason::kExample);
  EXPECT_THAT(Ints("label", 1), ElementsAre(9));
}

TEST_F(ParseExampleTest, AShortEntryCannotClaimALargeAllocation) {
  Parse({Spec("label", DType::kF32, {1 << 28})}, {Labelled(1, "")});
  EXPECT_FALSE(run_->ok(0));
  EXPECT_LT(arena_.capacity_bytes(), size_t{1} << 20);
}

TEST_F(ParseExampleTest, OrderOfEntriesMayChangeFromRecordToRecord) {
  std::mt19937_64 random(5);
  std::vector<std::string> keys = {"a", "b", "c", "d", "e"};
  std::vector<std::string> records;
  for (int row = 0; row < 50; ++row) {
    std::shuffle(keys.begin(), keys.end(), random);
    ExampleBuilder builder;
    const size_t kept = 2 + random() % 4;
    for (size_t i = 0; i < kept; ++i) builder.AddInt(keys[i], row * 10 + keys[i][0]);
    records.push_back(builder.Serialize());
  }
  std::vector<FeatureSpec> features;
  for (const char* key : {"d", "a", "x", "c"}) {
    features.push_back(Spec(key, DType::kI64));
    features.back().has_default = true;
    features.back().default_int = -1;
  }
  Parse(features, records);
  for (int64_t row = 0; row < 50; ++row) {
    const auto expected = ParseWithProtobuf(records_[row]);
    for (const char* key : {"d", "a", "x", "c"}) {
      const auto it = expected->find(key);
      EXPECT_EQ(Ints(key, row)[0], it == expected->end() ? -1 : it->second.ints[0]);
    }
  }
}

// Every row is judged and read as libprotobuf does when all features are asked for.
TEST_F(ParseExampleTest, DamagedRecordsAgreeWithLibprotobuf) {
  const google::protobuf::LogSilencer silencer;  // about keys that are not UTF-8
  std::mt19937_64 random(6);
  ExampleBuilder builder;
  builder.AddBytes("image", "some bytes");
  builder.AddInts("ids", std::vector<int64_t>{1, 200, -3});
  builder.AddFloats("box", std::vector<float>{1, 2});
  const std::string whole = builder.Serialize();
  std::vector<std::string> records;
  for (size_t size = 0; size < whole.size(); ++size) records.push_back(whole.substr(0, size));
  for (int i = 0; i < 3000; ++i) {
    records.push_back(whole);
    records.back()[random() % whole.size()] = static_cast<char>(random());
  }
  Parse(
      {Spec("image", DType::kBytes), Spec("ids", DType::kI64, {3}), Spec("box", DType::kF32, {2})},
      records);
  for (int64_t row = 0; row < run_->num_rows(); ++row) {
    const auto expected = ParseWithProtobuf(records_[row]);
    if (run_->ok(row)) {
      ASSERT_TRUE(expected.has_value());
      EXPECT_EQ(Ints("ids", row), expected->at("ids").ints);
      EXPECT_EQ(run_->Get("image").bytes(row), expected->at("image").bytes[0]);
    } else if (GetRecordError(run_->status(row))->reason == RecordErrorReason::kExample) {
      // A damaged key hides a value from us (it is no longer asked for), never the reverse.
      EXPECT_FALSE(expected.has_value());
    }
  }
}

TEST(ParseExampleResolve, OutputIsTheInputWithoutTheRecordPlusTheFeatures) {
  FeatureSpec image = Spec("image/encoded", DType::kBytes);
  image.name = "image";
  auto op = MakeParseExample({{image, Spec("box", DType::kF32, {4})}});
  ASSERT_TRUE(op.ok());
  const auto schema = (*op)->Resolve(
      Schema({{"record", DType::kBytes, {Shape::kUnknown}}, {"index", DType::kI64, {}}}));
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(schema->ToString(), "index: int64[], image: bytes[?], box: float32[4]");
}

TEST(ParseExampleResolve, AnotherFieldMayBeWhatIsParsed) {
  const auto op = *MakeParseExample({{Spec("x", DType::kI64)}, "packed"});
  const Schema input({{"record", DType::kI64, {}}, {"packed", DType::kBytes, {Shape::kUnknown}}});
  EXPECT_EQ(op->Resolve(input)->ToString(), "record: int64[], x: int64[]");
  EXPECT_MESSAGE(op->Resolve(Schema({{"packed", DType::kI64, {}}})).status());
  ExampleBuilder example;
  example.AddInt("x", 7);
  const std::string record = example.Serialize();
  RunArena arena;
  millrace::Run run(arena, 1, 0, {SampleId()});
  run.Add("packed", DType::kBytes).Set(0, record.data(), {static_cast<int64_t>(record.size())});
  op->Apply(run);
  EXPECT_EQ(run.Get("x").at(0).as<int64_t>()[0], 7);
  EXPECT_EQ(run.Find("packed"), nullptr);
}

TEST(ParseExampleResolve, NeedsTheRecordField) {
  auto op = MakeParseExample({{Spec("label", DType::kI64)}});
  EXPECT_EQ((*op)->Resolve(Schema()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*op)->Resolve(Schema({{"record", DType::kU8, {3}}})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MakeParseExample, RefusesOptionsThatCannotWork) {
  const auto code = [](std::vector<FeatureSpec> features) {
    return MakeParseExample({std::move(features)}).status().code();
  };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Spec("a", DType::kU8)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Spec("a", DType::kI64, {2, Shape::kUnknown})}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Spec("a", DType::kI64, {Shape::kUnknown, 0})}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Spec("a", DType::kI64, {-5})}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Spec("a", DType::kI64, {1 << 30, 1 << 30, 1 << 30})}),
            absl::StatusCode::kInvalidArgument);
  FeatureSpec list = Spec("a", DType::kI64, {Shape::kUnknown});
  list.per_step = true;  // only a SequenceExample has them
  EXPECT_EQ(code({list}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Spec("a", DType::kI64), Spec("a", DType::kI64)}),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::readers
