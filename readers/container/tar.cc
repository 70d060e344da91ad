#include <algorithm>
#include <cstring>
#include <string>

#include "base/status.h"
#include "readers/container/container.h"
#include "readers/container/tar_samples.h"
#include "readers/container/tar_walk.h"

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

class TarContainer final : public Container {
 public:
  const FrameFormat& format() const override { return kFormat; }
  bool LooksPlain(std::span<const std::byte> first) const override { return HasNoMagic(first); }

  absl::StatusOr<RecordIndex> FindFrames(
      const RandomAccessFile& file, const WalkOptions& options,
      const std::shared_ptr<IndexMemory>& memory) const override {
    MILLRACE_ASSIGN_OR_RETURN(const TarSamples samples, FindTarSamples(file, options));
    if (!samples.damage.has_value()) return RecordIndex::Make(samples.begins, kFormat, memory);
    RecordRef ref;
    ref.ordinal = samples.count();
    ref.offset = samples.damage->offset;
    return DamagedRecord(file.path(), ref, samples.damage->reason, samples.damage->text);
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
  // Indexes of earlier rules, which counted WebDataset's own members, or any zeros as the end, are
  // built again.
  static constexpr uint64_t kRule = 2;
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
    return DamagedRecord(file, ref, error->reason,
                         "a header of this sample is damaged, or it changed after it was indexed");
  }
};

}  // namespace

std::unique_ptr<const Container> MakeTarContainer() { return std::make_unique<TarContainer>(); }

}  // namespace millrace::readers
