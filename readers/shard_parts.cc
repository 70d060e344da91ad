#include "readers/shard_parts.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container_internal.h"
#include "readers/local_file.h"
#include "readers/record_source.h"
#include "readers/salvage_source.h"
#include "readers/shard_files.h"
#include "readers/shard_parts_internal.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kWindowBytes = 1 << 20;

absl::Status TellRecords(const RandomAccessFile& file, const RecordIndex& frames,
                         PartTeller& teller) {
  std::vector<std::byte> window;
  const uint64_t count = frames.num_records();
  for (uint64_t i = 0; i < count;) {
    uint64_t last = i + 1;
    while (last < count && frames.offset(last + 1) - frames.offset(i) <= kWindowBytes) ++last;
    const uint64_t begin = frames.offset(i);
    window.resize(frames.offset(last) - begin);
    MILLRACE_RETURN_IF_ERROR(ReadFully(file, begin, window));
    const std::string_view bytes(reinterpret_cast<const char*>(window.data()), window.size());
    for (; i < last; ++i) {
      const std::string_view record =
          bytes.substr(frames.offset(i) - begin, frames.offset(i + 1) - frames.offset(i));
      MILLRACE_RETURN_IF_ERROR(teller.Record(frames.offset(i), record, record));
    }
  }
  return absl::OkStatus();
}

// Records at places that the header and the size of the file tell: all of them, or none.
absl::Status WalkRegularParts(const PartsInput& input, PartTeller& teller) {
  const uint64_t end = input.lost.empty() ? input.file.size() : input.lost.front().begin;
  const auto there = MakeSlice({std::shared_ptr<void>(), &input.file}, 0, end, input.file.path());
  WalkOptions walk;
  walk.max_record_bytes = input.max_record_bytes;
  walk.plain = input.plain;
  const auto container = MakeContainer(input.container, /*verify_crc=*/true);
  const auto frames = container->FindFrames(*there, walk, std::make_shared<IndexMemory>());
  const auto error = GetRecordError(frames.status());
  if (!frames.ok() && !error.has_value()) return frames.status();
  uint64_t at = end;
  if (frames.ok()) {
    MILLRACE_RETURN_IF_ERROR(TellRecords(*there, *frames, teller));
  } else {
    at = static_cast<uint64_t>(std::max<int64_t>(error->offset, 0));
  }
  if (!input.lost.empty()) {
    return teller.Lost(at, input.file.size() - at, input.lost.front().damage);
  }
  if (frames.ok()) return absl::OkStatus();
  return teller.Damage(at, end - at, error->reason, TextOfDamage(frames.status(), *error));
}

}  // namespace

std::string_view TextOfDamage(const absl::Status& status, const RecordError& error) {
  std::string_view text = ToStd(status.message());
  const std::string place = absl::StrCat("at offset ", error.offset, ": ");
  const size_t at = text.find(place);
  if (at != text.npos) text.remove_prefix(at + place.size());
  return text;
}

ShardPart PartTeller::Part(uint64_t offset, uint64_t bytes) const {
  ShardPart part;
  part.offset = offset;
  part.bytes = bytes;
  part.ordinal = ordinal_;
  return part;
}

absl::Status PartTeller::Tell(const ShardPart& part) {
  ++ordinal_;
  return on_part_(part);
}

RecordError PartTeller::Place(uint64_t offset, RecordErrorReason reason) const {
  RecordError error;
  error.file = path_;
  error.offset = static_cast<int64_t>(offset);
  error.ordinal = static_cast<int64_t>(ordinal_);
  error.reason = reason;
  return error;
}

absl::Status PartTeller::Record(uint64_t offset, std::string_view framed,
                                std::string_view payload) {
  ShardPart part = Part(offset, framed.size());
  part.framed = framed;
  part.payload = payload;
  return Tell(part);
}

absl::Status PartTeller::Damage(uint64_t offset, uint64_t bytes, RecordErrorReason reason,
                                std::string_view text) {
  ShardPart part = Part(offset, bytes);
  part.damage = MakeRecordError(absl::StatusCode::kDataLoss, Place(offset, reason), text);
  return Tell(part);
}

absl::Status PartTeller::Header(uint64_t offset, uint64_t bytes, std::string_view text) {
  ShardPart part = Part(offset, bytes);
  part.is_header = true;
  part.damage = MakeRecordError(absl::StatusCode::kDataLoss,
                                Place(offset, RecordErrorReason::kExample), text);
  return Tell(part);
}

absl::Status PartTeller::Lost(uint64_t offset, uint64_t bytes, absl::Status damage) {
  RecordError error = GetRecordError(damage).value_or(RecordError());
  if (error.file.empty()) error.file = path_;
  error.offset = static_cast<int64_t>(offset);
  error.ordinal = static_cast<int64_t>(ordinal_);
  ShardPart part = Part(offset, bytes);
  part.damage = Annotate(damage, absl::StrCat("record ", error.ordinal, " at offset ", offset));
  SetRecordError(part.damage, error);
  return Tell(part);
}

absl::Status WalkParts(const InflatedShard& shard, const ContainerOptions& container,
                       uint64_t max_record_bytes, const OnPart& on_part) {
  const PartsInput input = {.file = *shard.file,
                            .plain = shard.compression == Compression::kNone,
                            .lost = shard.lost,
                            .container = container,
                            .max_record_bytes = max_record_bytes};
  PartTeller teller(shard.file->path(), on_part);
  switch (container.kind) {
    case ContainerKind::kText:
    case ContainerKind::kCsv:
      return WalkLineParts(input, teller);
    case ContainerKind::kTar:
      return WalkTarParts(input, teller);
    default:
      return WalkRegularParts(input, teller);
  }
}

absl::StatusOr<InflatedShard> OpenInflated(const std::string& path, Compression compression,
                                           const ContainerOptions& container) {
  InflatedShard shard;
  MILLRACE_ASSIGN_OR_RETURN(shard.file, OpenFile(path));
  if (compression == Compression::kAuto) {
    const auto records = MakeContainer(container, /*verify_crc=*/true);
    MILLRACE_ASSIGN_OR_RETURN(compression, DetectCompression(*shard.file, *records));
  }
  shard.compression = compression;
  if (compression == Compression::kNone) return shard;
  InflateSpool spool;
  MILLRACE_ASSIGN_OR_RETURN(auto inflated,
                            spool.Add(MakeSalvageSource(std::move(shard.file), compression)));
  shard.file = std::move(inflated.file);
  shard.lost = std::move(inflated.lost);
  if (!inflated.damage.ok()) {
    shard.lost.push_back(
        {.begin = shard.file->size(), .bytes = 0, .damage = std::move(inflated.damage)});
  }
  return shard;
}

}  // namespace millrace::readers
