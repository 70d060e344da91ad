#include "readers/shard_parts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/run.h"
#include "base/status.h"
#include "readers/byte_source.h"
#include "readers/container_internal.h"
#include "readers/csv_row_internal.h"
#include "readers/local_file.h"
#include "readers/record_source.h"
#include "readers/shard_files.h"
#include "readers/tar_walk_internal.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kWindowBytes = 1 << 20;
constexpr uint64_t kMostPasses = 4;

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ContainerOptions WithoutHeader(ContainerOptions options) {
  options.has_header = false;
  return options;
}

class PartWalk {
 public:
  PartWalk(const RandomAccessFile& file, const ContainerOptions& options, uint64_t max_record_bytes,
           const OnPart& on_part)
      : file_(file),
        options_(options),
        first_(MakeContainer(options, /*verify_crc=*/true)),
        rest_(MakeContainer(WithoutHeader(options), /*verify_crc=*/true)),
        max_record_bytes_(max_record_bytes),
        on_part_(on_part),
        walk_bytes_(kMostPasses * file.size()) {}

  absl::Status Run() {
    do {
      const uint64_t begin = from_;
      MILLRACE_RETURN_IF_ERROR(Pass());
      walk_bytes_ -= std::min(walk_bytes_, file_.size() - begin);
    } while (from_ < file_.size());
    return absl::OkStatus();
  }

 private:
  // What is wrong at a place of the file.
  struct Damage {
    uint64_t offset = 0;
    RecordErrorReason reason = RecordErrorReason::kUnknown;
    std::string text;
  };

  // What FindFrames says of a part of the file that begins at `from`.
  static Damage DamageFrom(uint64_t from, const RecordError& error, std::string_view message) {
    const std::string place = absl::StrCat("at offset ", error.offset, ": ");
    const size_t at = message.find(place);
    if (at != message.npos) message.remove_prefix(at + place.size());
    return {from + static_cast<uint64_t>(std::max<int64_t>(error.offset, 0)), error.reason,
            std::string(message)};
  }

  // Goes from from_ to the end, or behind the first damage that takes other records along.
  absl::Status Pass() {
    const uint64_t from = from_;
    auto frames = FindFrames(from, file_.size(), /*is_part=*/false);
    if (frames.ok()) {
      MILLRACE_ASSIGN_OR_RETURN(const bool all, Records(*frames, frames->num_records(), from));
      if (all) from_ = file_.size();
      return absl::OkStatus();
    }
    const std::optional<RecordError> error = GetRecordError(frames.status());
    if (!error.has_value()) return frames.status();
    Damage damage = DamageFrom(from, *error, ToStd(frames.status().message()));
    if (!container().is_regular()) {
      MILLRACE_ASSIGN_OR_RETURN(const bool all, RecordsBefore(from, damage));
      if (!all) return absl::OkStatus();
    }
    return PassOver(damage, from + static_cast<uint64_t>(error->offset));
  }

  // Tells of the records in front of damage, as Records does. What may be hit of a tar's last sample
  // becomes part of the damage.
  absl::StatusOr<bool> RecordsBefore(uint64_t from, Damage& damage) {
    may_be_torn_ = options_.kind == ContainerKind::kTar;
    if (damage.offset == from) return true;
    auto before = FindFrames(from, damage.offset, /*is_part=*/true);
    const bool has_end_mark = !before.ok();
    if (has_end_mark) before = FindFrames(from, damage.offset, /*is_part=*/false);
    if (!before.ok()) return true;
    may_be_torn_ = may_be_torn_ && !has_end_mark;
    uint64_t whole = before->num_records();
    if (may_be_torn_ && whole > 0) damage.offset = from + before->offset(--whole);
    return Records(*before, whole, from);
  }

  std::shared_ptr<const RandomAccessFile> Part(uint64_t begin, uint64_t end) const {
    return MakeSlice({std::shared_ptr<void>(), &file_}, begin, end - begin, file_.path());
  }
  // A row that names columns is at the front only.
  const Container& container() const { return from_ == 0 ? *first_ : *rest_; }

  absl::StatusOr<RecordIndex> FindFrames(uint64_t begin, uint64_t end, bool is_part) const {
    WalkOptions walk;
    walk.max_record_bytes = max_record_bytes_;
    walk.plain = begin == 0;
    walk.is_part = is_part;
    const auto part = Part(begin, end);
    return container().FindFrames(*part, walk, std::make_shared<IndexMemory>());
  }

  // Tells of the first `count` frames, which lie from `base` on. False: one that takes others along
  // was passed over, and from_ is behind it.
  absl::StatusOr<bool> Records(const RecordIndex& frames, uint64_t count, uint64_t base) {
    uint64_t i = skip_first_ && count > 0 ? 1 : 0;
    if (i == 1) {
      MILLRACE_RETURN_IF_ERROR(Torn(base + frames.offset(0), frames.offset(1) - frames.offset(0)));
    }
    skip_first_ = false;
    std::vector<std::byte> window;
    while (i < count) {
      uint64_t end = i + 1;
      while (end < count && frames.offset(end + 1) - frames.offset(i) <= kWindowBytes) ++end;
      window.resize(frames.offset(end) - frames.offset(i));
      MILLRACE_RETURN_IF_ERROR(ReadFully(file_, base + frames.offset(i), window));
      for (const uint64_t first = i; i < end; ++i) {
        const auto framed = std::span<const std::byte>(window).subspan(
            frames.offset(i) - frames.offset(first), frames.offset(i + 1) - frames.offset(i));
        MILLRACE_ASSIGN_OR_RETURN(const bool goes_on, OneRecord(base + frames.offset(i), framed));
        if (!goes_on) return false;
      }
    }
    return true;
  }

  absl::StatusOr<bool> OneRecord(uint64_t offset, std::span<const std::byte> framed) {
    const RecordRef ref = {0, ordinal_, offset, framed.size()};
    ShardPart part = {offset, framed.size(), ordinal_, {}, TextOf(framed), {}};
    const auto payload = container().Unframe(file_.path(), ref, framed);
    part.damage = payload.status();
    if (payload.ok()) part.payload = *payload;
    if (payload.ok() && options_.kind == ContainerKind::kCsv) {
      const std::string wrong = WhatIsWrong(*payload);
      if (!wrong.empty() && payload->find('\n') != std::string_view::npos) {
        MILLRACE_RETURN_IF_ERROR(PassOver({offset, RecordErrorReason::kExample, wrong}, offset));
        return false;
      }
      if (!wrong.empty()) {
        part.damage = DamagedRecord(file_.path(), ref, RecordErrorReason::kExample, wrong);
      }
    }
    ++ordinal_;
    MILLRACE_RETURN_IF_ERROR(on_part_(part));
    return true;
  }

  // "": nothing.
  std::string WhatIsWrong(std::string_view row) {
    arena_.Reset();
    std::array<internal::CsvCell, 1> none;
    const auto cells = internal::SplitCsvRow(row, options_.delimiter, arena_, none);
    if (!cells.ok()) return std::string(cells.status().message());
    if (num_cells_ == 0) num_cells_ = *cells;
    if (*cells == num_cells_) return "";
    return absl::StrCat(*cells, " cells; the first row has ", num_cells_);
  }

  // Tells of the damage, which was noticed at `seen`, and goes on where that is possible.
  absl::Status PassOver(const Damage& damage, uint64_t seen) {
    uint64_t end = file_.size();
    if (walk_bytes_ > 0 && damage.reason != RecordErrorReason::kWrongCompression) {
      MILLRACE_ASSIGN_OR_RETURN(end, NextBegin(seen));
    }
    skip_first_ = std::exchange(may_be_torn_, false) && end < file_.size();
    from_ = end;
    return Tell(damage, end - damage.offset);
  }

  absl::Status Tell(const Damage& damage, uint64_t bytes) {
    RecordError error;
    error.file = file_.path();
    error.offset = static_cast<int64_t>(damage.offset);
    error.ordinal = static_cast<int64_t>(ordinal_);
    error.reason = damage.reason;
    ShardPart part = {damage.offset, bytes, ordinal_++, {}, {}, {}};
    part.damage = MakeRecordError(absl::StatusCode::kDataLoss, error, damage.text);
    return on_part_(part);
  }

  absl::Status Torn(uint64_t offset, uint64_t bytes) {
    return Tell({offset, RecordErrorReason::kUnknown,
                 "the member that is damaged before it may have been of this sample"},
                bytes);
  }

  // Where reading can go on behind damage that was noticed at `seen`: the end of the file where it
  // cannot.
  absl::StatusOr<uint64_t> NextBegin(uint64_t seen) {
    switch (options_.kind) {
      case ContainerKind::kText:
      case ContainerKind::kCsv:
        return NextLine(seen);
      case ContainerKind::kTar:
        return NextHeader(seen);
      default:
        return file_.size();
    }
  }

  absl::StatusOr<uint64_t> NextLine(uint64_t at) {
    std::vector<std::byte> window(kWindowBytes);
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(at, window));
      const size_t end = TextOf(std::span(window).first(got)).find('\n');
      if (end != std::string_view::npos) return at + end + 1;
      if (got == 0) return file_.size();
      at += got;
    }
  }

  absl::StatusOr<uint64_t> NextHeader(uint64_t at) {
    if (at == from_) ++at;  // a good header too, of a sample that is too long
    for (at = (at + kTarBlock - 1) / kTarBlock * kTarBlock; at + kTarBlock <= file_.size();
         at += kTarBlock) {
      const auto rest = Part(at, file_.size());
      TarWalk walk(*rest, max_record_bytes_, /*is_part=*/true);
      const auto member = walk.Next();
      if (member.ok()) return at;
      if (!GetRecordError(member.status()).has_value()) return member.status();
    }
    return file_.size();
  }

  const RandomAccessFile& file_;
  const ContainerOptions& options_;
  const std::unique_ptr<const Container> first_;  // of the whole file
  const std::unique_ptr<const Container> rest_;   // of what lies behind damage
  const uint64_t max_record_bytes_;
  const OnPart& on_part_;
  uint64_t walk_bytes_;
  uint64_t from_ = 0;
  uint64_t ordinal_ = 0;
  size_t num_cells_ = 0;      // of the first row; 0: not known yet
  bool may_be_torn_ = false;  // of a tar: the sample behind the damage
  bool skip_first_ = false;   // the next sample may lack a member
  RunArena arena_;
};

}  // namespace

absl::Status WalkParts(const InflatedShard& shard, const ContainerOptions& container,
                       uint64_t max_record_bytes, const OnPart& on_part) {
  ShardPart last;  // where the stream ends, if it is damaged
  last.offset = shard.file->size();
  const OnPart on_whole_part = [&](const ShardPart& part) {
    if (shard.damage.ok()) return on_part(part);
    if (part.offset + part.bytes < shard.file->size()) {
      last.ordinal = part.ordinal + 1;
      return on_part(part);
    }
    last.offset = part.offset;
    last.bytes = part.bytes;
    last.ordinal = part.ordinal;
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(PartWalk(*shard.file, container, max_record_bytes, on_whole_part).Run());
  if (shard.damage.ok()) return absl::OkStatus();
  RecordError error = GetRecordError(shard.damage).value_or(RecordError());
  error.offset = static_cast<int64_t>(last.offset);
  error.ordinal = static_cast<int64_t>(last.ordinal);
  last.damage =
      Annotate(shard.damage, absl::StrCat("record ", error.ordinal, " at offset ", error.offset));
  SetRecordError(last.damage, error);
  return on_part(last);
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
  MILLRACE_ASSIGN_OR_RETURN(auto source, MakeByteSource(std::move(shard.file), compression));
  MILLRACE_ASSIGN_OR_RETURN(auto inflated, spool.Add(std::move(source)));
  shard.file = std::move(inflated.file);
  shard.damage = std::move(inflated.damage);
  return shard;
}

}  // namespace millrace::readers
