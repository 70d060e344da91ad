#include "collectives/agreed.h"

#include <utility>

#include "absl/strings/cord.h"

namespace millrace::collectives {
namespace {

constexpr char kAgreedUrl[] = "type.millrace/agreed-by-all-ranks";

}  // namespace

absl::Status MarkAgreed(absl::Status status) {
  status.SetPayload(kAgreedUrl, absl::Cord());
  return status;
}

bool IsAgreed(const absl::Status& status) { return status.GetPayload(kAgreedUrl).has_value(); }

}  // namespace millrace::collectives
