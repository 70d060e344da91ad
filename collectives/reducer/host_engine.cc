#include "collectives/reducer/host_engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/threads/thread_group.h"

namespace millrace::collectives {
namespace {

constexpr size_t kLine = 64;
constexpr std::chrono::microseconds kShortSleep{200};

}  // namespace

void HostEngine::SetRows(int64_t rows) { links_.host->board(links_.host->rank()).rows = rows; }

// Of numbers that are equal on all ranks: each stripe has summed the squares of its own shares.
ReductionEngine::Totals HostEngine::totals() const {
  Totals totals;
  for (int stripe = 0; stripe < links_.groups.num_stripes(); ++stripe) {
    totals.squares += links_.host->board(stripe).sum_of_squares;
  }
  totals.rows = links_.host->board(0).all_rows;
  return totals;
}

absl::Status HostEngine::Publish(uint32_t count) {
  SharedHost& host = *links_.host;
  Raise(host.board(host.rank()).published, count);
  MILLRACE_RETURN_IF_ERROR(CheckHealth());
  for (int r = 0; r < host.size(); ++r) {
    MILLRACE_RETURN_IF_ERROR(
        MetAt((count - 1) % plan_.buckets.size(), CheckStays(r, host.board(r).published, count)));
  }
  return absl::OkStatus();
}

// A rank that leaves raises no flag of its own afterwards, so the flag that is read again has the
// last word.
absl::Status HostEngine::CheckStays(int peer, const SharedFlag& flag, uint32_t count) const {
  const absl::Status left = links_.host->LeftBecause(peer);
  if (left.ok() || HasReached(flag, count)) return absl::OkStatus();
  return threads::MarkConsequence(left);
}

void HostEngine::WakeAll() {
  for (int r = 0; r < links_.host->size(); ++r) Wake(links_.host->board(r).published);
}

// Quiet peers may be gone.
void HostEngine::Leave(const absl::Status& departure, bool quiet) {
  links_.host->Leave(departure);
  if (links_.cross == nullptr) return;
  if (quiet && !links_.cross->capabilities().drops_unawaited) return;
  links_.cross->Leave(departure);
}

ReductionEngine::Range HostEngine::ShareOf(size_t bucket, int stripe) const {
  const size_t stripes = static_cast<size_t>(links_.groups.num_stripes());
  const auto& [offset, bytes] = Range{plan_.buckets[bucket].offset, plan_.buckets[bucket].bytes};
  const size_t share = (bytes / kLine + stripes - 1) / stripes * kLine;
  const size_t begin = std::min(bytes, share * static_cast<size_t>(stripe));
  return {offset + begin, std::min(bytes - begin, share)};
}

std::chrono::nanoseconds HostEngine::LongestSleep() const {
  return waiting_.has_others() ? kShortSleep : kLongestSleep;
}

absl::Status HostEngine::AwaitPeer(const std::function<int()>& peer, SharedFlag& flag,
                                   uint32_t count, Deadline deadline) {
  absl::Status checked;  // the timeout of another wait may come from here
  const auto check = [&]() -> absl::Status {
    checked = CheckHealth();
    if (checked.ok()) checked = CheckStays(peer(), flag, count);
    return checked;
  };
  const absl::Status status =
      AwaitFlag(flag, count, deadline, check, LongestSleep(), waiting_.clock);
  if (!checked.ok() || !absl::IsDeadlineExceeded(status)) return status;
  return Annotate(status, absl::StrCat("waiting for rank ", peer(), " of this host"));
}

void HostEngine::TellAwaited(size_t bucket, int place) {
  if (options_.progress != nullptr) {
    options_.progress->Awaits(step_, static_cast<int>(bucket), links_.ranks[place]);
  }
}

void HostEngine::TellHostAwaited(size_t bucket, int host) {
  if (options_.progress == nullptr) return;
  const int rank = links_.groups.RanksOf(host)[links_.stripe];
  options_.progress->Awaits(step_, static_cast<int>(bucket), rank);
}

}  // namespace millrace::collectives
