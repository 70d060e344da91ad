#ifndef MILLRACE_PIPELINE_ORDER_RESUME_TOKEN_H_
#define MILLRACE_PIPELINE_ORDER_RESUME_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::pipeline {

// A position of the stream and what it is a position of (docs/semantics.md, S-STATE).
struct ResumeToken {
  uint32_t semantics_version = 0;
  uint64_t plan_fingerprint = 0;
  uint64_t data_fingerprint = 0;
  uint64_t next_batch = 0;  // global batches before it are done
  std::string state;        // the settler's state, with a cut, without white space

  // One line of ASCII: "millrace-state 1 semantics=1 plan=<16 hex> data=<16 hex> batch=12", and
  // " state=..." unless that is empty.
  std::string ToString() const;
  //   INVALID_ARGUMENT  not what ToString writes
  static absl::StatusOr<ResumeToken> Parse(std::string_view text);

  // OK, or FAILED_PRECONDITION that names each of semantics_version, plan and data that differs
  // from `other`.
  absl::Status CheckSameStream(const ResumeToken& other) const;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_RESUME_TOKEN_H_
