#include "collectives/net/peer_check.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{100};

struct Way {
  std::string address;
  absl::Status failure;
  bool open = true;  // worth a try
};

// The next of `turns` that have to fit in.
Deadline EndOfTurn(const PeerCheckLimits& limits, size_t turns) {
  const steady_clock::duration left = limits.deadline - steady_clock::now();
  return std::min(limits.deadline, After(std::min<std::chrono::nanoseconds>(
                                       limits.each, left / static_cast<int64_t>(turns))));
}

absl::StatusOr<Socket> Try(Way& way, Deadline connected, Deadline answered,
                           const Introduction& introduce) {
  absl::StatusOr<Socket> socket = Connect(way.address, connected);
  way.failure = socket.ok() ? introduce(*socket, answered) : socket.status();
  way.open = socket.ok() && !absl::IsFailedPrecondition(way.failure);
  if (!way.failure.ok()) return way.failure;
  return socket;
}

size_t CountOpen(const std::vector<Way>& ways) {
  return static_cast<size_t>(
      std::count_if(ways.begin(), ways.end(), [](const Way& way) { return way.open; }));
}

absl::Status Unreached(const std::vector<Way>& ways) {
  std::vector<std::string> texts;
  for (const Way& way : ways) {
    const std::string address = AddressText(way.address);
    const bool named = absl::StartsWith(way.failure.message(), address);
    texts.push_back(absl::StrCat(named ? "" : address + ": ", way.failure.message()));
  }
  return absl::UnavailableError(absl::StrJoin(texts, "; "));
}

}  // namespace

absl::StatusOr<Socket> ConnectChecked(const std::vector<std::string>& addresses,
                                      const PeerCheckLimits& limits,
                                      const Introduction& introduce) {
  std::vector<Way> ways;
  for (const std::string& address : addresses) {
    ways.push_back({address, absl::OkStatus()});
  }
  while (true) {
    size_t turns = CountOpen(ways);
    const bool alone = turns == 1;
    for (Way& way : ways) {
      if (!way.open) continue;
      const Deadline end = EndOfTurn(limits, turns--);
      absl::StatusOr<Socket> socket = Try(way, end, alone ? limits.deadline : end, introduce);
      if (socket.ok()) return socket;
    }
    const bool late = steady_clock::now() + kPause >= limits.deadline;
    if (late || CountOpen(ways) == 0) return Unreached(ways);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace millrace::collectives
