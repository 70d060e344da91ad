#include "trainer/server/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::trainer {

Ledger::Ledger(const LedgerOptions& options, uint64_t version, std::vector<DataPosition> positions)
    : options_(options), version_(version), seats_(options.workers) {
  for (size_t i = 0; i < seats_.size(); ++i) seats_[i].position = std::move(positions[i]);
}

absl::StatusOr<uint64_t> Ledger::Join(int worker) {
  if (worker < 0 || worker >= options_.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no worker ", worker, " of ", options_.workers));
  }
  Seat& seat = seats_[worker];
  if (seat.is_here) {
    return absl::AlreadyExistsError(absl::StrCat("worker ", worker, " is there already"));
  }
  seat.is_here = true;
  seat.is_ready = false;
  if (seat.life++ > 0) ++counts_.joined;
  return seat.life;
}

void Ledger::SetReady(int worker) {
  seats_[worker].is_ready = true;
  has_started_ = has_started_ || std::ranges::all_of(seats_, &Seat::is_ready);
}

Ruling Ledger::Lose(int worker) {
  Seat& seat = seats_[worker];
  if (!seat.is_here) return {};
  seat.is_here = seat.is_ready = false;
  seat.claim.reset();
  ++counts_.lost;
  return Decide();
}

int Ledger::NumActive() const {
  return static_cast<int>(std::ranges::count_if(
      seats_, [this](const Seat& seat) { return seat.is_ready && !IsDone(seat); }));
}

void Ledger::Count(const Claim& claim) {
  const uint64_t staleness = version_ - claim.version;
  if (counts_.staleness.size() <= staleness) counts_.staleness.resize(staleness + 1);
  ++counts_.staleness[staleness];
}

absl::StatusOr<Ruling> Ledger::Take(Claim claim) {
  const bool is_known = claim.worker >= 0 && claim.worker < options_.workers &&
                        seats_[claim.worker].is_ready && seats_[claim.worker].life == claim.life &&
                        !seats_[claim.worker].claim;
  if (!is_known) return absl::InvalidArgumentError("a gradient of no worker that is ready");
  if (claim.version > version_) return absl::InvalidArgumentError("a gradient of a later version");
  Seat& seat = seats_[claim.worker];
  const uint64_t most = options_.synchronous ? 0 : options_.max_staleness;
  if (version_ - claim.version > most) {
    ++counts_.dropped;
    seat.position = claim.position;
    Ruling ruling = Decide();  // the worker may have been the last one to be awaited
    ruling.dropped.push_back(std::move(claim));
    return ruling;
  }
  seat.claim = std::move(claim);
  return Decide();
}

// Makes an update if all gradients that it waits for are there.
Ruling Ledger::Decide() {
  const int active = NumActive();
  const int needed =
      options_.synchronous ? std::min(active, options_.workers - options_.backup_workers) : 1;
  const auto has_claim = [](const Seat& seat) { return seat.claim.has_value(); };
  Ruling ruling;
  if (active == 0 || std::ranges::count_if(seats_, has_claim) < std::max(1, needed)) return ruling;
  for (Seat& seat : seats_) {
    if (!seat.claim) continue;
    Count(*seat.claim);
    seat.position = seat.claim->position;
    ruling.applied.push_back(*std::exchange(seat.claim, std::nullopt));
  }
  ++version_;
  return ruling;
}

std::vector<int> Ledger::Stop() {
  std::vector<int> waited;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].claim) waited.push_back(static_cast<int>(i));
    seats_[i].claim.reset();
  }
  return waited;
}

bool Ledger::is_over() const {
  if (!has_started_) return false;
  if (version_ >= options_.total) return true;
  return std::ranges::none_of(seats_,
                              [this](const Seat& seat) { return seat.is_here && !IsDone(seat); });
}

bool Ledger::is_awaited(int worker) const {
  const Seat& seat = seats_[worker];
  return seat.is_ready && !IsDone(seat) && !seat.claim;
}

}  // namespace millrace::trainer
