#include "trainer/ranks/core_shares.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/affinity.h"
#include "base/status.h"
#include "collectives/gather_texts.h"

namespace millrace::trainer {
namespace {

bool Overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&b](int i) { return std::ranges::find(b, i) != b.end(); });
}

std::string HostName() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

std::vector<std::vector<int>> ShareCores(std::span<const ProcessCores> processes, size_t own,
                                         int replicas) {
  const std::vector<int>& mine = processes[own].processors;
  size_t sharing = 0;  // processes with my processors, this one too
  size_t before = 0;   // those of them with lower ranks
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].host != processes[own].host) continue;
    if (processes[i].processors == mine) {
      ++sharing;
      if (i < own) ++before;
    } else if (Overlap(processes[i].processors, mine)) {
      return {};
    }
  }
  const size_t parts = sharing * static_cast<size_t>(replicas);
  if (mine.size() < parts) return {};
  std::vector<std::vector<int>> shares;
  for (int replica = 0; replica < replicas; ++replica) {
    const size_t part = before * static_cast<size_t>(replicas) + static_cast<size_t>(replica);
    shares.emplace_back(mine.begin() + static_cast<int64_t>(part * mine.size() / parts),
                        mine.begin() + static_cast<int64_t>((part + 1) * mine.size() / parts));
  }
  return shares;
}

// A process tells "HOST/0,2,4".
absl::StatusOr<std::vector<ProcessCores>> GatherCores(collectives::Communicator& processes) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      collectives::GatherTexts(
          processes, absl::StrCat(HostName(), "/", absl::StrJoin(UsableProcessors(), ","))));
  std::vector<ProcessCores> cores;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> told = absl::StrSplit(text, absl::MaxSplits('/', 1));
    ProcessCores& of = cores.emplace_back();
    of.host = told.first;
    for (const absl::string_view number : absl::StrSplit(told.second, ',', absl::SkipEmpty())) {
      int processor = 0;
      if (absl::SimpleAtoi(number, &processor)) of.processors.push_back(processor);
    }
  }
  return cores;
}

}  // namespace millrace::trainer
