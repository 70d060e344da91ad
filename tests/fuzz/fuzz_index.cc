#include <cstring>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "readers/container/record_index.h"
#include "readers/file/index_key.h"
#include "tests/fuzz/fuzz_input.h"
#include "xxhash.h"

// Index files: whatever one holds, no offset or length leads out of the shard. The checksums are
// put right first (unless the first byte says not to): they tell damage, not lies.

namespace millrace::readers {
namespace {

// FORMAT.md section 4.
constexpr size_t kHeaderBytesOfIndex = 104;
constexpr size_t kBeginsSumAt = 80;
constexpr size_t kHeaderSumAt = 96;
constexpr size_t kCountAt = 56;  // what stands before it names version and shard
constexpr uint64_t kFramedBytes = 1 << 16;

IndexKey Key() { return MakeIndexKey("/shard", {kFramedBytes, 1}, Compression::kNone, 0); }

void MendChecksums(std::vector<std::byte>& bytes) {
  if (bytes.size() < kHeaderBytesOfIndex) return;
  StoreU64(XXH3_64bits(bytes.data() + kHeaderBytesOfIndex, bytes.size() - kHeaderBytesOfIndex),
           bytes.data() + kBeginsSumAt);
  StoreU64(XXH3_64bits(bytes.data(), kHeaderSumAt), bytes.data() + kHeaderSumAt);
}

// An index of no records.
std::vector<std::byte> GoodIndex() {
  auto records =
      RecordIndex::Make(std::vector<uint64_t>{0}, kTfRecordFrames, std::make_shared<IndexMemory>());
  fuzz::Require(records.ok(), "there is memory");
  const std::vector<std::byte> bytes = EncodeIndex({*std::move(records), 0}, Key());
  std::vector<std::byte> mended = bytes;
  MendChecksums(mended);
  fuzz::Require(mended == bytes, "the checksums of an index are where they are mended here");
  return bytes;
}

// Puts the input over a good index: the fuzzer need not find out the key.
std::vector<std::byte> OverGoodIndex(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes = GoodIndex();
  bytes.resize(kCountAt);
  bytes.insert(bytes.end(), reinterpret_cast<const std::byte*>(data),
               reinterpret_cast<const std::byte*>(data) + size);
  return bytes;
}

}  // namespace
}  // namespace millrace::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;           // NOLINT
  using namespace millrace::readers;  // NOLINT
  const uint8_t choice = fuzz::TakeByte(data, size);
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes =
      (choice & 1) != 0 ? std::vector<std::byte>(first, first + size) : OverGoodIndex(data, size);
  if ((choice & 2) == 0) MendChecksums(bytes);
  const fuzz::InputFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const auto index =
      ReadIndex(file, Key(), kTfRecordFrames, kFramedBytes, std::make_shared<IndexMemory>());
  if (!index.ok()) return 0;
  fuzz::Require(index->records.longest() <= kFramedBytes, "no record is longer than the shard");
  for (uint64_t i = 0; i < index->records.num_records(); ++i) {
    fuzz::Require(index->records.length(i) <= index->records.longest(),
                  "no length is above the longest");
  }
  index->records.LengthsDigest();
  return 0;
}
