#ifndef MILLRACE_CLI_DOCTOR_LIBRARY_PLACES_H_
#define MILLRACE_CLI_DOCTOR_LIBRARY_PLACES_H_

#include <functional>
#include <string>
#include <vector>

namespace millrace::cli::doctor {

// Returns the value of a variable of the environment; empty: it is not set.
using Variables = std::function<std::string(const char* name)>;

// The folders in which Python's packages may lie: of the active environment (VIRTUAL_ENV,
// CONDA_PREFIX), of the user, and of the system below `root`. Some may not be there.
std::vector<std::string> PackageFolders(const std::string& root, const Variables& variables);

// The files of that name where NVIDIA's wheels, PyTorch's wheel and CUDA's packages have it, the
// first that a program would be given first. `name` has no wildcard.
std::vector<std::string> PlacesOf(const std::string& name, const std::string& root,
                                  const Variables& variables);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_LIBRARY_PLACES_H_
