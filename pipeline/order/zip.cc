#include "pipeline/order/zip.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace millrace::pipeline {
namespace {

bool IsBefore(const SampleId& a, const SampleId& b) {
  return a.epoch != b.epoch ? a.epoch < b.epoch : a.record < b.record;
}

// Adds up records and bytes of the sources below `plan`.
void AddSources(const OrderPlan& plan, std::span<const OrderSource> sources, OrderSource* sum) {
  for (const OrderPlan& input : plan.inputs) AddSources(input, sources, sum);
  if (plan.root != OrderPlan::Root::kSource) return;
  sum->num_records += sources[plan.source].num_records;
  sum->total_bytes += sources[plan.source].total_bytes;
}

// The bytes that `size` records of an input take when each has the mean size of its sources
// (S-ZIP-3).
uint64_t BytesOf(const OrderPlan& input, std::span<const OrderSource> sources, uint64_t size) {
  OrderSource sum;
  AddSources(input, sources, &sum);
  if (sum.num_records == 0) return 0;
  const auto bytes = static_cast<unsigned __int128>(sum.total_bytes) * size / sum.num_records;
  return static_cast<uint64_t>(std::min<unsigned __int128>(bytes, kMaxCount));
}

}  // namespace

// The orders' memos, and what they were asked last: a run takes as many samples as it has room for,
// and the next one asks for the rest again.
class Zip::Memo {
 public:
  explicit Memo(const Zip& zip) : zip_(zip), slots_(zip.budget_, zip.MemoBytes()) {
    for (const Input& input : zip.inputs_) orders_.emplace_back(input.order);
  }

  // True if the samples that it was asked for last begin at or before `sample`.
  bool Reaches(const SampleId& sample) const {
    return places_.empty() || !IsBefore(sample, places_.front());
  }
  bool IsBehind(const Memo& other) const {
    return places_.empty() ||
           (!other.places_.empty() && IsBefore(places_.front(), other.places_.front()));
  }

  void Locate(std::span<const SampleId> samples, std::span<SampleId> records) {
    if (!Find(samples)) {
      Map(samples);
      Find(samples);
    }
    for (size_t j = 0; j < orders_.size(); ++j) {
      const SampleId* const known = records_.data() + j * places_.size();
      for (size_t i = 0; i < samples.size(); ++i) records[j * samples.size() + i] = known[at_[i]];
    }
  }

 private:
  // Where each sample's place is; false when one is not known.
  bool Find(std::span<const SampleId> samples) {
    at_.resize(samples.size());
    size_t at = 0;
    for (size_t i = 0; i < samples.size(); ++i, ++at) {
      if (!IsAt(at, samples[i])) {
        at = static_cast<size_t>(std::ranges::lower_bound(places_, samples[i], IsBefore) -
                                 places_.begin());
        if (!IsAt(at, samples[i])) return false;
      }
      at_[i] = at;
    }
    return true;
  }
  bool IsAt(size_t at, const SampleId& sample) const {
    return at < places_.size() && places_[at].record == sample.record &&
           places_[at].epoch == sample.epoch;
  }

  // Orders are fastest when they go ahead; samples behind a shuffle or an unbatch do not.
  void Map(std::span<const SampleId> samples) {
    places_.assign(samples.begin(), samples.end());
    if (!std::ranges::is_sorted(places_, IsBefore)) std::ranges::sort(places_, IsBefore);
    const auto same = [](const SampleId& a, const SampleId& b) {
      return a.epoch == b.epoch && a.record == b.record;
    };
    places_.erase(std::unique(places_.begin(), places_.end(), same), places_.end());
    records_.resize(places_.size() * orders_.size());
    for (size_t j = 0; j < orders_.size(); ++j) {
      const Input& input = zip_.inputs_[j];
      const auto part = std::span(records_).subspan(j * places_.size(), places_.size());
      for (size_t i = 0; i < part.size(); ++i) {
        part[i] = {.epoch = places_[i].epoch * input.epochs, .record = places_[i].record};
      }
      input.order.Map(part, &orders_[j]);
    }
  }

  const Zip& zip_;
  const StandingMemory slots_;  // the slots of the orders' shuffles
  std::vector<OrderMemo> orders_;
  std::vector<SampleId> places_;   // the places of the last Map, ascending, each once
  std::vector<SampleId> records_;  // the records of these, input after input
  std::vector<size_t> at_;         // the indexes of the last Find
};

Zip::Zip(std::vector<Input> inputs, OrderSource facts, std::shared_ptr<MemoryBudget> budget)
    : inputs_(std::move(inputs)), facts_(std::move(facts)), budget_(std::move(budget)) {}

Zip::~Zip() = default;

absl::StatusOr<std::unique_ptr<const Zip>> Zip::Make(const ZipPlan& plan,
                                                     std::span<const OrderSource> sources,
                                                     uint64_t seed,
                                                     std::shared_ptr<MemoryBudget> budget) {
  std::vector<Input> inputs;
  OrderSource facts{.num_records = kInfinite, .total_bytes = 0, .shard_records = {}};
  for (const ZipPlan::Input& input : plan.inputs) {
    MILLRACE_ASSIGN_OR_RETURN(Order order, Order::Make(input.order, sources, seed));
    facts.num_records = std::min(facts.num_records, order.size());
    const uint64_t epochs = order.EpochsOfPass();
    inputs.push_back({std::move(order), epochs});
  }
  for (const ZipPlan::Input& input : plan.inputs) {
    if (facts.num_records == kInfinite) break;
    facts.total_bytes += BytesOf(input.order, sources, facts.num_records);
  }
  return std::unique_ptr<const Zip>(
      new Zip(std::move(inputs), std::move(facts), std::move(budget)));
}

int64_t Zip::MemoBytes() const {
  uint64_t bytes = 0;
  for (const Input& input : inputs_) bytes += input.order.MemoBytes();
  return static_cast<int64_t>(bytes);
}

// Takes the memo that is farthest on, of those that reach `first` by going ahead.
std::unique_ptr<Zip::Memo> Zip::TakeMemo(const SampleId& first) const {
  MutexLock lock(mu_);
  if (idle_.empty()) return std::make_unique<Memo>(*this);
  auto best = idle_.begin();
  for (auto memo = idle_.begin() + 1; memo != idle_.end(); ++memo) {
    if (!(*memo)->Reaches(first)) continue;
    if (!(*best)->Reaches(first) || (*best)->IsBehind(**memo)) best = memo;
  }
  std::unique_ptr<Memo> taken = std::move(*best);
  idle_.erase(best);
  return taken;
}

void Zip::Locate(std::span<const SampleId> samples, std::span<SampleId> records) const {
  if (samples.empty()) return;
  std::unique_ptr<Memo> memo = TakeMemo(samples.front());
  memo->Locate(samples, records);
  MutexLock lock(mu_);
  idle_.push_back(std::move(memo));
}

}  // namespace millrace::pipeline
