#ifndef MILLRACE_CLI_FLAGS_CHECKS_H_
#define MILLRACE_CLI_FLAGS_CHECKS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Checks of flag values that several commands share.

namespace millrace::cli {

// Parses the values of --var ("NAME=VALUE").
//   INVALID_ARGUMENT  a name is given twice, or a '=' is missing
absl::StatusOr<std::map<std::string, std::string>> ParseVariables(
    const std::vector<std::string>& assignments);

// Checks that shards that are called PREFIX-... stay inside their folder.
//   INVALID_ARGUMENT  `prefix` is not the name of a file
absl::Status CheckPrefix(const std::string& prefix);

// Checks that there is such a rank. Neither number is negative.
//   INVALID_ARGUMENT  `rank` is not below `world`
absl::Status CheckRank(int rank, int world);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_CHECKS_H_
