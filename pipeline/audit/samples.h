#ifndef MILLRACE_PIPELINE_AUDIT_SAMPLES_H_
#define MILLRACE_PIPELINE_AUDIT_SAMPLES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/run.h"

namespace millrace::pipeline {

// Samples of one epoch as bits, in pages of 4,096: whole records (sub-index 0) in the order of
// their numbers, the parts of split records in tiles of 64 records by 64 sub-indices. 1 bit for
// each record of a data set, and about 8 bytes for one that is split into a few. Thread-compatible.
class SampleSet {
 public:
  // Returns false if it was there. The epoch does not matter.
  bool Insert(const SampleId& id);
  bool Contains(const SampleId& id) const;
  uint64_t size() const { return size_; }
  // Calls `visit` for every whole record in [0, count) that is not there, ascending.
  void ForEachMissing(uint64_t count, const std::function<void(uint64_t record)>& visit) const;

 private:
  using Page = std::array<uint64_t, 64>;

  std::unordered_map<uint64_t, std::unique_ptr<Page>> records_;  // the pages, by record / 4096
  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<Page>> tiles_;
  uint64_t size_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_SAMPLES_H_
