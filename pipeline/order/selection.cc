#include "pipeline/order/selection.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <utility>

// Rank and select: counts in front of blocks of 512 bits, and popcounts within one. A block is one
// line of the cache.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kWordBits = 64;
constexpr size_t kBlockWords = 8;

// The place of the `rank`-th one in `word`. REQUIRES: it has more ones than that.
uint64_t PlaceInWord(uint64_t word, uint64_t rank) {
  uint64_t place = 0;
  for (uint64_t width = kWordBits / 2; width > 0; width /= 2) {
    const auto ones = static_cast<uint64_t>(std::popcount(word & ((uint64_t{1} << width) - 1)));
    if (rank < ones) continue;
    rank -= ones;
    word >>= width;
    place += width;
  }
  return place;
}

}  // namespace

Selection::Selection(uint64_t num_records, std::vector<uint64_t> bits)
    : num_records_(num_records), bits_(std::move(bits)) {
  kept_before_.reserve(bits_.size() / kBlockWords + 2);
  uint64_t kept = 0;
  for (size_t i = 0; i < bits_.size(); ++i) {
    if (i % kBlockWords == 0) kept_before_.push_back(kept);
    kept += static_cast<uint64_t>(std::popcount(bits_[i]));
  }
  kept_before_.push_back(kept);
}

uint64_t Selection::Digest() const {
  return XXH3_64bits_withSeed(bits_.data(), bits_.size() * sizeof(uint64_t), num_records_);
}

uint64_t Selection::KeptBefore(uint64_t record) const {
  const size_t word = record / kWordBits;
  const size_t block = word / kBlockWords;
  uint64_t kept = kept_before_[block];
  for (size_t i = block * kBlockWords; i < word; ++i) {
    kept += static_cast<uint64_t>(std::popcount(bits_[i]));
  }
  const uint64_t rest = record % kWordBits;
  if (rest == 0) return kept;
  return kept + static_cast<uint64_t>(std::popcount(bits_[word] << (kWordBits - rest)));
}

void Selection::ToRecords(uint64_t first_kept, std::span<SampleId> ids) const {
  size_t block = 0;
  for (SampleId& id : ids) {
    uint64_t rank = first_kept + id.record;
    if (rank < kept_before_[block] || rank >= kept_before_[block + 1]) {
      const auto behind = std::ranges::upper_bound(kept_before_, rank);
      block = static_cast<size_t>(behind - kept_before_.begin()) - 1;
    }
    rank -= kept_before_[block];
    size_t word = block * kBlockWords;
    for (uint64_t ones = 0;; ++word, rank -= ones) {
      ones = static_cast<uint64_t>(std::popcount(bits_[word]));
      if (rank < ones) break;
    }
    id.record = word * kWordBits + PlaceInWord(bits_[word], rank);
  }
}

}  // namespace millrace::pipeline
