#ifndef MILLRACE_COLLECTIVES_NCCL_LIBRARY_H_
#define MILLRACE_COLLECTIVES_NCCL_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace millrace::collectives {

// The NCCL that MakeNccl takes (nccl_communicator.h).
struct NcclLibrary {
  std::string library = {};  // the file, as it was loaded
  std::string version = {};  // "2.28.9"
  bool can_register = true;  // true if it registers memory, which a reducer on devices needs
};

// Loads `library`; if that is empty, the file that MILLRACE_NCCL_LIBRARY names; if that is empty
// too, libnccl.so.2 as the dynamic linker finds it. No device is needed.
//   FAILED_PRECONDITION  no such library, an unsupported version, or a missing function
absl::StatusOr<NcclLibrary> FindNcclLibrary(const std::string& library = "");

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NCCL_LIBRARY_H_
