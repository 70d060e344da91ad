#include "pipeline/order/resume_token.h"

#include <cinttypes>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxHeadBytes = 4096;  // without the state
constexpr std::string_view kStateMark = " state=";

std::string Differs(std::string_view what, absl::AlphaNum token, absl::AlphaNum here) {
  return absl::StrCat(ToAbsl(what), " (token ", token, ", here ", here, ")");
}

}  // namespace

std::string ResumeToken::ToString() const {
  return absl::StrCat("millrace-state 1 semantics=", semantics_version,
                      " plan=", absl::Hex(plan_fingerprint, absl::kZeroPad16),
                      " data=", absl::Hex(data_fingerprint, absl::kZeroPad16),
                      " batch=", next_batch, state.empty() ? "" : ToAbsl(kStateMark), state);
}

absl::StatusOr<ResumeToken> ResumeToken::Parse(std::string_view text) {
  const std::string_view head = text.substr(0, text.find(kStateMark));
  const std::string line(head.substr(0, kMaxHeadBytes));
  ResumeToken token;
  if (head.size() != text.size()) {
    token.state = text.substr(head.size() + kStateMark.size());
  }
  const int fields = std::sscanf(line.c_str(),
                                 "millrace-state 1 semantics=%10" SCNu32 " plan=%16" SCNx64
                                 " data=%16" SCNx64 " batch=%20" SCNu64,
                                 &token.semantics_version, &token.plan_fingerprint,
                                 &token.data_fingerprint, &token.next_batch);
  // Writing it again proves that nothing was left over, left out or out of range.
  if (fields != 4 || token.ToString() != text) {
    return absl::InvalidArgumentError("the resume token is damaged or is not one of Millrace's");
  }
  return token;
}

absl::Status ResumeToken::CheckSameStream(const ResumeToken& other) const {
  std::string differences;
  const auto add = [&](const std::string& text) {
    absl::StrAppend(&differences, differences.empty() ? "" : ", ", text);
  };
  if (semantics_version != other.semantics_version) {
    add(Differs("semantics_version", semantics_version, other.semantics_version));
  }
  if (plan_fingerprint != other.plan_fingerprint) {
    add(Differs("plan fingerprint", absl::Hex(plan_fingerprint),
                absl::Hex(other.plan_fingerprint)));
  }
  if (data_fingerprint != other.data_fingerprint) {
    add(Differs("data fingerprint", absl::Hex(data_fingerprint),
                absl::Hex(other.data_fingerprint)));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the resume token is of another stream; it differs in: ", differences));
}

}  // namespace millrace::pipeline
