#ifndef MILLRACE_PIPELINE_STAGES_WINDOW_OP_H_
#define MILLRACE_PIPELINE_STAGES_WINDOW_OP_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"
#include "base/run.h"

namespace millrace::pipeline {

// The stage `window` in the list of ops: ops in front of it work on a run of elements, ops behind
// it on a run of windows. So it is applied to no run; GroupElements makes one of the other.
class WindowOp final : public Op {
 public:
  // REQUIRES: size > 0.
  explicit WindowOp(int64_t size) : size_(size) {}

  // Gives every field a first extent of the window's size.
  //   INVALID_ARGUMENT  a field is bytes, differs in shape from sample to sample, or has too many
  //                     extents
  absl::StatusOr<Schema> Resolve(const Schema& input) override;
  void Apply(Run&) const override {}

  int64_t size() const { return size_; }
  // Adds the fields of windows to `windows`: element i of row r is row at[r * size() + i] of
  // `elements`. Rows with a bad element get nothing. REQUIRES: Resolve; at.size() is size() times
  // the number of windows.
  void GroupElements(const Run& elements, std::span<const uint32_t> at, Run& windows) const;

 private:
  const int64_t size_;
  std::vector<Field> fields_;  // of windows
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_WINDOW_OP_H_
