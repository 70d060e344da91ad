#include "readers/damage/parts.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/container/detect.h"
#include "readers/damage/compressed.h"
#include "readers/damage/parts_walk.h"
#include "readers/file/slice.h"
#include "readers/http/open_files.h"
#include "readers/inflate/spool.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kRunBytes = 1 << 20;

// Tells of the frames from `next` to `end`.
absl::Status TellRecords(const RandomAccessFile& file, const RecordIndex& frames, uint64_t next,
                         uint64_t end, PartTeller& teller) {
  if (teller.takes_runs() && next < end) {
    return teller.Run({frames.offset(next), frames.longest(), end - next});
  }
  std::vector<std::byte> window;
  while (next < end) {
    uint64_t last = next + 1;
    while (last < end && frames.offset(last + 1) - frames.offset(next) <= kRunBytes) ++last;
    const uint64_t begin = frames.offset(next);
    window.resize(frames.offset(last) - begin);
    MILLRACE_RETURN_IF_ERROR(ReadFully(file, begin, window));
    const std::string_view bytes(reinterpret_cast<const char*>(window.data()), window.size());
    for (; next < last; ++next) {
      const std::string_view record =
          bytes.substr(frames.offset(next) - begin, frames.offset(next + 1) - frames.offset(next));
      MILLRACE_RETURN_IF_ERROR(teller.Record(frames.offset(next), record, record));
    }
  }
  return absl::OkStatus();
}

// Records at places that the header and the size of the file tell, as far as these can be believed.
// Nothing tells how many bytes are lost of a stream, so nothing tells where records lie behind
// that.
absl::Status WalkRegularParts(const PartsInput& input, PartTeller& teller) {
  const auto container = MakeContainer(input.container, /*verify_crc=*/true);
  WalkOptions walk;
  walk.max_record_bytes = input.max_record_bytes;
  walk.plain = input.plain;
  const uint64_t end = input.lost.empty() ? input.file.size() : input.lost.front().begin;
  const auto there = MakeSlice({std::shared_ptr<void>(), &input.file}, 0, end, input.file.path());
  MILLRACE_ASSIGN_OR_RETURN(const WholeFrames whole,
                            container->FindWhole(*there, walk, /*is_cut=*/end < input.file.size()));
  MILLRACE_RETURN_IF_ERROR(
      TellRecords(*there, whole.frames, 0, whole.frames.num_records(), teller));
  const uint64_t rest = input.file.size() - whole.end;
  if (!input.lost.empty()) return teller.Lost(whole.end, rest, input.lost.front().damage);
  if (whole.damage.ok()) return absl::OkStatus();
  const RecordError error = GetRecordError(whole.damage).value_or(RecordError());
  return teller.Damage(whole.end, rest, error.reason, TextOfDamage(whole.damage, error));
}

}  // namespace

std::string_view TextOfDamage(const absl::Status& status, const RecordError& error) {
  std::string_view text = ToStd(status.message());
  const std::string place = absl::StrCat("at offset ", error.offset, ": ");
  const size_t at = text.find(place);
  if (at != text.npos) text.remove_prefix(at + place.size());
  const std::string file = absl::StrCat(error.file, ": ");  // of a stream
  if (text.starts_with(file)) text.remove_prefix(file.size());
  return text;
}

absl::Status ErrorAtRecord(const absl::Status& status, RecordError place) {
  const std::optional<RecordError> error = GetRecordError(status);
  place.reason = error.value_or(RecordError()).reason;
  std::string_view text = TextOfDamage(status, error.value_or(place));
  const std::string file = absl::StrCat(place.file, " ");  // "FILE at offset N: ..." of a read
  if (text.starts_with(file)) text.remove_prefix(file.size());
  const absl::Status placed = MakeRecordError(status.code(), place, text);
  if (error.has_value()) return placed;
  return {placed.code(), placed.message()};
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
  // Every part is a place that was judged: a policy may pass over it.
  error.reason = reason == RecordErrorReason::kUnknown ? RecordErrorReason::kExample : reason;
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
  ShardPart part = Part(offset, bytes);
  part.damage = ErrorAtRecord(damage, Place(offset, RecordErrorReason::kUnknown));
  return Tell(part);
}

namespace {

absl::Status Walk(const InflatedShard& shard, const ContainerOptions& container,
                  uint64_t max_record_bytes, const OnPart& on_part, const OnRun* on_run) {
  const PartsInput input = {.file = *shard.file,
                            .plain = shard.compression == Compression::kNone,
                            .lost = shard.lost,
                            .container = container,
                            .max_record_bytes = max_record_bytes};
  PartTeller teller(shard.file->path(), on_part, on_run);
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

}  // namespace

absl::Status WalkParts(const InflatedShard& shard, const ContainerOptions& container,
                       uint64_t max_record_bytes, const OnPart& on_part) {
  return Walk(shard, container, max_record_bytes, on_part, /*on_run=*/nullptr);
}

absl::Status WalkPlaces(const InflatedShard& shard, const ContainerOptions& container,
                        uint64_t max_record_bytes, const OnPart& on_part, const OnRun& on_run) {
  return Walk(shard, container, max_record_bytes, on_part, &on_run);
}

bool IsBehindLost(const InflatedShard& shard, uint64_t offset) {
  return !shard.lost.empty() && offset > shard.lost.front().begin;
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
                            spool.Add(MakeResyncSource(std::move(shard.file), compression)));
  shard.file = std::move(inflated.file);
  shard.lost = std::move(inflated.lost);
  if (!inflated.damage.ok()) {
    shard.lost.push_back(
        {.begin = shard.file->size(), .bytes = 0, .damage = std::move(inflated.damage)});
  }
  return shard;
}

}  // namespace millrace::readers
