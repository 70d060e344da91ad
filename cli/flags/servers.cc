#include "cli/flags/servers.h"

#include <limits>
#include <string>

namespace millrace::cli {

void AddServerFlags(Command command, std::vector<trainer::FieldValue>& given) {
  const auto add = [&](const std::string& flag, const std::string& field,
                       const std::string& about) {
    return command.AddWord(
        flag,
        [&given, field](const std::string& value) {
          given.push_back({field, value});
        },
        about);
  };
  constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();
  add("--servers", "servers",
      "Train on parameter servers: so many of the ranks, the last ones (TF_CONFIG: its ps tasks)")
      .Whole(1, kMost32);
  add("--max-staleness", "max_staleness",
      "With servers: drop gradients of weights that were updated more often since")
      .Whole(0, kMost32);
  command.AddSwitch(
      "--synchronous",
      [&given](bool value) {
        given.push_back({"synchronous", value ? "true" : "false"});
      },
      "With servers: each update waits for the gradients of all workers");
  add("--backup-workers", "backup_workers", "With --synchronous: workers for which no update waits")
      .Whole(0, kMost32);
}

}  // namespace millrace::cli
