#include "trainer/ranks/report_failure.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {

absl::Status ReportFailure(const std::function<void(const absl::Status& status)>& report,
                           const collectives::Communicator& communicator, absl::Status status) {
  const bool agreed = IsAgreed(status);
  const std::string here = absl::StrCat("rank ", communicator.rank());
  // Some errors of communicators say it themselves.
  const bool says_where = absl::StartsWith(status.message(), absl::StrCat(here, ": "));
  if (!agreed && !says_where) status = Annotate(status, here);
  // CANCELLED: a peer aborted the group, after it reported the reason.
  const bool mine = agreed ? communicator.rank() == 0 : !absl::IsCancelled(status);
  if (mine && report) {
    (void)WithoutExceptions([&] {
      report(status);
      return absl::OkStatus();
    });
  }
  return status;
}

}  // namespace millrace::trainer
