#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/container/container.h"
#include "readers/container/tar_walk.h"
#include "readers/foreign_kind.h"

// Samples of WebDataset: members of a tar that follow each other and are called alike up to the
// first dot. A record is the stretch of the archive that holds them, headers included, so that one
// read fetches a sample of any members.

namespace millrace::readers {
namespace {

// A stretch of an archive in memory.
class Stretch final : public RandomAccessFile {
 public:
  Stretch(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t count = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }

 private:
  const std::span<const std::byte> bytes_;
  const std::string& path_;
};

constexpr uint64_t kReportEveryBytes = 256 << 10;

// Collects the samples of an archive.
class SampleWalk {
 public:
  SampleWalk(const RandomAccessFile& file, const WalkOptions& options)
      : file_(file),
        options_(options),
        walk_(file, options.max_record_bytes, options.is_part, options.begins_narrow) {}

  // Returns the begins of all samples, and the end of the last.
  absl::StatusOr<std::vector<uint64_t>> Run() {
    while (true) {
      auto member = walk_.Next();
      if (!member.ok()) return Explained(member.status());
      if (!member->has_value()) break;
      MILLRACE_RETURN_IF_ERROR(Add(**member));
      if (walk_.offset() - reported_ >= kReportEveryBytes) Report(walk_.offset());
    }
    MILLRACE_RETURN_IF_ERROR(walk_.CheckRest());
    Report(file_.size());
    begins_.push_back(end_);
    return std::move(begins_);
  }

 private:
  absl::Status Add(const TarMember& member) {
    const std::string_view key = member.is_file ? TarSampleKey(member.name) : "";
    if (key.empty()) return absl::OkStatus();
    if (begins_.empty() || key != key_) {
      MILLRACE_RETURN_IF_ERROR(CheckLength(member.begin));
      begins_.push_back(member.begin);
      // Damage that is met while a sample is open may be that sample's.
      walk_.SetOrdinal(begins_.size() - 1);
      key_ = key;
    }
    end_ = member.end;
    return CheckLength(end_);
  }

  void Report(uint64_t offset) {
    if (options_.advanced) options_.advanced(offset - reported_);
    reported_ = offset;
  }

  // The sample that began last, and what follows it, reaches to `end`.
  absl::Status CheckLength(uint64_t end) const {
    if (begins_.empty() || end - begins_.back() <= options_.max_record_bytes) {
      return absl::OkStatus();
    }
    RecordRef ref;
    ref.ordinal = begins_.size() - 1;
    ref.offset = begins_.back();
    return DamagedRecord(file_.path(), ref, RecordErrorReason::kAbsurdLength,
                         absl::StrCat("a sample of more than ", options_.max_record_bytes,
                                      " bytes, which is the limit"));
  }

  // At the front of a file its bytes may say what it is instead.
  absl::Status Explained(const absl::Status& status) const {
    const auto error = GetRecordError(status);
    if (walk_.offset() > 0 || !error.has_value()) return status;
    std::array<std::byte, kTellingTextBytes> bytes = {};
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(0, bytes));
    const std::string_view kind = ForeignKind({reinterpret_cast<const char*>(bytes.data()), got});
    if (kind.empty()) return status;
    return DamagedRecord(file_.path(), RecordRef(), error->reason,
                         absl::StrCat("not a tar archive, but ", ToAbsl(kind)));
  }

  const RandomAccessFile& file_;
  const WalkOptions& options_;
  TarWalk walk_;
  std::vector<uint64_t> begins_;
  std::string key_;  // of the last sample
  uint64_t end_ = 0;
  uint64_t reported_ = 0;
};

class TarContainer final : public Container {
 public:
  const FrameFormat& format() const override { return kFormat; }
  bool LooksPlain(std::span<const std::byte> first) const override { return HasNoMagic(first); }

  absl::StatusOr<RecordIndex> FindFrames(
      const RandomAccessFile& file, const WalkOptions& options,
      const std::shared_ptr<IndexMemory>& memory) const override {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> begins, SampleWalk(file, options).Run());
    return RecordIndex::Make(begins, kFormat, memory);
  }

  // Walks the members again, so that a header that was damaged since is found, and leaves out what
  // follows the last member of the sample.
  absl::StatusOr<std::string_view> Unframe(const std::string& file, const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    if (framed.size() < ref.length) {
      return DamagedRecord(file, ref, RecordErrorReason::kTruncatedPayload,
                           "fewer bytes than the sample has");
    }
    const Stretch stretch(framed.first(ref.length), file);
    TarWalk walk(stretch, ref.length, /*is_part=*/true);
    std::string key;
    uint64_t end = 0;
    while (true) {
      auto member = walk.Next();
      if (!member.ok()) return AtRecord(file, ref, member.status());
      if (!member->has_value()) break;
      const std::string_view member_key =
          (*member)->is_file ? TarSampleKey((*member)->name) : std::string_view();
      if (member_key.empty()) continue;
      if (end != 0 && member_key != key) return Changed(file, ref);
      key = member_key;
      end = (*member)->end;
    }
    if (end == 0) return Changed(file, ref);
    return std::string_view(reinterpret_cast<const char*>(framed.data()), end);
  }

  size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                    std::span<const size_t> starts,
                    std::span<std::string_view> payloads) const override {
    static const std::string no_file;  // what is wrong Unframe says
    for (size_t i = 0; i < refs.size(); ++i) {
      const auto payload =
          Unframe(no_file, refs[i], {framed + starts[i], starts[i + 1] - starts[i]});
      if (!payload.ok()) return i;
      payloads[i] = *payload;
    }
    return refs.size();
  }

 private:
  // Indexes of an earlier rule, which counted WebDataset's own members, are built again.
  static constexpr uint64_t kRule = 1;
  static constexpr FrameFormat kFormat = {
      .key = static_cast<uint64_t>(ContainerKind::kTar) | kRule << 8,
      .least_bytes = kTarBlock,
      .to_end = false};

  static absl::Status Changed(const std::string& file, const RecordRef& ref) {
    return DamagedRecord(file, ref, RecordErrorReason::kUnknown,
                         "not one sample: the shard changed after it was indexed");
  }

  static absl::Status AtRecord(const std::string& file, const RecordRef& ref,
                               const absl::Status& status) {
    const auto error = GetRecordError(status);
    if (!error.has_value()) return status;
    RecordRef place = ref;
    place.offset += static_cast<uint64_t>(error->offset);
    return DamagedRecord(file, place, error->reason,
                         "a header of this sample is damaged, or it changed after it was indexed");
  }
};

}  // namespace

std::unique_ptr<const Container> MakeTarContainer() { return std::make_unique<TarContainer>(); }

}  // namespace millrace::readers
