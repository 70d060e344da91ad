#include "pipeline/audit/samples.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kPageBits = 4096;

// The word of a page and the bit in it.
std::pair<size_t, uint64_t> Place(const SampleId& id) {
  if (id.sub_index == 0) {
    return {static_cast<size_t>(id.record % kPageBits / 64), uint64_t{1} << (id.record % 64)};
  }
  return {static_cast<size_t>(id.record % 64), uint64_t{1} << (id.sub_index % 64)};
}

}  // namespace

bool SampleSet::Insert(const SampleId& id) {
  std::unique_ptr<Page>& page = id.sub_index == 0 ? records_[id.record / kPageBits]
                                                  : tiles_[{id.record / 64, id.sub_index / 64}];
  if (page == nullptr) page = std::make_unique<Page>();
  const auto [word, bit] = Place(id);
  if (((*page)[word] & bit) != 0) return false;
  (*page)[word] |= bit;
  ++size_;
  return true;
}

bool SampleSet::Contains(const SampleId& id) const {
  const auto [word, bit] = Place(id);
  if (id.sub_index == 0) {
    const auto page = records_.find(id.record / kPageBits);
    return page != records_.end() && ((*page->second)[word] & bit) != 0;
  }
  const auto tile = tiles_.find({id.record / 64, id.sub_index / 64});
  return tile != tiles_.end() && ((*tile->second)[word] & bit) != 0;
}

void SampleSet::ForEachMissing(uint64_t count,
                               const std::function<void(uint64_t record)>& visit) const {
  for (uint64_t record = 0; record < count; ++record) {
    if (!Contains({.epoch = 0, .record = record, .sub_index = 0})) visit(record);
  }
}

}  // namespace millrace::pipeline
