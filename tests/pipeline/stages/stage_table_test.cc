#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/logical/logical.h"
#include "pipeline/stages/table.h"

// The rows of stages against the messages of pipeline.proto.

namespace millrace::pipeline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

std::vector<const StageRow*> AllRows() {
  std::vector<const StageRow*> rows;
  for (const StageFamily* family : StageFamilies()) {
    for (const StageRow& row : family->rows) rows.push_back(&row);
  }
  return rows;
}

const FieldDescriptor* OpOf(const StageRow& row) {
  return proto::Stage::descriptor()->FindFieldByNumber(row.op_case);
}

proto::Stage Bare(const StageRow& row) {
  proto::Stage stage;
  stage.GetReflection()->MutableMessage(&stage, OpOf(row));
  return stage;
}

TEST(StageTableTest, EveryOpOfTheMessageHasOneRowWithItsName) {
  std::vector<int> ops;
  for (int i = 0; i < proto::Stage::descriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = proto::Stage::descriptor()->field(i);
    if (field->containing_oneof() != nullptr) ops.push_back(field->number());
  }
  std::vector<int> rows;
  for (const StageRow* row : AllRows()) {
    rows.push_back(row->op_case);
    EXPECT_EQ(row->name, OpOf(*row)->name());
    EXPECT_EQ(FindRow(row->name), row);
    EXPECT_EQ(&RowOf(Bare(*row)), row);
  }
  EXPECT_THAT(rows, UnorderedElementsAreArray(ops));
}

TEST(StageTableTest, EveryOptionOfTheMessageIsDocumentedOnce) {
  for (const StageRow* row : AllRows()) {
    std::vector<std::string> fields, options;
    const Descriptor* const message = OpOf(*row)->message_type();
    for (int i = 0; i < message->field_count(); ++i) fields.push_back(message->field(i)->name());
    for (const Option& option : row->options) {
      if (option.name != nullptr) options.push_back(option.name);
    }
    EXPECT_THAT(options, UnorderedElementsAreArray(fields)) << row->name;
    EXPECT_STRNE(row->doc, "") << row->name;
  }
}

// A column is there exactly where the stage's kind needs it.
TEST(StageTableTest, RowsHaveTheColumnsOfTheirKind) {
  for (const StageRow* row : AllRows()) {
    const bool join = InputsOf(Bare(*row)) != nullptr;
    const bool samples = row->kind == StageKind::kMap || row->kind == StageKind::kCut ||
                         row->kind == StageKind::kWindow;
    EXPECT_EQ(row->source != nullptr, row->kind == StageKind::kSource && !join) << row->name;
    EXPECT_EQ(row->order != nullptr, row->kind == StageKind::kOrder) << row->name;
    EXPECT_EQ(row->batch != nullptr, row->kind == StageKind::kBatch) << row->name;
    EXPECT_EQ(row->read != nullptr, samples && row->mixing == nullptr) << row->name;
    EXPECT_EQ(row->read != nullptr, row->op != nullptr) << row->name;
    EXPECT_FALSE(row->mixing != nullptr && row->kind != StageKind::kMap) << row->name;
  }
}

// Every type of options belongs to one op, of a stage or joined, and each op has a name and fields.
TEST(StageTableTest, EveryTypeOfOptionsHasOneOp) {
  std::map<size_t, std::set<const OpRow*>> ops;
  for (const StageRow* row : AllRows()) {
    if (row->op == nullptr) continue;
    ops[row->op->index].insert(row->op);
    EXPECT_NE(row->op->fields, nullptr) << row->name;
  }
  for (const auto& [index, rows] : ops) EXPECT_EQ(rows.size(), 1u) << index;
  for (const OpOptions& joined :
       {OpOptions(augment::TargetsOptions()), OpOptions(DecodeRegionOptions()),
        OpOptions(DecodeToCropOptions()), OpOptions(augment::FusedImageOptions())}) {
    EXPECT_TRUE(ops[joined.index()].empty());
    EXPECT_EQ(RowOf(joined).index, joined.index());
    ops[joined.index()].insert(&RowOf(joined));
  }
  EXPECT_EQ(ops.size(), std::variant_size_v<OpOptions>);
}

// The proof of visitation and the number of batches rest on these facts.
TEST(StageTableTest, RowsSayWhichStagesSkipRecordsOrCountByThem) {
  std::vector<std::string> skip, count;
  for (const StageRow* row : AllRows()) {
    proto::Stage stage = Bare(*row);
    if (SkipsRecords(stage)) skip.push_back(row->name);
    if (CountsByRecords(stage)) count.push_back(row->name);
    const FieldDescriptor* const drop =
        OpOf(*row)->message_type()->FindFieldByName("drop_remainder");
    if (drop == nullptr) continue;
    google::protobuf::Message* const op = stage.GetReflection()->MutableMessage(&stage, OpOf(*row));
    op->GetReflection()->SetBool(op, drop, true);
    EXPECT_TRUE(SkipsRecords(stage)) << row->name;
  }
  EXPECT_THAT(skip, UnorderedElementsAre("take", "skip", "shard", "filter", "unbatch", "push",
                                         "concatenate", "mix"));
  EXPECT_THAT(count, UnorderedElementsAre("filter", "unbatch", "bucket_by_length", "push"));
  proto::Stage materialized;
  materialized.mutable_filter()->set_materialize(true);
  EXPECT_TRUE(SkipsRecords(materialized));
  EXPECT_FALSE(CountsByRecords(materialized));
}

TEST(StageTableTest, DefaultsAreFilledInOnce) {
  for (const StageRow* row : AllRows()) {
    proto::Stage once = Bare(*row);
    if (row->fill == nullptr) continue;
    row->fill(&once);
    proto::Stage twice = once;
    row->fill(&twice);
    EXPECT_EQ(once.SerializeAsString(), twice.SerializeAsString()) << row->name;
  }
}

}  // namespace
}  // namespace millrace::pipeline
