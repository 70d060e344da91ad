#include "pipeline/run/kept_records.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {

bool RecordKeeper::HasRoomFor(int64_t bytes) const {
  MutexLock lock(mu_);
  return bytes <= max_bytes_ - bytes_;
}

void RecordKeeper::Keep(uint64_t lane, std::shared_ptr<const KeptRecords> records) {
  MutexLock lock(mu_);
  if (records->reserved_bytes > max_bytes_ - bytes_) return;
  bytes_ += records->reserved_bytes;
  Lane& kept = lanes_[lane];
  const auto below = std::ranges::find_if(
      kept.rbegin(), kept.rend(), [&](const auto& other) { return other->first < records->first; });
  kept.insert(below.base(), std::move(records));
}

std::shared_ptr<const KeptRecords> RecordKeeper::Find(uint64_t lane, uint64_t position) {
  std::vector<std::shared_ptr<const KeptRecords>> passed;  // freed outside the lock
  MutexLock lock(mu_);
  Lane& kept = lanes_[lane];
  // The last ones before stay: another worker may be about to ask for them.
  while (kept.size() > 1 && kept[1]->end() <= position) {
    bytes_ -= kept.front()->reserved_bytes;
    passed.push_back(std::move(kept.front()));
    kept.pop_front();
  }
  const auto found = std::ranges::find_if(
      kept, [position](const auto& records) { return records->end() > position; });
  return found == kept.end() || !(*found)->Has(position) ? nullptr : *found;
}

void RecordKeeper::Clear() {
  MutexLock lock(mu_);
  lanes_.clear();
  bytes_ = 0;
}

}  // namespace millrace::pipeline
