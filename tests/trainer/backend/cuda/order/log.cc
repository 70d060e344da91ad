#include "tests/trainer/backend/cuda/order/log.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace millrace::trainer::cuda::order {
namespace {

using Clock = std::vector<uint32_t>;

void Join(Clock& clock, const Clock& other) {
  for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

std::string Describe(const Log& log, const Range& range) {
  uint64_t base = 0;
  std::string memory = "no memory";
  for (const Entry& entry : log.entries) {
    if (entry.kind != Entry::Kind::kAllocate) continue;
    if (entry.writes[0].begin > range.begin) continue;
    memory = entry.name;
    base = entry.writes[0].begin;
  }
  return absl::StrCat(memory, " [", range.begin - base, ", ", range.end() - base, ")",
                      range.tensor.empty() ? "" : absl::StrCat(" (", range.tensor, ")"));
}

std::string Describe(const Log& log, const Entry& entry) {
  return absl::StrCat(entry.name, " on ", log.streams[static_cast<size_t>(entry.stream)]);
}

HappensBefore::HappensBefore(const Log& log) {
  const size_t size = log.streams.size();
  std::vector<Clock> now(size, Clock(size));  // by stream: what has happened for its next entry
  std::map<int, Clock> events;                // as recorded last
  for (const Entry& entry : log.entries) {
    const auto stream = static_cast<size_t>(entry.stream);
    Clock& clock = now[stream];
    Join(clock, now[kHost]);
    if (entry.kind == Entry::Kind::kWait && events.contains(entry.event)) {
      Join(clock, events[entry.event]);
    }
    ++clock[stream];
    if (entry.kind == Entry::Kind::kRecord) events[entry.event] = clock;
    streams_.push_back(entry.stream);
    clocks_.push_back(clock);
  }
}

bool HappensBefore::operator()(size_t a, size_t b) const {
  const auto stream = static_cast<size_t>(streams_[a]);
  return clocks_[b][stream] >= clocks_[a][stream];
}

}  // namespace millrace::trainer::cuda::order
