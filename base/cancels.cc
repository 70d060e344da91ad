#include "base/cancels.h"

namespace millrace {

absl::Status CheckGoesOn(const Cancels& cancels, const char* message) {
  if (!cancels || !cancels()) return absl::OkStatus();
  return absl::CancelledError(message);
}

}  // namespace millrace
