#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "readers/container/tar_walk.h"
#include "readers/damage/parts.h"
#include "readers/source/csv_header.h"
#include "readers/tools/repair.h"
#include "readers/write/record_writer.h"

namespace millrace::readers {
namespace {

constexpr int kLevel = 6;
constexpr uint64_t kEndBlocks = 2;  // of a tar

// Copies the bytes in front of the first record: the row that names the columns.
absl::Status CopyFront(const RandomAccessFile& file, uint64_t bytes, RecordSink& sink) {
  std::vector<std::byte> front(bytes);
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, front));
  return sink.Append(std::span(front).first(got));
}

}  // namespace

absl::Status RepairParts(const ContainerOptions& container, const RepairOptions& options,
                         const std::map<int64_t, RecordError>& listed, RepairedFile& report) {
  MILLRACE_ASSIGN_OR_RETURN(const InflatedShard shard,
                            OpenInflated(report.file, options.compression, container));
  MILLRACE_ASSIGN_OR_RETURN(const auto out, AtomicFile::Create(report.out));
  const auto sink = MakeRecordSink(*out, shard.compression, kLevel);
  bool begun = container.kind != ContainerKind::kCsv || !container.has_header;
  const auto on_part = [&](const ShardPart& part) -> absl::Status {
    if (part.is_header) return part.damage;
    if (!std::exchange(begun, true)) {
      MILLRACE_RETURN_IF_ERROR(CopyFront(*shard.file, part.offset, *sink));
    }
    const auto named = listed.find(static_cast<int64_t>(part.offset));
    if (part.damage.ok() && (named == listed.end() || IsBehindLost(shard, part.offset))) {
      ++report.num_kept;
      return sink->Append(std::as_bytes(std::span(part.framed)));
    }
    DamagedPlace& dropped = report.dropped.emplace_back();
    dropped.error = GetRecordError(part.damage).value_or(RecordError());
    dropped.message = std::string(part.damage.message());
    if (!part.damage.ok()) return absl::OkStatus();
    dropped.error = named->second;
    dropped.error.position = -1;
    dropped.message = absl::StrCat(report.file, ": record ", part.ordinal, " at offset ",
                                   part.offset, ": the quarantine names it");
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(WalkParts(shard, container, options.max_record_bytes, on_part));
  if (!begun) {
    MILLRACE_RETURN_IF_ERROR(ReadCsvHeader(*shard.file, container.delimiter).status());
    MILLRACE_RETURN_IF_ERROR(CopyFront(*shard.file, shard.file->size(), *sink));
  }
  if (container.kind == ContainerKind::kTar) {
    const std::vector<std::byte> end(kEndBlocks * kTarBlock);
    MILLRACE_RETURN_IF_ERROR(sink->Append(end));
  }
  MILLRACE_RETURN_IF_ERROR(sink->Finish());
  return out->Commit(/*sync=*/true);
}

}  // namespace millrace::readers
