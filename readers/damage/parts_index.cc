#include "readers/damage/parts_index.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

constexpr size_t kMostDamagedParts = 1 << 20;
constexpr size_t kMostTexts = 100;  // a damaged file may make up any number
constexpr uint64_t kReportEveryBytes = 256 << 10;
// Lengths are kept in 32 bits beside the begins: there are gaps between frames.
constexpr uint64_t kLongest = std::numeric_limits<uint32_t>::max();

// Takes the places of a shard's parts, in order. Records of one size at the front, as of a
// container whose places are arithmetic, are kept as their number while no more than one part
// follows.
class Places {
 public:
  explicit Places(const std::string& path) : path_(path) {}

  absl::Status Add(const ShardPart& part) {
    if (!part.damage.ok()) {
      if (damaged_.size() == kMostDamagedParts) {
        return absl::ResourceExhaustedError(
            absl::StrCat(path_, ": more than ", kMostDamagedParts,
                         " damaged places, which is the most that one file may have"));
      }
      damaged_.Add(part);
    }
    if (front_.count > 0 && !rest_bytes_.has_value() && !part.damage.ok() && part.offset == end_ &&
        begins_.empty()) {
      rest_bytes_ = part.bytes;
    } else {
      Spread();
      Push(part.offset, part.damage.ok() ? static_cast<uint32_t>(part.bytes) : 0);
    }
    end_ = part.offset + part.bytes;
    return absl::OkStatus();
  }

  void Add(const RecordRun& run) {
    const bool is_first = begins_.empty() && front_.count == 0;
    end_ = run.offset + run.count * run.record_bytes;
    if (is_first) {
      front_ = run;
      return;
    }
    Spread();
    PushRun(run);
  }

  absl::StatusOr<ResyncedParts> Finish(uint64_t size, const FrameFormat& format,
                                       const std::shared_ptr<IndexMemory>& memory) && {
    if (front_.count > 0) {
      return ResyncedParts{
          RecordIndex::Regular(front_.offset, front_.record_bytes, front_.count, rest_bytes_),
          std::move(damaged_)};
    }
    // As FindFrames says it of a shard without damage: bytes in gaps are no record's then either.
    begins_.push_back(begins_.empty() ? size : end_);
    MILLRACE_ASSIGN_OR_RETURN(
        RecordIndex records,
        RecordIndex::Make(begins_, format, memory,
                          damaged_.empty() ? std::span<const uint32_t>() : lengths_));
    return ResyncedParts{std::move(records), std::move(damaged_)};
  }

 private:
  // Makes a list of what was kept as a number.
  void Spread() {
    const RecordRun run = std::exchange(front_, {});
    PushRun(run);
    if (!rest_bytes_.has_value()) return;
    Push(run.offset + run.count * run.record_bytes, 0);
    rest_bytes_.reset();
  }

  void PushRun(const RecordRun& run) {
    for (uint64_t i = 0; i < run.count; ++i) {
      Push(run.offset + i * run.record_bytes, static_cast<uint32_t>(run.record_bytes));
    }
  }

  void Push(uint64_t begin, uint32_t length) {
    begins_.push_back(begin);
    lengths_.push_back(length);
  }

  const std::string& path_;
  RecordRun front_;                     // of no records: all parts are in the lists
  std::optional<uint64_t> rest_bytes_;  // of the damage behind it
  std::vector<uint64_t> begins_;
  std::vector<uint32_t> lengths_;
  uint64_t end_ = 0;
  DamagedParts damaged_;
};

}  // namespace

void DamagedParts::Add(const ShardPart& part) {
  const RecordError error = GetRecordError(part.damage).value_or(RecordError());
  parts_.push_back({.ordinal = part.ordinal,
                    .reason = error.reason,
                    .text = NumberOf(TextOfDamage(part.damage, error))});
}

uint32_t DamagedParts::NumberOf(std::string_view text) {
  if (texts_.empty()) texts_.emplace_back("damaged");
  const auto known = std::ranges::find(texts_, text);
  if (known != texts_.end()) return static_cast<uint32_t>(known - texts_.begin());
  if (texts_.size() > kMostTexts) return 0;
  texts_.emplace_back(text);
  return static_cast<uint32_t>(texts_.size() - 1);
}

const DamagedParts::Part* DamagedParts::Find(uint64_t ordinal) const {
  const auto at = std::ranges::lower_bound(parts_, ordinal, {}, &Part::ordinal);
  return at != parts_.end() && at->ordinal == ordinal ? &*at : nullptr;
}

absl::Status DamagedParts::At(const std::string& file, const RecordRef& ref) const {
  const Part& part = *Find(ref.ordinal);
  return DamagedRecord(file, ref, part.reason, texts_[part.text]);
}

absl::StatusOr<ResyncedParts> ResyncParts(const InflatedShard& shard,
                                          const ContainerOptions& container,
                                          const FrameFormat& format, uint64_t max_record_bytes,
                                          const std::shared_ptr<IndexMemory>& memory,
                                          const std::function<void(uint64_t bytes)>& advanced) {
  Places places(shard.file->path());
  uint64_t reported = 0;
  const auto on_part = [&](const ShardPart& part) {
    const absl::Status added = places.Add(part);
    const uint64_t end = part.offset + part.bytes;
    if (advanced && end - reported >= kReportEveryBytes) {
      advanced(end - std::exchange(reported, end));
    }
    return added;
  };
  const auto on_run = [&](const RecordRun& run) {
    places.Add(run);
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(
      WalkPlaces(shard, container, std::min(max_record_bytes, kLongest), on_part, on_run));
  if (advanced) advanced(shard.file->size() - reported);
  return std::move(places).Finish(shard.file->size(), format, memory);
}

}  // namespace millrace::readers
