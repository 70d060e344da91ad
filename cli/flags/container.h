#ifndef MILLRACE_CLI_FLAGS_CONTAINER_H_
#define MILLRACE_CLI_FLAGS_CONTAINER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/flags/command_line.h"
#include "readers/container.h"

namespace millrace::cli {

// What --container and the flags that go with it say.
struct ContainerFlags {
  std::string word;  // empty: the files' names tell
  uint64_t record_bytes = 0;
  uint64_t header_bytes = 0;
  uint64_t footer_bytes = 0;
  bool has_header = false;
  std::optional<std::string> delimiter;

  // Nullopt: the files' names tell.
  //   INVALID_ARGUMENT  flags that do not go together
  absl::StatusOr<std::optional<readers::ContainerOptions>> Options() const;
};

// What --delimiter says: one byte, "\t" for a tab.
//   INVALID_ARGUMENT  it is not one byte, or a quote or a line end
absl::StatusOr<char> ParseDelimiter(const std::string& word);

// Adds the flags. `flags` must live until the command line was parsed.
void AddContainerFlags(Command command, ContainerFlags& flags);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_CONTAINER_H_
