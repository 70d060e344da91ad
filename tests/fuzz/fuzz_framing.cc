#include <utility>
#include <vector>

#include "readers/container/record_index.h"
#include "readers/inflate/byte_source.h"
#include "readers/source/record_reader.h"
#include "tests/fuzz/fuzz_input.h"

// TFRecord framing: the reader and the walk of the index agree about every shard. CRCs are checked
// or not, as the first byte says: without them the fuzzer gets past a header.

namespace millrace::readers {
namespace {

struct Outcome {
  std::vector<uint64_t> begins;  // of records, and the end of the last
  absl::Status damage;           // of the framing
  bool bad_payload = false;      // the reader goes on behind it, but does not say how long it was
};

Outcome Read(std::shared_ptr<const RandomAccessFile> file, const TfRecordReaderOptions& options) {
  auto source = MakeByteSource(std::move(file), Compression::kNone);
  fuzz::Require(source.ok(), "a plain file can be opened");
  const auto reader = MakeTfRecordReader(*std::move(source), options);
  Outcome outcome{{0}, {}};
  while (true) {
    const auto record = reader->Next();
    if (record.ok() && !record->has_value()) return outcome;
    if (record.ok()) {
      fuzz::Require((*record)->ref.offset == outcome.begins.back(), "records follow each other");
      outcome.begins.push_back((*record)->ref.offset + kFrameBytes + (*record)->payload.size());
    } else {
      outcome.damage = record.status();
      outcome.bad_payload = reader->ReadsOn();
      return outcome;
    }
  }
}

}  // namespace
}  // namespace millrace::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;  // NOLINT
  const uint8_t choice = fuzz::TakeByte(data, size);
  const auto file = std::make_shared<fuzz::InputFile>(data, size);
  readers::TfRecordReaderOptions options;
  options.verify_crc = (choice & 1) != 0;
  options.max_record_bytes = fuzz::kMaxRecordBytes;
  options.chunk_bytes = size_t{64} << (choice >> 4);
  const readers::Outcome read = readers::Read(file, options);

  readers::WalkOptions walk;
  walk.verify_crc = options.verify_crc;
  walk.max_record_bytes = options.max_record_bytes;
  std::vector<uint64_t> begins;
  const absl::Status walked = readers::WalkRecords(*file, walk, begins);
  if (read.bad_payload) return 0;
  fuzz::Require(read.begins == begins, "reader and walk find the same records");
  fuzz::Require(read.damage == walked, "reader and walk say the same of the damage");
  return 0;
}
