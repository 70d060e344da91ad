#include "pipeline/cut/examiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/record_error.h"
#include "pipeline/stages/cut_ops.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/fake_ops.h"

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A record "5:abc" has the label 5 and a list of one number for each letter.
std::string MakeRecord(int64_t label, size_t list) {
  return std::to_string(label) + ":" + std::string(list, 'x');
}

const Schema kParsed({{"label", DType::kI64, {}},
                      {"list", DType::kI64, {Shape::kUnknown}},
                      {"pair", DType::kI32, {Shape::kUnknown, 2}}});

// Counts how often it is applied to a row.
PhysicalOp Counting(std::string stage, std::atomic<int>* calls) {
  return MakeRowOp(std::move(stage), "", DType::kU8,
                   [calls](millrace::Run&, Column*, int64_t) { ++*calls; });
}

// "label" and the lists; fails where the label is negative. Element i of list is 100 label + i, of
// pair (label, i).
PhysicalOp ParseOp(std::atomic<int>* calls) {
  return MakeRowOp("parse", "label", DType::kI64,
                   [calls](millrace::Run& run, Column*, int64_t row) {
                     ++*calls;
                     const std::string record(run.Get("record").bytes(row));
                     const int64_t label = std::stoll(record);
                     const auto size = static_cast<int64_t>(record.size() - record.find(':') - 1);
                     if (label < 0) {
                       absl::Status status = absl::InvalidArgumentError("negative");
                       RecordError error;
                       error.position = static_cast<int64_t>(run.position(row));
                       error.reason = RecordErrorReason::kFeature;
                       SetRecordError(status, error);
                       return run.Fail(row, status);
                     }
                     if (run.Find("list") == nullptr) run.Add("list", DType::kI64);
                     if (run.Find("pair") == nullptr) run.Add("pair", DType::kI32);
                     auto& label_column = const_cast<Column&>(run.Get("label"));
                     auto& list = const_cast<Column&>(run.Get("list"));
                     auto& pair = const_cast<Column&>(run.Get("pair"));
                     *static_cast<int64_t*>(run.Allocate(label_column, row, {})) = label;
                     auto* numbers = static_cast<int64_t*>(run.Allocate(list, row, {size}));
                     auto* pairs = static_cast<int32_t*>(run.Allocate(pair, row, {size, 2}));
                     for (int64_t i = 0; i < size; ++i) {
                       numbers[i] = 100 * label + i;
                       pairs[2 * i] = static_cast<int32_t>(label);
                       pairs[2 * i + 1] = static_cast<int32_t>(i);
                     }
                   });
}

class ExaminerTest : public testing::Test {
 protected:
  ExaminerTest() { plan_.cut.emplace(); }

  void AddOp(PhysicalOp op) {
    ExamineStep step;
    step.kind = ExamineStep::Kind::kOp;
    step.stage = op.stage;
    step.op = std::move(op);
    plan_.cut->examine.push_back(std::move(step));
  }
  void AddFilter(std::string_view text, const Schema& schema = kParsed) {
    ExamineStep step;
    step.kind = ExamineStep::Kind::kFilter;
    step.stage = "filter" + std::to_string(plan_.cut->num_filters++);
    auto predicate = Predicate::Parse(text);
    ASSERT_TRUE(predicate.ok()) << predicate.status();
    const absl::Status status = predicate->Resolve(schema);
    ASSERT_TRUE(status.ok()) << status;
    step.filter = *std::move(predicate);
    plan_.cut->examine.push_back(std::move(step));
  }
  void AddUnbatch(std::vector<std::string> split) {
    ExamineStep step;
    step.kind = ExamineStep::Kind::kUnbatch;
    step.stage = "unbatch";
    step.split = std::move(split);
    plan_.cut->examine.push_back(std::move(step));
  }
  void AddSettle(int after_filters) {
    SettleStep step;
    step.after_filters = after_filters;
    plan_.cut->settle.push_back(step);
  }

  // Examines the records as numbers 10, 11, ... at positions 50, 51, ...
  const Examined& Examine(const std::vector<std::string>& records) {
    records_ = records;
    std::vector<uint64_t> positions;
    std::vector<SampleId> ids;
    for (size_t i = 0; i < records_.size(); ++i) {
      ids.push_back({3, 10 + i, 0});
      positions.push_back(50 + i);
    }
    millrace::Run run(arena_, 1, 1234, ids);
    Column& column = run.Add("record", DType::kBytes);
    for (size_t i = 0; i < records_.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (records_[i].empty()) {
        run.Fail(row, absl::DataLossError("torn"));
      } else {
        column.Set(row, records_[i].data(), {static_cast<int64_t>(records_[i].size())});
      }
    }
    Examiner(plan_).Examine(run, positions, &found_);
    return found_;
  }

  // "10" for record 10 kept, "10.2" for its element 2, "10-1" when dropped after one filter, "10!"
  // with an error.
  std::string Rows() const {
    std::string text;
    for (const Examined::Row& row : found_.rows) {
      EXPECT_EQ(row.origin.position, row.origin.id.record + 40);
      EXPECT_EQ(row.origin.id.epoch, 3u);
      if (!text.empty()) text += " ";
      text += std::to_string(row.origin.id.record);
      if (row.origin.id.sub_index > 0) text += "." + std::to_string(row.origin.id.sub_index);
      if (row.error >= 0) {
        EXPECT_EQ(row.passed_filters, plan_.cut->num_filters);
        text += "!";
      } else if (row.passed_filters < plan_.cut->num_filters) {
        text += "-" + std::to_string(row.passed_filters);
      }
    }
    return text;
  }

  PhysicalPlan plan_;
  RunArena arena_;
  std::vector<std::string> records_;
  Examined found_;
  std::atomic<int> parsed_ = 0;
};

std::vector<std::string> Labels(const std::vector<int64_t>& labels) {
  std::vector<std::string> records;
  for (const int64_t label : labels) records.push_back(label < -1 ? "" : MakeRecord(label, 2));
  return records;
}

// S-CUT-1
TEST_F(ExaminerTest, AFilterKeepsMatchingRowsInOrder) {
  AddOp(ParseOp(&parsed_));
  AddFilter("label in (1, 3)");
  Examine(Labels({0, 1, 2, 3, 1, 5}));
  EXPECT_EQ(Rows(), "11 13 14");
  EXPECT_THAT(found_.extents, IsEmpty());
  EXPECT_THAT(found_.errors, IsEmpty());
}

// S-CUT-6
TEST_F(ExaminerTest, LaterStepsNeverSeeDroppedRows) {
  std::atomic<int> between = 0;
  std::atomic<int> behind = 0;
  AddOp(ParseOp(&parsed_));
  AddFilter("label < 3");
  AddOp(Counting("between", &between));
  AddFilter("label != 1");
  AddOp(Counting("behind", &behind));
  Examine(Labels({0, 1, 2, 3, 4, 5, 1, 0}));
  EXPECT_EQ(Rows(), "10 12 17");
  EXPECT_EQ(parsed_, 8);
  EXPECT_EQ(between, 5);
  EXPECT_EQ(behind, 3);
}

TEST_F(ExaminerTest, RowsDroppedBehindASettleStepAreKept) {
  AddOp(ParseOp(&parsed_));
  AddFilter("label > 0");
  AddFilter("label > 1");
  AddFilter("label > 2");
  Examine(Labels({0, 1, 2, 3}));
  EXPECT_EQ(Rows(), "13");
  found_ = {};
  AddSettle(2);
  Examine(Labels({3, 2, 1, 0}));
  EXPECT_EQ(Rows(), "10 11-2");
  found_ = {};
  AddSettle(0);  // a take before the first filter, behind an unbatch say
  Examine(Labels({3, 2, 1, 0, 3}));
  EXPECT_EQ(Rows(), "10 11-2 12-1 13-0 14");
}

// S-CUT-4
TEST_F(ExaminerTest, ABadRowKeepsItsPlaceWithTheStageThatSaidSo) {
  AddOp(ParseOp(&parsed_));
  AddFilter("list[1] >= 0");
  AddOp(CheckOp([](uint64_t record) { return record != 13; }));
  Examine({MakeRecord(1, 2), MakeRecord(-1, 2), "", MakeRecord(2, 2), MakeRecord(3, 1),
           MakeRecord(4, 3)});
  EXPECT_EQ(Rows(), "10 11! 12! 13! 14! 15");
  const auto error = [&](size_t row) { return found_.errors[found_.rows[row].error]; };
  EXPECT_MESSAGE(error(1));
  EXPECT_MESSAGE(error(2));
  EXPECT_MESSAGE(error(3));
  EXPECT_MESSAGE(error(4));
  for (const absl::Status& status : found_.errors) {
    EXPECT_EQ(GetRecordError(status)->position, -1) << status;
  }
  EXPECT_EQ(GetRecordError(found_.errors[found_.rows[1].error])->reason,
            RecordErrorReason::kFeature);
}

// S-CUT-5
TEST_F(ExaminerTest, UnbatchMakesARowOfEachElementInOrder) {
  AddOp(ParseOp(&parsed_));
  AddUnbatch({"list", "pair"});
  Examine({MakeRecord(1, 2), MakeRecord(2, 0), MakeRecord(-1, 9), MakeRecord(3, 3)});
  EXPECT_EQ(Rows(), "10 10.1 12! 13 13.1 13.2");
}

// S-CUT-5
TEST_F(ExaminerTest, LaterFiltersSeeElementsAndRepeatedFields) {
  const Schema split({{"label", DType::kI64, {}}, {"list", DType::kI64, {}}});
  AddOp(ParseOp(&parsed_));
  AddFilter("label != 2");
  AddUnbatch({"list", "not_parsed_here"});
  AddFilter("list in (101, 300, 302) and label < 9", split);
  AddSettle(1);
  Examine({MakeRecord(1, 2), MakeRecord(2, 2), MakeRecord(3, 3), MakeRecord(-1, 0)});
  EXPECT_EQ(Rows(), "10-1 10.1 12 12.1-1 12.2 13!");
}

// S-CUT-5
TEST_F(ExaminerTest, FieldsOfUnequalLengthsOrWithoutElementsAreRowErrors) {
  AddOp(ParseOp(&parsed_));
  AddOp(MakeRowOp("shorten", "pair", DType::kI32,
                  [](millrace::Run& run, Column* column, int64_t row) {
                    run.Allocate(*column, row, {3, 2});
                  }));
  AddUnbatch({"list", "pair"});
  Examine({MakeRecord(1, 3), MakeRecord(2, 2)});
  EXPECT_EQ(Rows(), "10 10.1 10.2 11!");
  EXPECT_MESSAGE(found_.errors[0]);
  found_ = {};
  plan_.cut->examine.back().split = {};  // all fields, the record's bytes among them
  Examine({MakeRecord(1, 3)});
  EXPECT_EQ(Rows(), "10!");
  EXPECT_MESSAGE(found_.errors[0]);
}

TEST_F(ExaminerTest, ARecordOfManyElementsIsSplitInBlocks) {
  std::atomic<int> calls = 0;
  std::atomic<int64_t> most = 0;
  AddOp(ParseOp(&parsed_));
  AddUnbatch({"list", "pair"});
  AddOp(MakeRowOp("look", "", DType::kU8, [&](millrace::Run& run, Column*, int64_t row) {
    ++calls;
    most = std::max<int64_t>(most, run.num_rows());
    const auto sub = static_cast<int64_t>(run.id(row).sub_index);
    EXPECT_EQ(run.Get("list").at(row).as<int64_t>()[0] % 100000, 100 + sub);
    EXPECT_EQ(run.Get("pair").at(row).as<int32_t>()[1], sub);
  }));
  Examine({MakeRecord(1, 30000)});
  EXPECT_EQ(calls, 30000);
  EXPECT_LT(most, 5000);
  ASSERT_EQ(found_.rows.size(), 30000u);
  for (size_t i = 0; i < found_.rows.size(); ++i) {
    EXPECT_EQ(found_.rows[i].origin.id.sub_index, i);
  }
}

TEST_F(ExaminerTest, ExtentsOfTheFieldsAreToldForEveryRow) {
  plan_.batch_schema = Schema(
      {{"pair", DType::kI32, {Shape::kUnknown, 2}}, {"list", DType::kI64, {Shape::kUnknown}}});
  plan_.cut->extents_of = {"pair", "list"};
  AddOp(ParseOp(&parsed_));
  AddFilter("label != 2");
  AddSettle(0);
  EXPECT_EQ(Examiner(plan_).extents_per_row(), 3u);
  found_.errors.push_back(absl::DataLossError("of a run before"));
  Examine({MakeRecord(1, 4), MakeRecord(2, 5), MakeRecord(-1, 6), MakeRecord(3, 7)});
  EXPECT_EQ(Rows(), "10 11-0 12! 13");
  EXPECT_THAT(found_.extents, ElementsAre(4, 2, 4, 0, 0, 0, 0, 0, 0, 7, 2, 7));
  EXPECT_EQ(found_.rows[2].error, 1);
}

TEST_F(ExaminerTest, AnOpThatLeavesAFieldOutIsARowError) {
  plan_.batch_schema = Schema({{"label", DType::kI64, {Shape::kUnknown}}});
  plan_.cut->extents_of = {"label"};
  AddOp(ParseOp(&parsed_));  // stores a scalar
  Examine({MakeRecord(1, 4)});
  EXPECT_EQ(Rows(), "10!");
  EXPECT_EQ(found_.errors[0].code(), absl::StatusCode::kInternal);
  EXPECT_THAT(found_.extents, ElementsAre(0));
}

TEST(UnbatchSlice, TakesTheElementOfTheSubIndex) {
  auto op = MakeUnbatchSlice({"list"});
  ASSERT_TRUE(op.ok());
  const auto schema = (*op)->Resolve(
      Schema({{"list", DType::kI32, {Shape::kUnknown, 2}}, {"label", DType::kI64, {}}}));
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_EQ(schema->ToString(), "list: int32[2], label: int64[]");
  RunArena arena;
  millrace::Run run(arena, 1, 0, {{0, 4, 0}, {0, 4, 2}, {0, 4, 3}});
  std::vector<int32_t> numbers(6);
  std::iota(numbers.begin(), numbers.end(), 0);
  Column& column = run.Add("list", DType::kI32);
  for (int64_t row = 0; row < 3; ++row) column.Set(row, numbers.data(), {3, 2});
  const int64_t label = 8;
  Column& other = run.Add("label", DType::kI64);
  for (int64_t row = 0; row < 3; ++row) other.Set(row, &label, {});
  (*op)->Apply(run);
  EXPECT_EQ(run.Get("list").at(1).data, &numbers[4]);
  EXPECT_EQ(run.Get("list").at(1).shape, Shape({2}));
  EXPECT_EQ(run.Get("list").at(0).data, &numbers[0]);
  EXPECT_EQ(run.Get("label").at(1).data, &label);
  EXPECT_MESSAGE(run.status(2));
}

TEST(UnbatchSlice, RefusesFieldsThatCannotBeSplit) {
  const Schema schema({{"text", DType::kBytes, {Shape::kUnknown}},
                       {"label", DType::kI64, {}},
                       {"a", DType::kI64, {3}},
                       {"b", DType::kI64, {Shape::kUnknown}},
                       {"c", DType::kI64, {4}}});
  const auto error = [&](std::vector<std::string> fields) {
    auto op = MakeUnbatchSlice(std::move(fields));
    const absl::Status status = op.ok() ? (*op)->Resolve(schema).status() : op.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return status;
  };
  EXPECT_MESSAGE(error({}));
  EXPECT_MESSAGE(error({"label"}));
  EXPECT_MESSAGE(error({"a", "b", "c"}));
  EXPECT_MESSAGE(error({"a", "labl"}));
  EXPECT_MESSAGE(error({"a", "a"}));
  EXPECT_TRUE((*MakeUnbatchSlice({"a", "b"}))->Resolve(schema).ok());
}

TEST(IdentityOp, ChangesNothing) {
  auto op = MakeIdentity();
  ASSERT_TRUE(op.ok());
  EXPECT_EQ((*op)->Resolve(kParsed)->ToString(), kParsed.ToString());
}

}  // namespace
}  // namespace millrace::pipeline
