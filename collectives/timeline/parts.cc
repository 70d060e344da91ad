#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/timeline.h"
#include "collectives/timeline/trace_file.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::milliseconds kLook{20};

// A part appears when it is whole.
bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::string TimelinePart::FileOf(int of_rank) const {
  return absl::StrCat(path, ".rank-", of_rank);
}

void TimelinePart::Forget() const { std::remove(FileOf(rank).c_str()); }

absl::Status TimelinePart::Write() const {
  TraceFile file(FileOf(rank));
  file.Begin();
  file.Add(rank, *timeline, offset);
  return file.End();
}

absl::StatusOr<std::vector<int>> TimelinePart::Merge(const std::vector<int>& peers,
                                                     std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  TraceFile file(path);
  file.Begin();
  file.Add(rank, *timeline, offset);
  const auto have_come = [&] {
    return std::ranges::all_of(peers, [this](int peer) { return IsThere(FileOf(peer)); });
  };
  while (file.status().ok() && !have_come() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLook);
  }
  std::vector<int> ranks = {rank};
  for (const int peer : peers) {
    if (IsThere(FileOf(peer)) && file.AddAllOf(FileOf(peer)).ok()) ranks.push_back(peer);
  }
  MILLRACE_RETURN_IF_ERROR(file.End());
  for (const int peer : ranks) std::remove(FileOf(peer).c_str());
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace millrace::collectives
