#ifndef MILLRACE_TESTS_PIPELINE_BATCH_BATCH_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_BATCH_BATCH_FIXTURE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "pipeline/batch.h"
#include "pipeline/batch/data.h"
#include "pipeline/batch/row_store.h"
#include "pipeline/cut/settler.h"
#include "pipeline/plan/physical.h"

// Batches made by hand, as pass 2 makes them: laid out for rows that were told by pass 1, filled
// row by row.

namespace millrace::pipeline {

// A field's value of one row, of int32 elements unless its field says bytes.
struct Value {
  Shape shape;
  std::vector<int32_t> elements;
};

inline Value Counting(const Shape& shape, int32_t first = 1) {
  Value value{shape, {}};
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    value.elements.push_back(first + static_cast<int32_t>(i));
  }
  return value;
}

// A plan whose batches hold `fields`; those of unknown extents are told by pass 1.
inline PhysicalPlan BatchPlan(BatchSpec::Kind kind, std::vector<Field> fields) {
  PhysicalPlan plan;
  plan.batch.kind = kind;
  plan.batch.stage = "batch";
  plan.cut.emplace();
  for (Field& field : fields) {
    if (!field.shape.IsKnown()) plan.cut->extents_of.push_back(field.name);
    plan.batch_schema.Set(std::move(field));
  }
  return plan;
}

// A row of a batch: its slot and a value for each field.
struct HandRow {
  int64_t slot = 0;
  std::vector<Value> values;
};

inline ClosedBatch Closed(const PhysicalPlan& plan, int64_t num_slots,
                          const std::vector<HandRow>& rows) {
  ClosedBatch closed;
  closed.num_slots = num_slots;
  const std::vector<Field>& fields = plan.batch_schema.fields();
  for (const HandRow& row : rows) {
    ClosedBatch::Row placed;
    placed.slot = row.slot;
    closed.rows.push_back(placed);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].shape.IsKnown()) continue;
      const auto extents = row.values[i].shape.extents();
      closed.extents.insert(closed.extents.end(), extents.begin(), extents.end());
    }
  }
  return closed;
}

inline ConstTensorView View(const Value& value, DType dtype) {
  return {value.elements.data(), dtype, value.shape};
}

// The batch, on a slab that was full of 0xEE.
inline std::shared_ptr<BatchData> MakeBatch(const PhysicalPlan& plan, int64_t num_slots,
                                            const std::vector<HandRow>& rows) {
  auto layout = MakeClosedLayout(plan, Closed(plan, num_slots, rows));
  EXPECT_TRUE(layout.ok()) << layout.status();
  if (!layout.ok()) return nullptr;
  const auto budget = std::make_shared<MemoryBudget>(1 << 20, std::make_shared<Metrics>());
  auto data = std::make_shared<BatchData>(
      std::make_shared<const BatchLayout>(*std::move(layout)),
      std::make_shared<SlabPool>(MakePageableAllocator(), budget, 0), budget);
  data->slab = *data->pool->Take(data->layout->slab_bytes);
  std::memset(data->slab, 0xEE, data->layout->slab_bytes);
  std::memset(data->valid(), 0, static_cast<size_t>(num_slots));
  for (const HandRow& row : rows) {
    data->valid()[row.slot] = 1;
    data->ids()[row.slot] = {0, static_cast<uint64_t>(row.values[0].elements.size()), 0};
  }
  ClearPadding(*data);
  const std::vector<Field>& fields = plan.batch_schema.fields();
  for (const HandRow& row : rows) {
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto at = static_cast<size_t>(std::ranges::find(data->layout->names, fields[i].name) -
                                          data->layout->names.begin());
      if (data->layout->store(at) == RowStore::kDense) continue;
      const absl::Status stored =
          StoreRow(*data, at, row.slot, View(row.values[i], fields[i].dtype));
      EXPECT_TRUE(stored.ok()) << stored;
    }
  }
  data->num_valid_rows = static_cast<int64_t>(rows.size());
  return data;
}

inline std::vector<int32_t> Int32s(const ConstTensorView& view) {
  const auto span = view.as<int32_t>();
  return {span.begin(), span.end()};
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_BATCH_BATCH_FIXTURE_H_
