#include "collectives/peer_lost.h"

#include <array>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace::collectives {
namespace {

constexpr char kPeerLostUrl[] = "type.millrace/peer-lost";

}  // namespace

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kStart:
      return "start";
    case Phase::kReading:
      return "reading";
    case Phase::kBackward:
      return "backward";
    case Phase::kWaiting:
      return "waiting";
    case Phase::kReducing:
      return "reducing";
    case Phase::kExchanging:
      return "exchanging";
    case Phase::kUpdating:
      return "updating";
    case Phase::kEnded:
      return "ended";
  }
  return "unknown";
}

absl::Status PeerLostError(const PeerLost& lost, const std::string& why) {
  std::string text = absl::StrCat("rank ", lost.rank, " is lost");
  if (lost.bucket >= 0) absl::StrAppend(&text, " in bucket ", lost.bucket);
  if (lost.step >= 0)
    absl::StrAppend(&text, lost.bucket >= 0 ? " of step " : " in step ", lost.step);
  absl::StrAppend(&text, " (", Name(lost.phase), "): ", why);
  absl::Status status = absl::UnavailableError(text);
  AddPeerLost(status, lost);
  return status;
}

void AddPeerLost(absl::Status& status, const PeerLost& lost) {
  status.SetPayload(kPeerLostUrl,
                    absl::Cord(absl::StrCat(lost.rank, " ", lost.step, " ", lost.bucket, " ",
                                            static_cast<uint32_t>(lost.phase))));
}

std::optional<PeerLost> PeerLostOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPeerLostUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  std::array<int64_t, 4> values = {};
  if (words.size() != values.size()) return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &values[i])) return std::nullopt;
  }
  return PeerLost{static_cast<int>(values[0]), values[1], static_cast<int>(values[2]),
                  static_cast<Phase>(values[3])};
}

}  // namespace millrace::collectives
