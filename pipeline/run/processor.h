#ifndef MILLRACE_PIPELINE_RUN_PROCESSOR_H_
#define MILLRACE_PIPELINE_RUN_PROCESSOR_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/run.h"
#include "pipeline/plan/physical.h"
#include "pipeline/run/failed_rows.h"
#include "pipeline/run/records.h"
#include "pipeline/run/rows_run.h"
#include "pipeline/run/run_sample.h"
#include "pipeline/stages/window_op.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// The column of a source whose records have bytes.
inline constexpr std::string_view kRecordColumn = "record";

// The memory that a worker needs besides the run. Pooled; owned by one thread at a time.
struct RunScratch {
  RunArena arena;
  std::vector<std::vector<FieldSlots>> slots;  // per op, the places of the fields that it binds
  int64_t reserved_bytes = 0;                  // the bytes of the arena, reserved in the budget
  uint64_t items = 0;                          // the items that were done with it
  RunSample sample;                            // of the run that is to be measured, if one is
};

// Turns the bytes of a run into rows of its batch. Immutable, thread-safe.
class RunProcessor {
 public:
  // Borrows both for its lifetime.
  RunProcessor(const PhysicalPlan& plan, const readers::RecordSource& source);

  RunScratch MakeScratch() const;
  // Adds the source's columns to `run`, over these records: kRecordColumn and perhaps "label", of a
  // range "value", or those of a zip. Rows that could not be read are failed.
  void Load(const RunRecords& records, Run& run) const;
  // Works on a run and stores its rows. Returns the bad ones, ascending. An op that throws makes
  // its row INTERNAL.
  std::vector<BadRow> Process(const RowsRun& work, RunScratch& scratch) const;
  // The phases of a run that RunSample measures: its source, its ops, the storing of its rows.
  size_t num_phases() const { return plan_.ops.size() + 2; }
  // The number of rows that an op wants at least.
  int64_t preferred_rows() const { return preferred_rows_; }
  // True if the plan goes on behind a row with this error.
  bool Tolerates(const absl::Status& error) const;
  // Adds to the error of a row's stage where the record lies and the row's place in the stream.
  absl::Status Locate(const absl::Status& status, const readers::RecordRef& ref,
                      uint64_t position) const;

 private:
  std::optional<std::vector<BadRow>> TryProcess(const RowsRun& work, RunScratch& scratch) const;
  // Adds the source's columns, or those of windows once it has worked on their elements; the other
  // ops follow. False: an op threw in a run of several windows.
  bool LoadRows(const RowsRun& work, RunScratch& scratch, Run& run, FailedRows& failed) const;
  bool LoadWindows(const RowsRun& work, RunScratch& scratch, Run& run, FailedRows& failed) const;
  // Works on elements of windows; false: an op threw in a run of several.
  bool WorkOnElements(const RunRecords& records, Run& elements, RunSample& sample,
                      FailedRows& failed) const;
  // Fails the one window of `work`, whose elements an op does not take together.
  void FailByElement(const RowsRun& work, RunScratch& scratch, Run& run, FailedRows& failed) const;
  readers::RecordRef RefOfElement(const RunRecords& records, size_t element) const;
  void PlaceSlots(const RowsRun& work, RunScratch& scratch) const;
  void LoadZip(const RunRecords& records, Run& run) const;
  void LoadKept(const KeptRows& kept, Run& run) const;
  // Adds the records of a column of `records` as the column `name`.
  void Unframe(const RunRecords& records, int64_t from, std::string_view name, Run& run) const;
  // Adds rows [begin, end) of it, whose bytes were read.
  void UnframeRows(const RunRecords& records, int64_t from, int64_t begin, int64_t end,
                   Column& column, Run& run) const;
  // Adds to the rows of CSV in the column `name` in which cells their columns are, if the source
  // says so of a shard. `shard_of` tells the shard of a row.
  template <typename ShardOf>
  void LoadCells(std::string_view name, const ShardOf& shard_of, Run& run) const;
  // Adds the column "label" of a source whose records have one.
  void LoadLabels(Run& run) const;
  // Adds the column of a range: the records' numbers, where they lie in the rows' ids.
  void LoadNumbers(Run& run) const;
  // The same where several ranges are joined or zipped: each begins at 0 again.
  void LoadJoinedNumbers(const RunRecords& records, int64_t from, std::string_view name,
                         Run& run) const;
  // Adds to an error where its record lies.
  absl::Status At(const absl::Status& status, const readers::RecordRef& ref) const;
  void Store(const RowsRun& work, Run& run) const;
  // The bytes of the run's rows in the slab, but for those of ragged fields.
  int64_t StoredBytes(const RowsRun& work) const;
  void StoreField(const RowsRun& work, size_t field, Run& run) const;
  // Stores all rows of a field at once, if the column lies as the field wants it.
  bool StoreAtOnce(const RowsRun& work, size_t field, const Column& column) const;
  absl::Status Describe(const RowsRun& work, int64_t row, const absl::Status& status,
                        std::string_view stage) const;

  const PhysicalPlan& plan_;
  const readers::RecordSource& source_;
  const WindowOp* window_ = nullptr;  // the op behind those that work on elements of windows
  size_t first_op_ = 0;               // the first op that works on rows
  std::vector<std::vector<size_t>> bound_fields_;  // per op, indices into the batch's schema
  const bool reads_numbers_;                       // true if the source is a range
  int64_t preferred_rows_ = 1;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_PROCESSOR_H_
