#include "base/version.h"

// base/CMakeLists.txt defines both for this file alone, so that a commit recompiles nothing else.
#if !defined(MILLRACE_VERSION) || !defined(MILLRACE_COMMIT)
#error "MILLRACE_VERSION and MILLRACE_COMMIT come from base/CMakeLists.txt"
#endif

namespace millrace {

std::string_view Version() { return MILLRACE_VERSION; }
std::string_view Commit() { return MILLRACE_COMMIT; }

}  // namespace millrace
