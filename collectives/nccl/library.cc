#include "base/status.h"
#include "collectives/nccl/api.h"
#include "collectives/nccl_library.h"

namespace millrace::collectives {

absl::StatusOr<NcclLibrary> FindNcclLibrary(const std::string& library) {
  MILLRACE_ASSIGN_OR_RETURN(const auto api, nccl::LoadApi(library));
  return NcclLibrary{.library = api->library,
                     .version = nccl::VersionText(api->version),
                     .can_register = api->can_register()};
}

}  // namespace millrace::collectives
