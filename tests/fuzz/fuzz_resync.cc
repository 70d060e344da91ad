#include <array>
#include <utility>
#include <vector>

#include "readers/container/container.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/compressed.h"
#include "readers/damage/parts.h"
#include "readers/damage/tfrecord.h"
#include "readers/source/record_reader.h"
#include "tests/fuzz/fuzz_input.h"

// Reading on behind damage. Of a plain TFRecord file the reader and the walk that random access
// goes by find the same good records, and what the reader does not read it says that it skipped; a
// damaged stream comes to its end; the parts of other containers follow each other within the file.

namespace millrace::readers {
namespace {

using Offsets = std::vector<uint64_t>;

Offsets GoodByReader(std::unique_ptr<ByteSource> source, size_t chunk_bytes, uint64_t* bytes) {
  TfRecordReaderOptions options;
  options.resync = true;
  options.max_record_bytes = fuzz::kMaxRecordBytes;
  options.chunk_bytes = chunk_bytes;
  const auto reader = MakeTfRecordReader(std::move(source), options);
  Offsets good;
  uint64_t ordinal = 0;
  while (true) {
    const auto record = reader->Next();
    if (!record.ok() && !reader->ReadsOn()) break;
    if (record.ok() && !record->has_value()) break;
    if (record.ok()) {
      fuzz::Require((*record)->ref.ordinal == ordinal, "each record and stretch has its ordinal");
      good.push_back((*record)->ref.offset);
      *bytes += (*record)->payload.size() + kFrameBytes;
    }
    ++ordinal;
  }
  *bytes += reader->skipped_bytes();
  return good;
}

Offsets GoodByWalk(const RandomAccessFile& file) {
  ResyncWalk walk(file, fuzz::kMaxRecordBytes);
  Offsets good;
  std::vector<std::byte> payload;
  for (auto stretch = walk.Next(); stretch.ok() && stretch->has_value(); stretch = walk.Next()) {
    if (!(*stretch)->framed) continue;
    const uint64_t length = (*stretch)->bytes - kFrameBytes;
    if (ReadFramedPayload(file, (*stretch)->offset, length, &payload).ok()) {
      good.push_back((*stretch)->offset);
    }
  }
  return good;
}

void Plain(const std::shared_ptr<fuzz::InputFile>& file, size_t chunk_bytes) {
  if (DetectCompression(*file).value() != Compression::kNone) return;
  uint64_t bytes = 0;
  const Offsets good = GoodByReader(*MakeByteSource(file, Compression::kNone), chunk_bytes, &bytes);
  fuzz::Require(bytes == file->size(), "what is not read is skipped");
  fuzz::Require(good == GoodByWalk(*file), "the reader and the walk find the same records");
}

void Compressed(const std::shared_ptr<fuzz::InputFile>& file, Compression compression) {
  constexpr uint64_t kMostBytes = 4 << 20;
  const auto source = MakeResyncSource(file, compression);
  std::vector<std::byte> buffer(64 << 10);
  uint64_t end = 0;
  while (end < kMostBytes) {
    const auto got = source->Read(buffer);
    if (!got.ok() || *got == 0) break;
    end += *got;
  }
  uint64_t last = 0;
  for (const LostBytes& lost : source->lost()) {
    fuzz::Require(lost.begin >= last, "what is lost is told in order");
    last = lost.begin + lost.bytes;
  }
}

void Parts(const std::shared_ptr<fuzz::InputFile>& file, ContainerKind kind) {
  ContainerOptions container;
  container.kind = kind;
  container.record_bytes = 3;
  uint64_t end = 0;
  uint64_t ordinal = 0;
  const auto on_part = [&](const ShardPart& part) {
    fuzz::Require(part.offset >= end && part.ordinal == ordinal, "parts follow each other");
    end = part.offset + part.bytes;
    ++ordinal;
    return absl::OkStatus();
  };
  const absl::Status walked = WalkParts({.file = file}, container, 4096, on_part);
  const bool refused = !walked.ok() && !CheckNoPointer(*file).ok();
  fuzz::Require((walked.ok() || refused) && end <= file->size(),
                "all of the file is walked, or it is a Git LFS pointer");
}

}  // namespace
}  // namespace millrace::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;           // NOLINT
  using namespace millrace::readers;  // NOLINT
  constexpr std::array kCompressions = {Compression::kGzip, Compression::kZlib, Compression::kZstd};
  constexpr std::array kKinds = {ContainerKind::kFixedLength, ContainerKind::kText,
                                 ContainerKind::kCsv, ContainerKind::kTar, ContainerKind::kIdx};
  const uint8_t choice = fuzz::TakeByte(data, size);
  const auto file = std::make_shared<fuzz::InputFile>(data, size);
  const size_t what = choice % 10;
  if (what < 2) Plain(file, size_t{64} << (choice >> 5));
  if (what >= 2 && what < 5) Compressed(file, kCompressions[what - 2]);
  if (what >= 5) Parts(file, kKinds[what - 5]);
  return 0;
}
