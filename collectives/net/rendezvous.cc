#include "collectives/rendezvous.h"

#include <algorithm>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "collectives/net/rendezvous.h"

namespace millrace::collectives {
namespace {

constexpr size_t kMaxNamed = 16;
constexpr std::chrono::milliseconds kLook{50};

struct Place {
  std::string folder;  // empty: at `server`
  HostPort server;
};

absl::StatusOr<Place> Parse(std::string_view address) {
  Place place;
  absl::string_view text = ToAbsl(address);
  if (absl::ConsumePrefix(&text, "file:") || absl::StartsWith(text, "/")) {
    if (absl::StartsWith(text, "//")) text.remove_prefix(2);  // file:///folder
    if (text.empty()) return absl::InvalidArgumentError("rendezvous 'file:' names no folder");
    place.folder = std::string(text);
    return place;
  }
  absl::ConsumePrefix(&text, "tcp:");
  absl::ConsumePrefix(&text, "//");
  absl::StatusOr<HostPort> server = ParseHostPort(ToStd(text));
  if (!server.ok()) return Annotate(server.status(), "rendezvous");
  place.server = *std::move(server);
  return place;
}

}  // namespace

absl::Status CheckRendezvousAddress(std::string_view address) { return Parse(address).status(); }

absl::Status NeverCame(const RendezvousOptions& options, std::chrono::nanoseconds waited,
                       const std::vector<MissingRank>& missing) {
  std::string text =
      absl::StrCat("rendezvous ", options.address, ": ", missing.size(), " of ", options.size,
                   " ranks never came within ",
                   std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(), " ms:");
  for (size_t i = 0; i < std::min(missing.size(), kMaxNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? " rank " : ", rank ", missing[i].rank);
    if (!missing[i].reason.empty()) absl::StrAppend(&text, " (", missing[i].reason, ")");
  }
  if (missing.size() > kMaxNamed)
    absl::StrAppend(&text, " and ", missing.size() - kMaxNamed, " more");
  return absl::DeadlineExceededError(text);
}

absl::Status AskWatch(const RendezvousOptions& options) {
  return options.watch ? options.watch() : absl::OkStatus();
}

Deadline NextLook(const RendezvousOptions& options, Deadline deadline) {
  return options.watch ? std::min(deadline, After(kLook)) : deadline;
}

absl::Status SleepWatched(const RendezvousOptions& options, std::chrono::milliseconds time) {
  const Deadline end = After(time);
  while (std::chrono::steady_clock::now() < end) {
    MILLRACE_RETURN_IF_ERROR(AskWatch(options));
    std::this_thread::sleep_until(NextLook(options, end));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RunRendezvous(const RendezvousOptions& options,
                                                       std::string_view own) {
  return RunRendezvousWith(options, own, RendezvousWaits());
}

absl::StatusOr<std::vector<std::string>> RunRendezvousWith(const RendezvousOptions& options,
                                                           std::string_view own,
                                                           const RendezvousWaits& waits) {
  const bool alone = options.size == 1 && options.rank == 0;
  if (alone && options.address.empty()) return std::vector<std::string>{std::string(own)};
  MILLRACE_ASSIGN_OR_RETURN(const Place place, Parse(options.address));
  const bool fits = options.size >= 1 && options.size <= kMaxRendezvousRanks && options.rank >= 0 &&
                    options.rank < options.size;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous of rank ", options.rank, " of ",
                                                   options.size, ": there are 1 to ",
                                                   kMaxRendezvousRanks, " ranks"));
  }
  if (options.job_id.size() > kMaxJobIdBytes || own.size() > kMaxRendezvousBytes) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: a job id of ",
                                                   options.job_id.size(), " or data of ",
                                                   own.size(), " bytes is too long"));
  }
  if (alone) return std::vector<std::string>{std::string(own)};
  return place.folder.empty() ? RendezvousAtServer(options, place.server, own, waits)
                              : RendezvousInFolder(options, place.folder, own, waits);
}

}  // namespace millrace::collectives
