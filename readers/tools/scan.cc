#include "readers/scan.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/parts.h"
#include "readers/foreign_kind.h"
#include "readers/http_options.h"
#include "readers/image/labels.h"
#include "readers/image/listing.h"
#include "readers/image_header.h"
#include "readers/open_file.h"
#include "readers/record_reader.h"
#include "readers/shard_stamp.h"
#include "readers/source/csv_header.h"

namespace millrace::readers {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code error;
  return !IsUrl(path) && std::filesystem::is_directory(path, error);
}

// True if a page (IsPage) in place of the file is read as records.
bool TakesPages(const ContainerOptions& container) {
  return container.kind == ContainerKind::kFixedLength ||
         (container.kind == ContainerKind::kText && !container.skips_blank);
}

// True for an error of the file rather than of what is in it. INVALID_ARGUMENT is one too where the
// file cannot even be looked at: of a name that is too long.
bool IsOfReading(const absl::Status& status, const std::string& file) {
  const bool is_of_file = !absl::IsInvalidArgument(status) || !StampOf(file).ok();
  return !status.ok() && !absl::IsDataLoss(status) && is_of_file;
}

// One path for one visitor.
class Scanner {
 public:
  Scanner(const std::string& path, const ScanOptions& options, const ScanVisitor& visitor)
      : path_(path), options_(options), visitor_(visitor) {}

  ScanFacts Run() {
    const ScanKind kind = KindOf(path_, options_.container);
    facts_.unreadable = ReadAs(kind);
    facts_.whole = facts_.unreadable.ok() && facts_.unreadable_images.empty() && goes_on_;
    return std::move(facts_);
  }

 private:
  absl::Status ReadAs(const ScanKind& kind) {
    if (kind.is_folder) return Images();
    MILLRACE_RETURN_IF_ERROR(LookAt());
    return kind.container.kind == ContainerKind::kTfRecord ? Frames() : Parts(kind.container);
  }

  absl::Status LookAt() {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const RandomAccessFile> file, OpenFile(path_));
    facts_.file_bytes = file->size();
    facts_.compression = options_.compression;
    if (options_.compression != Compression::kAuto) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(facts_.compression, DetectCompression(*file));
    return absl::OkStatus();
  }

  void OnRecord(const ScannedRecord& record) {
    if (may_be_page_ && IsPage(record.payload)) NotePage(record.payload);
    may_be_page_ = may_be_page_ && record.payload.empty();
    if (visitor_.on_record && !visitor_.on_record(record)) goes_on_ = false;
  }
  void OnDamage(const absl::Status& status) {
    if (visitor_.on_damage && !visitor_.on_damage(status)) goes_on_ = false;
  }
  void NotePage(std::string_view first) {
    facts_.notes.push_back(
        absl::StrCat(path_, " begins like ", ToAbsl(ForeignKind(first)), "; it is read as it is"));
  }
  void Advance(uint64_t bytes) {
    if (visitor_.advanced && facts_.compression == Compression::kNone) visitor_.advanced(bytes);
  }

  absl::Status Frames() {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto reader, OpenTfRecordReader(path_, {.compression = facts_.compression,
                                                      .max_record_bytes = options_.max_record_bytes,
                                                      .resync = true}));
    while (goes_on_) {
      const absl::StatusOr<std::optional<readers::Record>> record = reader->Next();
      if (!record.ok() && !GetRecordError(record.status()).has_value()) return record.status();
      if (!record.ok()) {
        OnDamage(record.status());
        goes_on_ = goes_on_ && reader->ReadsOn();
        continue;
      }
      if (!record->has_value()) return absl::OkStatus();
      const RecordRef& ref = (*record)->ref;
      OnRecord({path_, ref.offset, ref.ordinal, (*record)->payload});
      Advance(ref.offset + ref.length + kFrameBytes);
    }
    return absl::OkStatus();
  }

  absl::Status Parts(const ContainerOptions& container) {
    absl::StatusOr<InflatedShard> shard = OpenInflated(path_, options_.compression, container);
    if (!shard.ok()) return DamageIfPlaced(shard.status());
    facts_.compression = shard->compression;
    may_be_page_ = TakesPages(container);
    MILLRACE_RETURN_IF_ERROR(Columns(*shard, container));
    const auto on_part = [&](const ShardPart& part) {
      Advance(part.offset + part.bytes);
      if (part.damage.ok()) {
        OnRecord({path_, part.offset, part.ordinal, part.payload});
      } else {
        OnDamage(part.damage);
      }
      return goes_on_ ? absl::OkStatus() : absl::CancelledError("");
    };
    const absl::Status walked = WalkParts(*shard, container, options_.max_record_bytes, on_part);
    return goes_on_ ? DamageIfPlaced(walked) : absl::OkStatus();
  }

  // The row that names the columns, unless the walk is to say that the file's begin is lost, or is
  // none of text.
  absl::Status Columns(const InflatedShard& shard, const ContainerOptions& container) {
    const bool has_names = container.kind == ContainerKind::kCsv && container.has_header;
    if (!visitor_.on_columns || !has_names) return absl::OkStatus();
    if (!shard.lost.empty() && shard.lost.front().begin == 0) return absl::OkStatus();
    WalkOptions walk;
    walk.plain = shard.compression == Compression::kNone;
    const absl::Status begin = BeginOfText(*shard.file, walk, container).status();
    if (GetRecordError(begin).has_value()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(begin);
    return visitor_.on_columns(ReadCsvHeader(*shard.file, container.delimiter));
  }

  // An error that names a place of the file is damage.
  absl::Status DamageIfPlaced(const absl::Status& status) {
    if (status.ok() || !GetRecordError(status).has_value()) return status;
    OnDamage(status);
    goes_on_ = false;
    return absl::OkStatus();
  }

  absl::Status Images() {
    MILLRACE_ASSIGN_OR_RETURN(const internal::ImageListing listing, internal::ListImages(path_));
    const auto note = [&](std::string_view text) { facts_.notes.emplace_back(text); };
    if (listing.paths.empty()) return NoImages(listing.left_out);
    MILLRACE_RETURN_IF_ERROR(internal::TellLeftOut(listing, {.warn = note}, path_));
    for (const std::string& name : listing.paths) {
      MILLRACE_RETURN_IF_ERROR(Image(internal::PathIn(path_, name)));
      if (!goes_on_) break;
    }
    return absl::OkStatus();
  }

  absl::Status NoImages(const std::vector<std::string>& left_out) const {
    const absl::Status status = internal::NoImages(path_, left_out);
    if (!left_out.empty()) return status;
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), "; if its files hold records, name them: ", path_, "/*"));
  }

  // An image is a file and a record of its own, as a pipeline has them.
  absl::Status Image(const std::string& file) {
    const auto bytes = ReadWholeFile(file, internal::kMaxImageBytes);
    if (bytes.ok()) facts_.file_bytes += bytes->size();
    const absl::Status status = bytes.ok() ? ReadImageHeader(*bytes).status() : bytes.status();
    if (absl::IsResourceExhausted(status)) return Annotate(status, file);
    if (IsOfReading(bytes.status(), file)) {
      facts_.unreadable_images.push_back({file, std::string(status.message())});
      return absl::OkStatus();
    }
    if (status.ok()) {
      OnRecord({file, 0, 0, *bytes});
      return absl::OkStatus();
    }
    RecordError place;
    place.file = file;
    place.offset = 0;
    place.ordinal = 0;
    place.reason = bytes.ok() ? RecordErrorReason::kImage : RecordErrorReason::kUnknown;
    OnDamage(MakeRecordError(absl::StatusCode::kDataLoss, place, ToStd(status.message())));
    return absl::OkStatus();
  }

  const std::string& path_;
  const ScanOptions& options_;
  const ScanVisitor& visitor_;
  ScanFacts facts_;
  bool may_be_page_ = false;  // true if all records so far are empty, and a page is taken for some
  bool goes_on_ = true;       // false once the visitor has seen enough, or the file tells no more
};

}  // namespace

ScanKind KindOf(const std::string& path, const std::optional<ContainerOptions>& container) {
  if (container.has_value()) return {.container = *container};
  if (IsFolder(path)) return {.is_folder = true};
  return {.container = ContainerOfName(path)};
}

ScanFacts Scan(const std::string& path, const ScanOptions& options, const ScanVisitor& visitor) {
  return Scanner(path, options, visitor).Run();
}

}  // namespace millrace::readers
