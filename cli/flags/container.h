#ifndef MILLRACE_CLI_FLAGS_CONTAINER_H_
#define MILLRACE_CLI_FLAGS_CONTAINER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/flags/command_line.h"
#include "readers/container.h"

namespace millrace::cli {

// The values of --container and the flags that go with it.
struct ContainerFlags {
  std::string word;  // empty: chosen by the files' names
  uint64_t record_bytes = 0;
  uint64_t header_bytes = 0;
  uint64_t footer_bytes = 0;
  bool has_header = false;  // true if the first row names the columns
  std::optional<std::string> delimiter;

  // For `files` (patterns too); nullopt: chosen by their names. --header and --delimiter do without
  // --container where all names tell csv.
  //   INVALID_ARGUMENT  flags contradict each other
  absl::StatusOr<std::optional<readers::ContainerOptions>> Options(
      const std::vector<std::string>& files) const;
};

// Adds the flags. `flags` must live until the command line was parsed.
void AddContainerFlags(Command command, ContainerFlags& flags);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_CONTAINER_H_
