#include "collectives/launcher.h"

#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"

namespace capi = millrace::capi;
namespace collectives = millrace::collectives;

mr_error* mr_detect_launcher(mr_launcher* launcher, mr_sink source, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_detect_launcher", {{"launcher", launcher != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const collectives::Launcher found,
                              collectives::DetectLauncher(collectives::Environment));
    mr_launcher filled = {};
    filled.rank = found.rank;
    filled.world = found.size;
    filled.local_size = found.local_size;
    filled.found = found.kind != collectives::LauncherKind::kNone;
    MILLRACE_RETURN_IF_ERROR(capi::Give(filled, launcher, "mr_launcher"));
    if (source != nullptr) capi::Pour(found.source, source, user);
    return absl::OkStatus();
  });
}
