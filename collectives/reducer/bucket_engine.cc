// The hand-over of a bucket between the ranks of a host takes two counters per rank, `published`
// and `done`. A rank's copy is its own until it has published the bucket; then each rank writes to
// its share of all copies, and raises `done`; when all have, all of the step, the copies are their
// owners' again. No element is written by two, and each is summed once, by one rank, in rank order.
// Small shares of a step's last bucket are summed by the rank that claims them first: a rank that
// is there takes those of the ranks that are not.

#include "collectives/reducer/bucket_engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/status.h"
#include "collectives/core/reduce.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::microseconds kShortSleep{200};
// A share that takes about as long to sum as a peer takes to wake up.
constexpr size_t kMaxSharedBytes = 1 << 20;

// By the numbers of the group that these are operations of; -1: none is known.
int AwaitedPeer(const std::vector<std::unique_ptr<Pending>>& operations) {
  for (const auto& operation : operations) {
    if (const int peer = operation->AwaitedPeer(); peer >= 0) return peer;
  }
  return -1;
}

}  // namespace

BucketEngine::BucketEngine(const BucketPlan& plan, HostLinks& links,
                           const PrivateReducerOptions& options, Waiting waiting)
    : HostEngine(plan, links, options, std::move(waiting)),
      wired_(plan.buckets.size()),
      backward_took_(plan.buckets.size()) {
  for (size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
    shares_.push_back(ShareOf(bucket, std::max(0, links_.stripe)));
  }
  if (options_.exact && links_.cross != nullptr) {
    exact_ = std::make_unique<ExactExchange>(*links_.cross, links_.groups, *links_.host);
  }
}

absl::Status BucketEngine::Poll(bool counts) {
  if (!has_share()) return absl::OkStatus();
  bool moved = true;
  while (moved) {
    moved = false;
    while (CanBegin()) {
      const int64_t start = StepTimes::Now();
      Begin(begun_);
      if (counts) times_.Polled(begun_, StepTimes::Now() - start);
      ++begun_;
      moved = true;
    }
    if (exchanges_.empty()) continue;
    const int64_t start = StepTimes::Now();
    const size_t bucket = exchanges_.front().bucket;
    MILLRACE_ASSIGN_OR_RETURN(const bool ended, EndFirstExchange(/*poll=*/true));
    if (counts) times_.Polled(bucket, StepTimes::Now() - start);
    moved = moved || ended;
  }
  return absl::OkStatus();
}

absl::Status BucketEngine::Drain() {
  while (has_share() && (begun_ < plan_.buckets.size() || !exchanges_.empty())) {
    if (CanBegin()) {
      Begin(begun_++);
    } else if (!exchanges_.empty()) {
      MILLRACE_RETURN_IF_ERROR(EndFirstExchange(/*poll=*/false).status());
    } else {
      MILLRACE_RETURN_IF_ERROR(AwaitPublished(begun_));
    }
  }
  return EndStep();
}

// Beside backward nobody waits for the sums of a bucket, so that the caller, who pays for it, need
// not wake this thread. The caller itself reduces the buckets that are left at backward's end.
absl::Status BucketEngine::Follow() {
  if (links_.cross != nullptr) {
    follows_ = true;
    return Drain();
  }
  SharedHost& host = *links_.host;
  RankBoard& own = host.board(host.rank());
  const uint32_t done = own.done.count.load(std::memory_order_acquire);
  int64_t& taken = backward_took_[done % backward_took_.size()];
  const int64_t start = StepTimes::Now();
  MILLRACE_RETURN_IF_ERROR(
      DozeUntil(own.published, done + 1, std::chrono::nanoseconds(taken), waiting_.stopped));
  const int64_t took = StepTimes::Now() - start;
  taken = taken == 0 ? took : std::min(took, taken + taken / 8);  // a pause comes but once
  TellWaiting(done);
  for (int r = 0; r < host.size(); ++r) {
    MILLRACE_RETURN_IF_ERROR(DozeUntil(host.board(r).published, done + 1, {}, waiting_.stopped));
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t begun, ReduceWhatIsFull());
  // The last share may be with a peer, who may be lost with it.
  return DozeUntil(own.done, begun, {}, waiting_.stopped);
}

absl::StatusOr<uint32_t> BucketEngine::ReduceWhatIsFull() {
  MutexLock lock(turn_);
  const size_t begun = begun_;
  MILLRACE_RETURN_IF_ERROR(Poll(/*counts=*/false));
  const bool awaits_more = begun_ > begun && begun_ < plan_.buckets.size();
  if (awaits_more) Enter(begun_, Phase::kBackward);
  return base_ + static_cast<uint32_t>(begun_);
}

// As long as it looks as if it computed, a watchdog may blame it for what its peers wait for.
void BucketEngine::TellWaiting(uint32_t count) {
  MutexLock lock(turn_);
  const bool is_next = base_ + static_cast<uint32_t>(begun_) == count;
  if (is_next && begun_ < plan_.buckets.size() && !ArePublished(begun_)) {
    Enter(begun_, Phase::kWaiting);
  }
}

// Between hosts the thread says what holds it up: each of its waits has a timeout of its own, and a
// step has many.
absl::Status BucketEngine::AwaitDone(uint32_t base) {
  if (links_.cross != nullptr) return AwaitStripes(base, {}, /*tells=*/false);
  MutexLock lock(turn_);
  return Drain();
}

absl::Status BucketEngine::AwaitStripes(uint32_t base, std::chrono::nanoseconds timeout,
                                        bool tells) {
  const auto count = base + static_cast<uint32_t>(plan_.buckets.size());
  for (int stripe = 0; stripe < links_.groups.num_stripes(); ++stripe) {
    SharedFlag& done = links_.host->board(stripe).done;
    int told = -1;
    const auto summer = [&] {
      const int peer = SummerOf(stripe, count);
      if (tells && peer != told) TellAwaited(plan_.buckets.size() - 1, peer);
      told = peer;
      return peer;
    };
    for (uint32_t next = base + 1; next != count + 1; ++next) {
      if (HasReached(done, next)) continue;
      (void)summer();  // what is awaited for a moment is told too
      MILLRACE_RETURN_IF_ERROR(AwaitPeer(summer, done, next, DeadlineOf(timeout)));
    }
  }
  return absl::OkStatus();
}

bool BucketEngine::AreDone(uint32_t base, int but) const {
  const auto count = base + static_cast<uint32_t>(plan_.buckets.size());
  for (int stripe = 0; stripe < links_.groups.num_stripes(); ++stripe) {
    if (stripe != but && !HasReached(links_.host->board(stripe).done, count)) return false;
  }
  return true;
}

bool BucketEngine::ArePublished(size_t bucket) const {
  const auto count = base_ + static_cast<uint32_t>(bucket) + 1;
  for (int r = 0; r < links_.host->size(); ++r) {
    if (!HasReached(links_.host->board(r).published, count)) return false;
  }
  return true;
}

// The own gradients first: how long backward takes is nobody's fault. That a step begins is the
// caller's to say, who may be between two.
absl::Status BucketEngine::AwaitPublished(size_t bucket) {
  SharedHost& host = *links_.host;
  const auto count = base_ + static_cast<uint32_t>(bucket) + 1;
  SharedFlag& own = host.board(host.rank()).published;
  if (!HasReached(own, count)) {
    if (bucket > 0) Enter(bucket, Phase::kBackward);
    MILLRACE_RETURN_IF_ERROR(AwaitFlag(own, count, Deadline::max(), waiting_.stopped));
  }
  Enter(bucket, Phase::kWaiting);
  const Deadline deadline = DeadlineOf(waiting_.timeout);
  const int64_t start = StepTimes::Now();
  for (int r = 0; r < host.size(); ++r) {
    if (HasReached(host.board(r).published, count)) continue;
    TellAwaited(bucket, r);
    const absl::Status status = AwaitPeer(r, host.board(r).published, count, deadline);
    MILLRACE_RETURN_IF_ERROR(MetAt(bucket, status));
    times_.Waited(step_, links_.ranks[r], StepTimes::Now() - start);
  }
  return absl::OkStatus();
}

bool BucketEngine::Exchange::Poll() {
  return std::ranges::all_of(pending, [](const auto& one) { return one->Poll(); });
}

absl::Status BucketEngine::Exchange::Wait() {
  absl::Status status;
  for (const auto& one : pending) status.Update(one->Wait());
  if (of_squares) return Annotate(status, "norm of the gradients");
  return MetAt(bucket, status);
}

absl::Status BucketEngine::PollFirstExchange() {
  const bool watched = options_.progress != nullptr || waiting_.has_others();
  const Deadline deadline = DeadlineOf(waiting_.timeout);
  int told = -1;
  while (watched && !exchanges_.front().Poll()) {
    const int host = AwaitedPeer(exchanges_.front().pending);
    if (host >= 0 && host != told) TellHostAwaited(exchanges_.front().bucket, told = host);
    MILLRACE_RETURN_IF_ERROR(CheckHealth());
    if (waiting_.clock() >= deadline) break;  // Wait says what it is
    std::this_thread::sleep_for(kShortSleep);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BucketEngine::EndFirstExchange(bool poll) {
  Exchange& first = exchanges_.front();
  const size_t bucket = first.bucket;
  const bool of_squares = first.of_squares;
  if (poll && !first.Poll()) return false;
  if (!poll) {
    Enter(bucket, Phase::kExchanging);
    MILLRACE_RETURN_IF_ERROR(PollFirstExchange());
  }
  MILLRACE_RETURN_IF_ERROR(first.Wait());
  first.pending.clear();
  if (exact_ != nullptr && GoOnExactly(first)) return true;
  exchanges_.pop_front();
  if (of_squares) {
    TellDone(bucket);
  } else {
    if (exact_ == nullptr) Store(bucket);
    Reduced(bucket);
  }
  return true;
}

void BucketEngine::Begin(size_t bucket) {
  const bool last = bucket + 1 == plan_.buckets.size();
  // Else a peer has it, who may be in the next step already.
  if (last && SharesLast() && !ClaimLast(links_.stripe)) return LeaveToPeer(bucket);
  if (bucket == 0) squares_ = {};
  if (bucket == 0 && options_.average_by_rows) CountRows();
  Enter(bucket, Phase::kReducing);
  times_.Begin(step_, bucket);
  if (links_.cross != nullptr) return BeginExchange(bucket);
  Sum(shares_[bucket], plan_.buckets[bucket].dtype, /*from_all=*/true, last_to());
  Reduced(bucket);
}

void BucketEngine::BeginExchange(size_t bucket) {
  Exchange& exchange = exchanges_.emplace_back(Exchange{bucket, {}});
  const DType dtype = plan_.buckets[bucket].dtype;
  const Range& share = shares_[bucket];
  if (bucket == 0 && options_.average_by_rows) {
    exchange.pending.push_back(AddHosts({&rows_, DType::kI64, Shape{1}}));
  }
  if (exact_ != nullptr) {
    exact_->Begin(dtype, share.offset, share.bytes);
    (void)GoOnExactly(exchange);  // of an empty share nothing is begun: it has ended
    return;
  }
  Sum(share, dtype, /*from_all=*/true, To::kOwnCopy);
  std::byte* const own = links_.host->copy(links_.host->rank()) + share.offset;
  const size_t count = share.bytes / SizeOf(dtype);
  TensorView data = {own, dtype, Shape{static_cast<int64_t>(count)}};
  if (IsWired(bucket)) {
    wired_[bucket].resize(count);
    EndReduction(options_.wire, ReduceOp::kSum, 1, own, wired_[bucket].data(), count);
    data.data = wired_[bucket].data();
    data.dtype = options_.wire;
  }
  if (IsScattered(bucket)) return BeginScatter(data, exchange);
  exchange.pending.push_back(AddHosts(data));
}

bool BucketEngine::GoOnExactly(Exchange& exchange) {
  Enter(exchange.bucket, Phase::kReducing);
  const float divisor = options_.average_by_rows ? DivisorOf(rows_) : 1;
  auto next = exact_->Next(divisor, wants_squares() ? &squares_ : nullptr);
  if (next == nullptr) return false;
  exchange.pending.push_back(std::move(next));
  return true;
}

std::unique_ptr<Pending> BucketEngine::AddHosts(const TensorView& data) {
  return links_.cross->Start({.kind = Collective::kAllReduce,
                              .in = data,
                              .out = data,
                              .op = ReduceOp::kSum,
                              .agreed = true});
}

// Of a step's first bucket: every rank of the host has said its rows when it has published that.
void BucketEngine::CountRows() {
  rows_ = 0;
  for (int r = 0; r < links_.host->size(); ++r) rows_ += links_.host->board(r).rows;
}

void BucketEngine::Store(size_t bucket) {
  if (IsWired(bucket)) {
    const Range& share = shares_[bucket];
    BeginReduction(options_.wire, links_.host->copy(links_.host->rank()) + share.offset,
                   wired_[bucket].data(), wired_[bucket].size());
  }
  Sum(OwnPart(bucket), plan_.buckets[bucket].dtype, /*from_all=*/false, last_to());
}

void BucketEngine::Sum(const Range& range, DType dtype, bool from_all, To to) {
  SharedHost& host = *links_.host;
  in_.clear();
  out_.clear();
  for (int r = 0; r < host.size(); ++r) {
    std::byte* const copy = host.copy(r) + range.offset;
    if (from_all || r == host.rank()) in_.push_back(copy);
    if (to == To::kAllCopies || r == host.rank()) out_.push_back(copy);
  }
  const bool last = to != To::kOwnCopy;
  const float divisor = last && options_.average_by_rows ? DivisorOf(rows_) : 1;
  const bool squares = last && wants_squares();
  const bool nothing = in_.size() == 1 && out_.size() == 1 && divisor == 1 && !squares;
  if (nothing || range.bytes == 0) return;
  SumAndStore(dtype, in_, out_, range.bytes / SizeOf(dtype), divisor,
              squares ? &squares_ : nullptr);
}

void BucketEngine::Reduced(size_t bucket) {
  if (bucket + 1 == plan_.buckets.size()) {
    all_squares_ = 0;
    for (const double one : squares_) all_squares_ += one;
    if (AddsSquaresOfHosts()) return BeginSquares(bucket);
  }
  TellDone(bucket);
}

void BucketEngine::TellDone(size_t bucket) {
  const bool last = bucket + 1 == plan_.buckets.size();
  times_.End(bucket);  // before the flag, by which others know that they may read it
  // So is this: the flag may end the caller's step, who then says what comes next.
  const bool waits = last && !AreDone(base_, /*but=*/links_.stripe);
  if (follows_) Enter(bucket, waits ? Phase::kWaiting : Phase::kBackward);
  RaiseDone(bucket, links_.stripe);
  if (last && SharesLast()) SumForOthers();
  if (!follows_) Enter(bucket, Phase::kBackward);  // back to where the reducer was called from
}

void BucketEngine::RaiseDone(size_t bucket, int stripe) {
  RankBoard& board = links_.host->board(stripe);
  if (bucket + 1 == plan_.buckets.size()) {
    board.all_rows = rows_;
    board.sum_of_squares = all_squares_;
  }
  Raise(board.done, base_ + static_cast<uint32_t>(bucket) + 1);
}

bool BucketEngine::SharesLast() const {
  return links_.cross == nullptr && !options_.shard && !wants_squares() &&
         ShareOf(plan_.buckets.size() - 1, 0).bytes <= kMaxSharedBytes;
}

bool BucketEngine::ClaimLast(int stripe) {
  std::atomic<uint64_t>& claimed = links_.host->board(stripe).claimed;
  uint64_t before = claimed.load(std::memory_order_acquire);
  if (static_cast<uint32_t>(before) != base_) return false;
  const uint32_t count = base_ + static_cast<uint32_t>(plan_.buckets.size());
  const uint64_t after = uint64_t{static_cast<uint32_t>(links_.stripe)} << 32 | count;
  return claimed.compare_exchange_strong(before, after, std::memory_order_acq_rel);
}

int BucketEngine::SummerOf(int stripe, uint32_t count) const {
  const uint64_t claimed = links_.host->board(stripe).claimed.load(std::memory_order_acquire);
  return static_cast<uint32_t>(claimed) == count ? static_cast<int>(claimed >> 32) : stripe;
}

void BucketEngine::LeaveToPeer(size_t bucket) {
  times_.Begin(step_, bucket);
  times_.End(bucket);
}

// The rank that comes last to the end of backward has everybody's gradients, and need not wait
// until peers that sleep have woken up.
void BucketEngine::SumForOthers() {
  const size_t last = plan_.buckets.size() - 1;
  for (int stripe = 0; stripe < links_.groups.num_stripes(); ++stripe) {
    const uint32_t all_but_last = base_ + static_cast<uint32_t>(last);
    if (!HasReached(links_.host->board(stripe).done, all_but_last) || !ClaimLast(stripe)) continue;
    Sum(ShareOf(last, stripe), plan_.buckets[last].dtype, /*from_all=*/true, last_to());
    RaiseDone(last, stripe);
  }
}

// A rank that waits for its peers here must not look as if it computed: a watchdog blames a rank
// that does.
absl::Status BucketEngine::EndStep() {
  if (!AreDone(base_)) {
    const size_t last = plan_.buckets.size() - 1;
    if (!follows_) Enter(last, Phase::kWaiting);
    MILLRACE_RETURN_IF_ERROR(AwaitStripes(base_, waiting_.timeout, /*tells=*/true));
    if (!follows_) Enter(last, Phase::kBackward);
  }
  base_ += static_cast<uint32_t>(plan_.buckets.size());
  begun_ = 0;
  step_ += step_stride_;
  return absl::OkStatus();
}

void BucketEngine::KeepMemory() {
  if (links_.cross == nullptr || links_.cross->capabilities().cancel_is_final) return;
  links_.host->KeepMapped();
  (void)new std::vector(std::move(wired_));
  (void)exact_.release();
}

}  // namespace millrace::collectives
