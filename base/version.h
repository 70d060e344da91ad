#ifndef MILLRACE_BASE_VERSION_H_
#define MILLRACE_BASE_VERSION_H_

#include <string_view>

namespace millrace {

// "0.1.0": the version of the CMake project.
std::string_view Version();

// The abbreviated hash of the commit that the build was configured from, or "unknown" where there
// was no git repository.
std::string_view Commit();

}  // namespace millrace

#endif  // MILLRACE_BASE_VERSION_H_
