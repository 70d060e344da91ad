#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_OWN_PROCESS_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_OWN_PROCESS_H_

#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {

// Runs the one disabled case `test` of this program in a process of its own, with `environment`
// ("A=1 B=2") on top of ours, but for the shard that this process is. Replaces `output` by what the
// case writes, and returns whether it ended with 0. So it does when there is no such case: look for
// what only the case writes.
inline bool RunInOwnProcess(const std::string& test, const std::string& environment,
                            std::string& output) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      absl::StrCat("env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX ", environment, " '", program,
                   "' --gtest_also_run_disabled_tests --gtest_filter='", test, "'");
  output.clear();
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, size);
  }
  return pclose(pipe) == 0;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_OWN_PROCESS_H_
