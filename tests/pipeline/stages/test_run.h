#ifndef MILLRACE_TESTS_PIPELINE_STAGES_TEST_RUN_H_
#define MILLRACE_TESTS_PIPELINE_STAGES_TEST_RUN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/run.h"
#include "base/schema.h"

namespace millrace::pipeline {

inline Schema RecordSchema() { return Schema({{"record", DType::kBytes, {Shape::kUnknown}}}); }

// A run whose records are `payloads`.
class TestRun {
 public:
  explicit TestRun(std::vector<std::string> payloads)
      : payloads_(std::move(payloads)), run_(arena_, 7, 100, Ids(payloads_.size())) {
    Column& column = run_.Add("record", DType::kBytes);
    for (size_t i = 0; i < payloads_.size(); ++i) {
      column.Set(static_cast<int64_t>(i), payloads_[i].data(),
                 {static_cast<int64_t>(payloads_[i].size())});
    }
  }
  Run& operator*() { return run_; }
  Run* operator->() { return &run_; }

 private:
  static std::vector<SampleId> Ids(size_t count) {
    std::vector<SampleId> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = {.epoch = 1, .record = i + 40, .sub_index = 0};
    return ids;
  }
  const std::vector<std::string> payloads_;
  RunArena arena_;
  Run run_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_STAGES_TEST_RUN_H_
