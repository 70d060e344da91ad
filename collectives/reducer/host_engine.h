#ifndef MILLRACE_COLLECTIVES_REDUCER_HOST_ENGINE_H_
#define MILLRACE_COLLECTIVES_REDUCER_HOST_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "collectives/reducer/host_links.h"
#include "collectives/reducer/private_options.h"
#include "collectives/reducer/reduction_engine.h"

namespace millrace::collectives {

// The common part of the engines whose ranks meet on the boards of their host (RankBoard).
class HostEngine : public ReductionEngine {
 public:
  // `plan` and `links` outlive the engine.
  HostEngine(const BucketPlan& plan, HostLinks& links, const PrivateReducerOptions& options,
             Waiting waiting)
      : ReductionEngine(plan, options, std::move(waiting)), links_(links) {}

  bool has_share() const override { return links_.stripe >= 0; }
  void SetRows(int64_t rows) override;
  absl::Status Publish(uint32_t count) override;
  Totals totals() const override;
  void WakeAll() override;
  void Leave(const absl::Status& departure, bool quiet) override;

 protected:
  // Stripe `stripe`'s share of a bucket: cut at 64 bytes.
  Range ShareOf(size_t bucket, int stripe) const;
  std::chrono::nanoseconds LongestSleep() const;
  // Waits until `flag` of rank `peer` of this host is `count`.
  absl::Status AwaitPeer(int peer, SharedFlag& flag, uint32_t count, Deadline deadline) {
    return AwaitPeer([peer] { return peer; }, flag, count, deadline);
  }
  // The same where `peer` says, again and again, which rank is the one to raise the flag.
  absl::Status AwaitPeer(const std::function<int()>& peer, SharedFlag& flag, uint32_t count,
                         Deadline deadline);
  // OK unless rank `peer` of this host has left without raising `flag` to `count`.
  absl::Status CheckStays(int peer, const SharedFlag& flag, uint32_t count) const;
  // Says that rank `place` of this host is awaited.
  void TellAwaited(size_t bucket, int place);
  // Says that this stripe's rank of another host is awaited.
  void TellHostAwaited(size_t bucket, int host);

  HostLinks& links_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_HOST_ENGINE_H_
