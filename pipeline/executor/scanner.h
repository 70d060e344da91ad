#ifndef MILLRACE_PIPELINE_EXECUTOR_SCANNER_H_
#define MILLRACE_PIPELINE_EXECUTOR_SCANNER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "pipeline/cut/examiner.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/scan_run.h"
#include "pipeline/run/kept_records.h"
#include "pipeline/run/processor.h"

namespace millrace::pipeline {

// Looks at the records of pass 1, and keeps those that pass 2 may want. Immutable, thread-safe.
class Scanner {
 public:
  // Borrows parts, processor and keeper for its lifetime. REQUIRES: the plan has a cut.
  Scanner(const ExecutorParts& parts, const RunProcessor& processor, RecordKeeper& keeper,
          std::shared_ptr<MemoryBudget> budget);

  const Examiner& examiner() const { return examiner_; }

  // Findings about a run, and the records that they are about.
  struct Findings {
    Examined found;
    std::vector<std::string_view> payloads;  // in the read buffer; empty if they may not be kept
  };
  // An op that throws makes its row an error.
  Findings Examine(const ScanRun& run, RunScratch& scratch) const;
  // Keeps the records that pass 2 may want, and tells a source that grows how often each is used.
  void Keep(ScanRun& run, Findings& findings) const;

 private:
  void TakeKnown(const ScanRun& work, Examined& found) const;
  void ExamineAll(const ScanRun& work, RunScratch& scratch, Examined& found,
                  std::vector<std::string_view>* payloads) const;
  Examined ExamineEach(const ScanRun& work, RunScratch& scratch) const;
  bool MayKeep(const ScanRun& run) const;

  // Constant after construction.
  const ExecutorParts& parts_;
  const RunProcessor& processor_;
  const Examiner examiner_;
  const RankSlice own_lanes_;
  const std::shared_ptr<MemoryBudget> budget_;

  RecordKeeper& keeper_;  // synchronises itself
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_SCANNER_H_
