#include <string>

#include "readers/dali_index.h"
#include "readers/source/dali_index.h"
#include "tests/fuzz/fuzz_input.h"

// DALI's .idx files: whatever one holds, records lie in the shard and do not overlap, and what is
// read is what the text says.

namespace millrace::readers {
namespace {

constexpr uint64_t kShardBytes = 1 << 16;
constexpr uint64_t kMaxRecord = 1 << 15;

absl::StatusOr<ShardIndex> Read(std::string_view text) {
  const fuzz::InputFile file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return ReadDaliIndex(file, kShardBytes, kMaxRecord, std::make_shared<IndexMemory>());
}

}  // namespace
}  // namespace millrace::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;           // NOLINT
  using namespace millrace::readers;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = Read(text);
  if (!index.ok()) {
    fuzz::Require(index.status().message().substr(0, 6) == "input:", "errors name the file");
    return 0;
  }
  const RecordIndex& records = index->records;
  std::string lines;
  uint64_t end = 0;
  for (uint64_t i = 0; i < records.num_records(); ++i) {
    const uint64_t offset = records.offset(i);
    const uint64_t length = records.length(i);
    fuzz::Require(offset >= end, "records do not overlap");
    fuzz::Require(length <= records.longest() && length <= kMaxRecord, "no record is too long");
    end = offset + length + kFrameBytes;
    lines += std::to_string(offset) + " " + std::to_string(end - offset) + "\n";
  }
  fuzz::Require(end == records.end() && end <= kShardBytes, "the last record ends in the shard");
  const auto again = Read(lines);
  fuzz::Require(again.ok() && again->records.num_records() == records.num_records() &&
                    again->lengths_digest == index->lengths_digest,
                "an index written out reads as itself");
  return 0;
}
