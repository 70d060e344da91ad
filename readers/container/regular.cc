#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/big_endian.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/foreign_kind.h"
#include "readers/inflate/byte_source.h"

// Records of one size, whose places are arithmetic: nothing is walked and no index is kept. All
// that such a file can be asked is whether it is as long as it should be.

namespace millrace::readers {
namespace {

// All of the frame is payload.
std::string_view TrimNothing(std::string_view*) { return ""; }

absl::Status Damaged(const RandomAccessFile& file, uint64_t ordinal, uint64_t offset,
                     RecordErrorReason reason, std::string_view text) {
  RecordRef ref;
  ref.ordinal = ordinal;
  ref.offset = offset;
  return DamagedRecord(file.path(), ref, reason, text);
}

// Refuses records above the limit.
absl::Status CheckRecord(const RandomAccessFile& file, uint64_t offset, uint64_t record_bytes,
                         uint64_t max_record_bytes) {
  if (record_bytes <= max_record_bytes) return absl::OkStatus();
  return Damaged(
      file, 0, offset, RecordErrorReason::kAbsurdLength,
      absl::StrCat("records of ", record_bytes, " bytes; the limit is ", max_record_bytes));
}

class RegularContainer : public TrimmedContainer<TrimNothing> {
 public:
  explicit RegularContainer(ContainerKind kind) : format_{.key = static_cast<uint64_t>(kind)} {}

  const FrameFormat& format() const override { return format_; }
  bool is_regular() const override { return true; }

  absl::StatusOr<RecordIndex> FindFrames(const RandomAccessFile& file, const WalkOptions& options,
                                         const std::shared_ptr<IndexMemory>&) const override {
    MILLRACE_ASSIGN_OR_RETURN(WholeFrames whole, FindWhole(file, options, /*is_cut=*/false));
    MILLRACE_RETURN_IF_ERROR(whole.damage);
    return std::move(whole.frames);
  }

 private:
  const FrameFormat format_;
};

class FixedLengthContainer final : public RegularContainer {
 public:
  explicit FixedLengthContainer(const ContainerOptions& options)
      : RegularContainer(ContainerKind::kFixedLength), options_(options) {}

  bool LooksPlain(std::span<const std::byte> first) const override { return HasNoMagic(first); }

  // Where the size does not fit, the file was cut: it has no footer then, unless that is so long
  // that a part of it could be taken for a record.
  absl::StatusOr<WholeFrames> FindWhole(const RandomAccessFile& file, const WalkOptions& options,
                                        bool is_cut) const override {
    const uint64_t first = options_.header_bytes;
    const uint64_t size = file.size();
    MILLRACE_RETURN_IF_ERROR(CheckNoPointer(file));
    const absl::Status fits =
        CheckRecord(file, first, options_.record_bytes, options.max_record_bytes);
    if (!fits.ok()) return WholeFrames{{}, std::min(first, size), fits};
    const uint64_t footer =
        is_cut && options_.footer_bytes < options_.record_bytes ? 0 : options_.footer_bytes;
    if (size < first || size - first < footer) {
      return WholeFrames{
          {},
          std::min(first, size),
          Damaged(file, 0, size, RecordErrorReason::kTruncatedPayload,
                  absl::StrCat("the file ends inside its header of ", first, " and its footer of ",
                               options_.footer_bytes, " bytes"))};
    }
    const uint64_t count = (size - first - footer) / options_.record_bytes;
    const uint64_t rest = (size - first - footer) % options_.record_bytes;
    if (rest != 0 && !is_cut) return FindCut(file, options, rest);
    WholeFrames whole{RecordIndex::Regular(first, options_.record_bytes, count),
                      first + count * options_.record_bytes, absl::OkStatus()};
    return whole;
  }

 private:
  absl::StatusOr<WholeFrames> FindCut(const RandomAccessFile& file, const WalkOptions& options,
                                      uint64_t rest) const {
    MILLRACE_ASSIGN_OR_RETURN(WholeFrames whole, FindWhole(file, options, /*is_cut=*/true));
    if (!whole.damage.ok()) return whole;
    whole.damage = Damaged(
        file, (file.size() - options_.header_bytes - options_.footer_bytes) / options_.record_bytes,
        file.size() - options_.footer_bytes - rest, RecordErrorReason::kTruncatedPayload,
        absl::StrCat("the file ends after ", rest, " of ", options_.record_bytes,
                     " bytes of a record and a footer of ", options_.footer_bytes));
    return whole;
  }

  const ContainerOptions options_;
};

// An IDX file is big-endian: a magic (0, 0, type, number of dimensions), one u32 per dimension,
// then the elements.
class IdxContainer final : public RegularContainer {
 public:
  IdxContainer() : RegularContainer(ContainerKind::kIdx) {}

  bool LooksPlain(std::span<const std::byte> first) const override {
    return first.size() >= kMagicBytes && first[0] == std::byte{0} && first[1] == std::byte{0};
  }

  absl::StatusOr<WholeFrames> FindWhole(const RandomAccessFile& file, const WalkOptions& options,
                                        bool is_cut) const override {
    auto header = ReadHeader(file, options);
    if (!header.ok() && GetRecordError(header.status()).has_value()) {
      return WholeFrames{{}, 0, header.status()};
    }
    MILLRACE_RETURN_IF_ERROR(header.status());
    const uint64_t first = header->bytes;
    if (const absl::Status fits =
            CheckRecord(file, first, header->record_bytes, options.max_record_bytes);
        !fits.ok()) {
      return WholeFrames{{}, first, fits};
    }
    const uint64_t there = std::min((file.size() - first) / header->record_bytes, header->count);
    const uint64_t end = first + there * header->record_bytes;
    WholeFrames whole{RecordIndex::Regular(first, header->record_bytes, there), end,
                      absl::OkStatus()};
    if (is_cut) return whole;
    if (there < header->count) {
      whole.damage =
          Damaged(file, there, end, RecordErrorReason::kTruncatedPayload,
                  absl::StrCat("the file ends inside this record; its header says ", header->count,
                               " records of ", header->record_bytes, " bytes"));
    } else if (end < file.size()) {
      whole.damage = Damaged(
          file, there, end, RecordErrorReason::kUnknown,
          absl::StrCat(file.size() - end, " bytes follow the ", header->count, " records of ",
                       header->record_bytes, " bytes that its header says"));
    }
    return whole;
  }

 private:
  static constexpr size_t kMagicBytes = 4;

  struct Header {
    uint64_t bytes = 0;
    uint64_t count = 0;
    uint64_t record_bytes = 0;  // at least 1
  };

  // Bytes of an element; 0: there is no such type.
  static uint64_t SizeOfType(std::byte type) {
    switch (std::to_integer<int>(type)) {
      case 0x08:  // uint8
      case 0x09:  // int8
        return 1;
      case 0x0b:  // int16
        return 2;
      case 0x0c:  // int32
      case 0x0d:  // float32
        return 4;
      case 0x0e:  // float64
        return 8;
      default:
        return 0;
    }
  }

  static absl::StatusOr<Header> ReadHeader(const RandomAccessFile& file,
                                           const WalkOptions& options) {
    std::array<std::byte, kMagicBytes + 255 * 4> bytes = {};
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
    MILLRACE_RETURN_IF_ERROR(CheckPlain(file, options));
    const uint64_t element = got < kMagicBytes ? 0 : SizeOfType(bytes[2]);
    const auto dimensions = std::to_integer<uint64_t>(bytes[3]);
    if (got < kMagicBytes) return CutHeader(file, got);
    if (bytes[0] != std::byte{0} || bytes[1] != std::byte{0} || element == 0 || dimensions == 0) {
      return Damaged(file, 0, 0, RecordErrorReason::kUnknown,
                     absl::StrCat("not an IDX file",
                                  ButForeign({reinterpret_cast<const char*>(bytes.data()), got}),
                                  ": its first bytes are not 0, 0, a type and a number of "
                                  "dimensions"));
    }
    Header header;
    header.bytes = kMagicBytes + 4 * dimensions;
    if (got < header.bytes) return CutHeader(file, got);
    header.count = LoadBigEndianU32(&bytes[kMagicBytes]);
    header.record_bytes = element;
    for (uint64_t i = 1; i < dimensions; ++i) {
      const uint64_t extent = LoadBigEndianU32(&bytes[kMagicBytes + 4 * i]);
      if (extent == 0) {
        return Damaged(file, 0, kMagicBytes + 4 * i, RecordErrorReason::kUnknown,
                       absl::StrCat("dimension ", i, " has an extent of 0"));
      }
      if (header.record_bytes > options.max_record_bytes / extent) {
        return Damaged(file, 0, kMagicBytes + 4 * i, RecordErrorReason::kAbsurdLength,
                       absl::StrCat("records of more than ", options.max_record_bytes,
                                    " bytes, which is the limit"));
      }
      header.record_bytes *= extent;
    }
    return header;
  }

  static absl::Status CutHeader(const RandomAccessFile& file, uint64_t size) {
    return Damaged(file, 0, size, RecordErrorReason::kTruncatedHeader,
                   "the file ends inside its header");
  }
};

}  // namespace

std::unique_ptr<const Container> MakeFixedLengthContainer(const ContainerOptions& options) {
  return std::make_unique<FixedLengthContainer>(options);
}

std::unique_ptr<const Container> MakeIdxContainer() { return std::make_unique<IdxContainer>(); }

}  // namespace millrace::readers
