#include "tests/trainer/backend/cuda/order/mutations.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::trainer::cuda::order {
namespace {

using Kind = Entry::Kind;

bool Overlap(const Range& a, const Range& b) { return a.begin < b.end() && b.begin < a.end(); }

Log Without(const Log& log, size_t place) {
  Log changed = log;
  changed.entries.erase(changed.entries.begin() + static_cast<ptrdiff_t>(place));
  return changed;
}

std::string NameOf(const Log& log, size_t place) {
  return absl::StrCat(Describe(log, log.entries[place]), " (entry ", place, ")");
}

// The next item of the same stream, or the one before; nullopt: there is none.
std::optional<size_t> Neighbour(const Log& log, size_t place, int stream, int direction) {
  for (size_t i = place + static_cast<size_t>(direction); i < log.entries.size();
       i += static_cast<size_t>(direction)) {
    const Entry& entry = log.entries[i];
    if (entry.kind == Kind::kWork && entry.stream == stream) return i;
  }
  return std::nullopt;
}

}  // namespace

Mutation DropWait(const Log& log, size_t wait) {
  return {absl::StrCat("without ", NameOf(log, wait)), Without(log, wait)};
}

Mutation DropRecord(const Log& log, size_t record) {
  return {absl::StrCat("without ", NameOf(log, record)), Without(log, record)};
}

Mutation DropWork(const Log& log, size_t work) {
  return {absl::StrCat("without ", NameOf(log, work)), Without(log, work)};
}

std::optional<Mutation> Swap(const Log& log, size_t work) {
  const std::optional<size_t> next = Neighbour(log, work, log.entries[work].stream, 1);
  if (!next.has_value()) return std::nullopt;
  Mutation mutation = {
      absl::StrCat(NameOf(log, work), " and ", NameOf(log, *next), " the other way round"), log};
  std::swap(mutation.log.entries[work], mutation.log.entries[*next]);
  return mutation;
}

std::optional<Mutation> MarkEarly(const Log& log, size_t ready) {
  const int stream = log.entries[ready].stream;
  const std::optional<size_t> last = Neighbour(log, ready, stream, -1);
  if (!last.has_value()) return std::nullopt;
  const size_t end = Neighbour(log, ready, stream, 1).value_or(log.entries.size());
  Mutation mutation = {absl::StrCat(NameOf(log, ready), " before ", NameOf(log, *last)), log};
  const auto at = [&](size_t place) {
    return mutation.log.entries.begin() + static_cast<ptrdiff_t>(place);
  };
  std::rotate(at(*last), at(*last + 1), at(end));
  return mutation;
}

Mutation MoveBefore(const Log& log, size_t later, size_t earlier) {
  Mutation mutation = {absl::StrCat(NameOf(log, later), " before ", NameOf(log, earlier)), log};
  const auto begin = mutation.log.entries.begin();
  std::rotate(begin + static_cast<ptrdiff_t>(earlier), begin + static_cast<ptrdiff_t>(later),
              begin + static_cast<ptrdiff_t>(later) + 1);
  return mutation;
}

Mutation Place(const Log& log, size_t work, size_t write, uint64_t place) {
  const Range moved = log.entries[work].writes[write];
  Mutation mutation = {absl::StrCat(Describe(log, moved), ", which ", NameOf(log, work),
                                    " writes, at ", Describe(log, {place, moved.bytes})),
                       log};
  const auto move = [&](Range& range) {
    if (moved.begin <= range.begin && range.end() <= moved.end()) {
      range.begin = place + (range.begin - moved.begin);
    }
  };
  for (size_t i = work; i < log.entries.size(); ++i) {
    Entry& entry = mutation.log.entries[i];
    if (entry.kind != Kind::kWork) continue;
    const bool ends = i != work && std::ranges::any_of(entry.writes, [&](const Range& range) {
                        return Overlap(range, moved) && range.tensor != moved.tensor;
                      });
    std::ranges::for_each(entry.reads, move);
    if (ends) break;
    std::ranges::for_each(entry.writes, move);
  }
  return mutation;
}

namespace {

class Mutator {
 public:
  Mutator(const Log& log, uint32_t seed) : log_(log), random_(seed) {}

  std::optional<Mutation> Make() {
    switch (Pick(7)) {
      case 0:
        return AnyOf(Kind::kWait, DropWait);
      case 1:
        return AnyOf(Kind::kRecord, DropRecord);
      case 2:
        return AnyOf(Kind::kWork, DropWork);
      case 3:
        return AnyOf(Kind::kWork, Swap);
      case 4:
        return AnyOf(Kind::kReady, MarkEarly);
      case 5:
        return AnyOf(Kind::kWork, [this](const Log& log, size_t work) {
          return MoveBefore(log, work, work - std::min(work, Pick(40)));
        });
      default:
        return AnyOf(Kind::kWork, [this](const Log&, size_t work) { return PlaceOnOther(work); });
    }
  }

 private:
  size_t Pick(size_t count) { return static_cast<size_t>(random_()) % count; }

  template <typename Change>
  std::optional<Mutation> AnyOf(Kind kind, const Change& change) {
    std::vector<size_t> places;
    for (size_t i = 0; i < log_.entries.size(); ++i) {
      if (log_.entries[i].kind == kind) places.push_back(i);
    }
    if (places.empty()) return std::nullopt;
    return change(log_, places[Pick(places.size())]);
  }

  // Where another item, among the next or the last hundred, writes as many bytes or more.
  std::optional<Mutation> PlaceOnOther(size_t work) {
    const Entry& entry = log_.entries[work];
    if (entry.writes.empty()) return std::nullopt;
    const size_t write = Pick(entry.writes.size());
    const size_t other = work + 100 - std::min(work + 100, Pick(200));
    if (other >= log_.entries.size()) return std::nullopt;
    for (const Range& range : log_.entries[other].writes) {
      if (log_.entries[other].kind != Kind::kWork || Overlap(range, entry.writes[write])) continue;
      if (range.bytes >= entry.writes[write].bytes) return Place(log_, work, write, range.begin);
    }
    return std::nullopt;
  }

  const Log& log_;
  std::minstd_rand random_;
};

}  // namespace

std::vector<Mutation> RandomMutations(const Log& log, size_t count, uint32_t seed) {
  Mutator mutator(log, seed);
  std::vector<Mutation> mutations;
  while (mutations.size() < count) {
    std::optional<Mutation> mutation = mutator.Make();
    if (mutation.has_value()) mutations.push_back(*std::move(mutation));
  }
  return mutations;
}

}  // namespace millrace::trainer::cuda::order
