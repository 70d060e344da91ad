#include "pipeline/audit/starts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {

bool AuditStarts::ReadStart(const AuditReader& reader, const AuditBlock& block) {
  std::optional<AuditHeader> header = DecodeAuditHeader(block.payload);
  if (!header) {
    findings_.Violation(absl::StrCat(reader.path(), ": a header that this version does not know"));
    return false;
  }
  // Within a file order is certain; a clock may have been set back.
  if (headed()) {
    header->started_ns = std::max(header->started_ns, starts_.back().header.started_ns);
  }
  AuditStart start;
  start.log = logs_.size() - 1;
  start.header = *header;
  starts_.push_back(std::move(start));
  return true;
}

// Returns false when nothing behind the block can be used.
bool AuditStarts::ReadBlock(const AuditReader& reader, uint64_t offset, const AuditBlock& block) {
  if (block.kind == AuditBlockKind::kHeader) return ReadStart(reader, block);
  if (block.kind == AuditBlockKind::kBatch && headed()) {
    const std::optional<uint64_t> index = DecodeAuditBatchIndex(block.payload);
    if (index && *index >= starts_.back().header.start_batch) {
      starts_.back().slices.push_back({*index, offset});
      return true;
    }
  }
  if (block.kind == AuditBlockKind::kEnd && headed()) {
    starts_.back().end = DecodeAuditEnd(block.payload);
    if (starts_.back().end) return true;
  }
  findings_.Violation(
      absl::StrCat(reader.path(), ": the block at offset ", offset, " does not belong there"));
  return false;
}

absl::Status AuditStarts::Load(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(AuditReader opened, AuditReader::Open(path));
  logs_.push_back(std::move(opened));
  const AuditReader& reader = logs_.back();
  AuditBlock block;
  for (uint64_t offset = 0;; offset = block.end) {
    MILLRACE_ASSIGN_OR_RETURN(const AuditReader::Outcome outcome, reader.Read(offset, block));
    if (outcome == AuditReader::Outcome::kEnd) return absl::OkStatus();
    if (outcome == AuditReader::Outcome::kTorn) {
      findings_.Note(absl::StrCat(path, ": ends with a torn block of ", reader.size() - offset,
                                  " B at offset ", offset));
      return absl::OkStatus();
    }
    if (outcome == AuditReader::Outcome::kDamaged) {
      findings_.Violation(absl::StrCat(
          path, offset == 0 ? " is no audit log" : absl::StrCat(": damaged at offset ", offset)));
      return absl::OkStatus();
    }
    if (!ReadBlock(reader, offset, block)) return absl::OkStatus();
  }
}

// Leaves out starts of another stream than the first's.
void AuditStarts::Sort() {
  const auto same = [&](const AuditStart& start) {
    const AuditHeader &a = starts_.front().header, &b = start.header;
    return a.semantics_version == b.semantics_version && a.plan_fingerprint == b.plan_fingerprint &&
           a.data_fingerprint == b.data_fingerprint && a.expected_records == b.expected_records &&
           a.stream_batches == b.stream_batches;
  };
  for (const AuditStart& start : starts_) {
    if (same(start)) continue;
    findings_.Violation(absl::StrCat(NameOf(start), ": does not belong to ",
                                     logs_[starts_.front().log].path(),
                                     ": another plan, other data or another semantics_version"));
  }
  if (!starts_.empty()) {
    const auto other = std::stable_partition(starts_.begin() + 1, starts_.end(), same);
    starts_.erase(other, starts_.end());
  }
  std::ranges::stable_sort(starts_, {}, [](const AuditStart& s) { return s.header.started_ns; });
  for (AuditStart& start : starts_) {
    std::ranges::stable_sort(start.slices, {}, &AuditStart::Slice::batch);
  }
}

void AuditStarts::TakeBack() {
  for (size_t a = 0; a < starts_.size(); ++a) {
    AuditStart& start = starts_[a];
    for (size_t b = a + 1; b < starts_.size(); ++b) {
      const AuditHeader& later = starts_[b].header;
      if (later.world == start.header.world && later.rank != start.header.rank) continue;
      start.taken_back_from = std::min(start.taken_back_from, later.start_batch);
    }
    const auto counts = std::ranges::lower_bound(start.slices, start.taken_back_from, {},
                                                 &AuditStart::Slice::batch);
    report_.withdrawn_slices += static_cast<uint64_t>(start.slices.end() - counts);
    start.slices.erase(counts, start.slices.end());
    if (start.end && start.end->next_batch > start.taken_back_from) start.end.reset();
  }
}

// Every rank of a world that counts has a log.
void AuditStarts::CheckRanks() {
  std::map<int, std::set<int>> ranks_of;
  std::set<int> count;
  for (const AuditStart& start : starts_) {
    ranks_of[start.header.world].insert(start.header.rank);
    if (!start.slices.empty()) count.insert(start.header.world);
  }
  for (const auto& [world, ranks] : ranks_of) {
    int missing = 0;
    while (ranks.contains(missing)) ++missing;
    if (!count.contains(world) || missing == world) continue;
    findings_.Violation(absl::StrCat("no log of rank ", missing, " of ", world, " was given"));
  }
}

absl::StatusOr<std::optional<AuditBatch>> AuditStarts::ReadSlice(
    const AuditStart& start, const AuditStart::Slice& slice) const {
  AuditBlock block;
  MILLRACE_ASSIGN_OR_RETURN(const AuditReader::Outcome outcome,
                            logs_[start.log].Read(slice.offset, block));
  if (outcome != AuditReader::Outcome::kBlock) return std::nullopt;
  return DecodeAuditBatch(block.payload);
}

std::string AuditStarts::NameOf(const AuditStart& start) const {
  return absl::StrCat("rank ", start.header.rank, " of ", start.header.world, ", ",
                      logs_[start.log].path());
}

void AuditStarts::Settle() {
  report_.logs = logs_.size();
  report_.starts = starts_.size();
  Sort();
  TakeBack();
  CheckRanks();
}

}  // namespace millrace::pipeline
