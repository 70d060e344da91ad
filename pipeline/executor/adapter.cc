#include "pipeline/executor/adapter.h"

#include <algorithm>
#include <cmath>

namespace millrace::pipeline {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kLookNanoseconds = 20 * kMillisecond;
constexpr int64_t kWindowNanoseconds = 100 * kMillisecond;
constexpr int64_t kHoldNanoseconds = 700 * kMillisecond;
constexpr int64_t kRegretNanoseconds = 2000 * kMillisecond;
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min() / 2;
constexpr double kStarvingLook = 0.1;     // fraction of a look that the consumer waited
constexpr double kStarvingWindow = 0.02;  // the same of a window
constexpr double kBusy = 0.5;             // fraction of their time that threads work when they lack
constexpr double kHeadRoom = 1.5;         // threads per demand
constexpr double kSameDemand = 0.8;       // below this part of a regretted demand it shrinks again

int DoubledUpTo(int limit, int value) { return value > limit / 2 ? limit : 2 * value; }

double Fraction(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Adapter::Adapter(const Goals& limits)
    : limits_{std::max(1, limits.threads), std::max(1, limits.ring)},
      goals_(limits_),
      full_ns_(kLongAgo),
      shrunk_ns_(kLongAgo) {}

Goals Adapter::Update(const Observation& now) {
  if (!begun_) {
    begun_ = true;
    look_ = now;
    BeginWindow(now);
    return goals_;
  }
  least_ready_ = std::min(least_ready_, UnusedBatches(now));
  if (now.ready_batches >= std::max(1, goals_.ring - 1)) {
    full_ = true;
    full_ns_ = now.now_ns;
  }
  if (now.now_ns - look_.now_ns >= kLookNanoseconds) Look(now);
  if (now.now_ns - window_.now_ns >= kWindowNanoseconds) CloseWindow(now);
  return goals_;
}

void Adapter::SetThreadLimit(int threads) {
  const bool grows = threads > limits_.threads;
  limits_.threads = std::max(1, threads);
  goals_.threads = grows ? limits_.threads : std::min(goals_.threads, limits_.threads);
}

void Adapter::Look(const Observation& now) {
  const int64_t elapsed = now.now_ns - look_.now_ns;
  const bool starving =
      Fraction(now.consumer_wait_ns - look_.consumer_wait_ns, elapsed) > kStarvingLook;
  const double busy = Fraction(now.busy_ns - look_.busy_ns, elapsed) / goals_.threads;
  look_ = now;
  if (!starving) return;
  starved_ = true;
  if (busy >= kBusy) Grow(now);
}

void Adapter::CloseWindow(const Observation& now) {
  const int64_t elapsed = now.now_ns - window_.now_ns;
  const double demand = Fraction(now.busy_ns - window_.busy_ns, elapsed);
  const bool starving =
      Fraction(now.consumer_wait_ns - window_.consumer_wait_ns, elapsed) > kStarvingWindow;
  // Otherwise a look has answered already.
  if (starving && !starved_ && demand >= kBusy * goals_.threads) Grow(now);
  history_.push_back({window_.now_ns, demand, least_ready_, full_, starving || starved_});
  BeginWindow(now);
  // A window counts until its beginning is too old, so that one long pause does not count for ever.
  while (history_.size() > 1 && history_[1].begin_ns <= now.now_ns - kHoldNanoseconds) {
    history_.pop_front();
  }
  Shrink(now.now_ns);
}

// At most what a delivery leaves, so that a consumer that pauses does not look as if it needed
// none.
int Adapter::UnusedBatches(const Observation& now) const {
  return std::min(now.ready_batches, goals_.ring - 1);
}

void Adapter::BeginWindow(const Observation& now) {
  window_ = now;
  least_ready_ = UnusedBatches(now);
  full_ = false;
  starved_ = false;
}

void Adapter::Grow(const Observation& now) {
  if (now.now_ns - shrunk_ns_ <= kRegretNanoseconds) {
    regretted_ = goals_;
    regretted_demand_ = shrunk_demand_;
    shrunk_ns_ = kLongAgo;
  }
  goals_.threads = DoubledUpTo(limits_.threads, goals_.threads);
  const bool bursts = now.now_ns - full_ns_ <= kHoldNanoseconds;
  const bool room = now.reserved_bytes <= now.budget_bytes / 10 * 9;
  if (bursts && room) goals_.ring = DoubledUpTo(limits_.ring, goals_.ring);
}

// The goals that would do for the demand and the use of the ring that were seen.
Goals Adapter::Wish(double demand, int least_ready) const {
  const double threads = std::max(1.0, std::ceil(kHeadRoom * demand));
  // Where threads have no head-room, the ring is all there is against a batch that takes long.
  if (threads > goals_.threads) return goals_;
  Goals wish = {static_cast<int>(threads), goals_.ring - std::max(0, least_ready - 1)};
  if (demand >= kSameDemand * regretted_demand_) {
    // Up to twice the threads: a step up soon after a shrink looks like a regret and is none.
    wish.threads = std::max(wish.threads, std::min(regretted_.threads + 1, 2 * wish.threads));
    wish.ring = std::max(wish.ring, regretted_.ring + 1);
  }
  wish = {std::min(wish.threads, goals_.threads), std::min(wish.ring, goals_.ring)};
  // Steps that do not matter are not made: demand is never quite the same twice.
  if (goals_.threads - wish.threads <= goals_.threads / 8) wish.threads = goals_.threads;
  return wish;
}

void Adapter::Shrink(int64_t now_ns) {
  if (now_ns - history_.front().begin_ns < kHoldNanoseconds) return;
  double demand = 0;
  int least_ready = goals_.ring;
  for (const Window& window : history_) {
    if (window.starved || !window.full) return;
    demand = std::max(demand, window.demand);
    least_ready = std::min(least_ready, window.least_ready);
  }
  const Goals wish = Wish(demand, least_ready);
  if (wish == goals_) return;
  // Turns the counts seen with the deeper ring into those that this one would have had.
  for (Window& window : history_) window.least_ready -= goals_.ring - wish.ring;
  goals_ = wish;
  shrunk_ns_ = now_ns;
  shrunk_demand_ = demand;
}

}  // namespace millrace::pipeline
