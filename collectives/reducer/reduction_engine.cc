#include "collectives/reducer/reduction_engine.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/threads/thread_group.h"

namespace millrace::collectives {
namespace {

constexpr size_t kLine = 64;
constexpr std::chrono::microseconds kShortSleep{200};
constexpr std::string_view kBucket = "gradient bucket ";

}  // namespace

absl::Status MetAt(size_t bucket, const absl::Status& failure) {
  if (ToStd(failure.message()).starts_with(kBucket)) return failure;
  return Annotate(failure, absl::StrCat(ToAbsl(kBucket), bucket));
}

float DivisorOf(int64_t rows) { return static_cast<float>(std::max<int64_t>(1, rows)); }

ReductionEngine::ReductionEngine(const BucketPlan& plan, HostLinks& links,
                                 const ReducerOptions& options, Waiting waiting)
    : plan_(plan),
      links_(links),
      options_(options),
      waiting_(std::move(waiting)),
      step_(options.first_step),
      times_(plan),
      accumulator_(plan.counts.size()) {}

absl::Status ReductionEngine::Publish(uint32_t count) {
  SharedHost& host = *links_.host;
  Raise(host.board(host.rank()).published, count);
  MILLRACE_RETURN_IF_ERROR(CheckHealth());
  for (int r = 0; r < host.size(); ++r) {
    MILLRACE_RETURN_IF_ERROR(
        MetAt((count - 1) % plan_.buckets.size(), CheckStays(r, host.board(r).published, count)));
  }
  return absl::OkStatus();
}

// Whoever leaves raises no flag of its own afterwards, so the flag that is read again has the last
// word.
absl::Status ReductionEngine::CheckStays(int peer, const SharedFlag& flag, uint32_t count) const {
  const absl::Status left = links_.host->LeftBecause(peer);
  if (left.ok() || HasReached(flag, count)) return absl::OkStatus();
  return threads::MarkConsequence(left);
}

void ReductionEngine::WakeAll() {
  for (int r = 0; r < links_.host->size(); ++r) Wake(links_.host->board(r).published);
}

// Over MPI a message that no peer awaits any more must not be sent, and quiet peers may be gone.
void ReductionEngine::Leave(const absl::Status& departure, bool quiet) {
  links_.host->Leave(departure);
  if (links_.cross == nullptr || (quiet && links_.cross->backend() == "mpi")) return;
  links_.cross->Leave(departure);
}

ReductionEngine::Range ReductionEngine::ShareOf(size_t bucket, int lane) const {
  const size_t lanes = static_cast<size_t>(links_.groups.num_lanes());
  const auto& [offset, bytes] = Range{plan_.buckets[bucket].offset, plan_.buckets[bucket].bytes};
  const size_t share = (bytes / kLine + lanes - 1) / lanes * kLine;
  const size_t begin = std::min(bytes, share * static_cast<size_t>(lane));
  return {offset + begin, std::min(bytes - begin, share)};
}

std::chrono::nanoseconds ReductionEngine::LongestSleep() const {
  return waiting_.has_others() ? kShortSleep : kLongestSleep;
}

absl::Status ReductionEngine::AwaitPeer(const std::function<int()>& peer, SharedFlag& flag,
                                        uint32_t count, Deadline deadline) {
  absl::Status checked;  // the timeout of another wait may come from here
  const auto check = [&]() -> absl::Status {
    checked = CheckHealth();
    if (checked.ok()) checked = CheckStays(peer(), flag, count);
    return checked;
  };
  const absl::Status status = AwaitFlag(flag, count, deadline, check, LongestSleep());
  if (!checked.ok() || !absl::IsDeadlineExceeded(status)) return status;
  return Annotate(status, absl::StrCat("waiting for rank ", peer(), " of this host"));
}

absl::Status ReductionEngine::CheckHealth() const {
  MILLRACE_RETURN_IF_ERROR(waiting_.stopped());
  return options_.progress != nullptr ? options_.progress->Health() : absl::OkStatus();
}

void ReductionEngine::Enter(size_t bucket, Phase phase) {
  place_ = {.step = step_, .bucket = static_cast<int>(bucket), .phase = phase};
  if (options_.progress != nullptr) {
    options_.progress->Enter(step_, static_cast<int>(bucket), phase);
  }
}

void ReductionEngine::TellAwaited(size_t bucket, int place) {
  if (options_.progress != nullptr) {
    options_.progress->Awaits(step_, static_cast<int>(bucket), links_.ranks[place]);
  }
}

void ReductionEngine::TellHostAwaited(size_t bucket, int host) {
  if (options_.progress == nullptr) return;
  const int rank = links_.groups.RanksOf(host)[links_.lane];
  options_.progress->Awaits(step_, static_cast<int>(bucket), rank);
}

}  // namespace millrace::collectives
