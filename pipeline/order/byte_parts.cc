#include "pipeline/order/byte_parts.h"

#include <utility>

namespace millrace::pipeline {

ByteParts::ByteParts(const readers::RecordSource& source, std::vector<uint64_t> shard_bytes)
    : source_(source), shard_begins_(std::move(shard_bytes)) {
  uint64_t end = 0;
  for (uint64_t& begin : shard_begins_) end += std::exchange(begin, end);
  bytes_ = end;
}

uint64_t ByteParts::First(uint64_t part, uint64_t num_parts) const {
  uint64_t from = 0;
  uint64_t end = source_.num_records();
  if (part >= num_parts) return end;
  // Where the part should begin, times num_parts.
  const auto wanted = static_cast<unsigned __int128>(bytes_) * part;
  while (from < end) {
    const uint64_t middle = from + (end - from) / 2;
    if (static_cast<unsigned __int128>(BeginOf(middle)) * num_parts < wanted) {
      from = middle + 1;
    } else {
      end = middle;
    }
  }
  return from;
}

uint64_t ByteParts::BeginOf(uint64_t record) const {
  const readers::RecordRef ref = source_.Locate(record);
  return shard_begins_[ref.shard] + ref.offset;
}

}  // namespace millrace::pipeline
