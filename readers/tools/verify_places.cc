#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io.h"
#include "base/status.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/parts.h"
#include "readers/damage/tfrecord.h"
#include "readers/example/parser.h"
#include "readers/example/sequence_parser.h"
#include "readers/image/labels.h"
#include "readers/image_header.h"
#include "readers/inflate/byte_source.h"
#include "readers/open_file.h"
#include "readers/record_reader.h"
#include "readers/repair.h"
#include "readers/tools/repair.h"

// The records that a quarantine names are read again.

namespace millrace::readers {
namespace {

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Checks the frame at a place of a plain file.
absl::Status CheckFrame(const RandomAccessFile& file, const RecordError& place, uint64_t max_bytes,
                        std::vector<std::byte>* payload) {
  const auto offset = static_cast<uint64_t>(place.offset);
  if (place.offset < 0 || offset >= file.size()) {
    return DamageAt(place, RecordErrorReason::kTruncatedHeader, "the file ends before it");
  }
  if (file.size() - offset < kFrameBytes) {
    return DamageAt(place, RecordErrorReason::kTruncatedHeader, "the file ends inside a header");
  }
  std::byte bytes[kHeaderBytes];
  MILLRACE_RETURN_IF_ERROR(ReadFully(file, offset, bytes));
  const FrameHeader header = DecodeHeader(bytes);
  if (!header.crc_ok) {
    return DamageAt(place, RecordErrorReason::kLengthCrc, "the CRC of the length does not match");
  }
  if (header.length > std::min(max_bytes, kMaxLength)) {
    return DamageAt(place, RecordErrorReason::kAbsurdLength,
                    absl::StrCat("a record of ", header.length, " bytes"));
  }
  if (header.length > file.size() - offset - kFrameBytes) {
    return DamageAt(place, RecordErrorReason::kTruncatedPayload, "the file ends inside it");
  }
  const absl::Status status = ReadFramedPayload(file, offset, header.length, payload);
  if (!absl::IsDataLoss(status)) return status;
  return DamageAt(place, RecordErrorReason::kDataCrc, ToStd(status.message()));
}

// Of a record whose bytes are whole.
absl::Status CheckContent(const RecordError& listed, std::string_view payload) {
  if (!IsOfContent(listed.reason)) return absl::OkStatus();
  internal::WireError error;
  if (!internal::CheckExample(payload, &error)) {
    return DamageAt(listed, RecordErrorReason::kExample,
                    "not a tf.train.Example: " + error.ToString());
  }
  if (!internal::CheckSequenceExample(payload, &error)) {
    return DamageAt(listed, RecordErrorReason::kExample,
                    "not a tf.train.SequenceExample: " + error.ToString());
  }
  if (listed.reason == RecordErrorReason::kExample) return absl::OkStatus();
  return DamageAt(listed, listed.reason, "whole, but a pipeline could not use it");
}

// The place is in `listed`, so the text is without it where it is the same.
PlaceCheck Checked(const RecordError& listed, const absl::Status& status) {
  const std::optional<RecordError> found = GetRecordError(status);
  const bool same = found.has_value() && found->file == listed.file &&
                    found->ordinal == listed.ordinal && found->offset == listed.offset;
  std::string_view text = same ? TextOfDamage(status, *found) : ToStd(status.message());
  const std::string file = listed.file + ": ";
  if (text.starts_with(file)) text.remove_prefix(file.size());
  const bool damaged = absl::IsDataLoss(status);
  return {listed, damaged, !status.ok() && !damaged, std::string(text)};
}

// The findings of a reader that goes through the file, at each offset where it stops.
class CompressedCheck {
 public:
  CompressedCheck(const std::string& path, std::span<const RecordError* const> places,
                  uint64_t max_bytes) {
    for (const RecordError* place : places) wanted_[place->offset] = place;
    auto reader = OpenTfRecordReader(path, {.max_record_bytes = max_bytes, .resync = true});
    end_ = reader.status();
    while (end_.ok() && found_.size() < wanted_.size()) {
      const auto record = (*reader)->Next();
      if (!record.ok()) {
        const std::optional<RecordError> error = GetRecordError(record.status());
        if (error.has_value() && wanted_.contains(error->offset)) {
          found_[error->offset] = record.status();
        }
        if (!(*reader)->ReadsOn()) end_ = record.status();
        continue;
      }
      if (!record->has_value()) break;
      const auto place = wanted_.find(static_cast<int64_t>((*record)->ref.offset));
      if (place == wanted_.end()) continue;
      found_[place->first] = CheckContent(*place->second, (*record)->payload);
    }
  }
  absl::Status At(const RecordError& place) const {
    const auto found = found_.find(place.offset);
    if (found != found_.end()) return found->second;
    if (!end_.ok()) return end_;
    return DamageAt(place, RecordErrorReason::kTruncatedHeader, "no record begins there");
  }

 private:
  std::map<int64_t, const RecordError*> wanted_;
  std::map<int64_t, absl::Status> found_;
  absl::Status end_;
};

using Places = std::span<const RecordError* const>;
using Slots = std::span<PlaceCheck* const>;  // one for each place

// Of TFRecord.
absl::Status VerifyFrames(const std::string& path, Places places, uint64_t max_bytes, Slots slots) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, OpenFile(path));
  MILLRACE_ASSIGN_OR_RETURN(const Compression compression, DetectCompression(*file));
  std::optional<CompressedCheck> compressed;
  if (compression != Compression::kNone) compressed.emplace(path, places, max_bytes);
  std::vector<std::byte> payload;
  for (size_t i = 0; i < places.size(); ++i) {
    absl::Status at;
    if (compressed.has_value()) {
      at = compressed->At(*places[i]);
    } else {
      at = CheckFrame(*file, *places[i], max_bytes, &payload);
      if (at.ok()) at = CheckContent(*places[i], TextOf(payload));
    }
    *slots[i] = Checked(*places[i], at);
  }
  return absl::OkStatus();
}

// Of another container: its file is gone through.
absl::Status VerifyParts(const std::string& path, const ContainerOptions& container, Places places,
                         uint64_t max_bytes, Slots slots) {
  std::multimap<int64_t, size_t> wanted;
  for (size_t i = 0; i < places.size(); ++i) {
    wanted.emplace(places[i]->offset, i);
    *slots[i] = Checked(
        *places[i], DamageAt(*places[i], RecordErrorReason::kUnknown, "no record begins there"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const InflatedShard shard,
                            OpenInflated(path, Compression::kAuto, container));
  const auto on_part = [&](const ShardPart& part) {
    const auto begin = static_cast<int64_t>(part.offset);
    // Damage of no bytes, where a stream ends, is at its offset all the same.
    const auto end = begin + std::max<int64_t>(static_cast<int64_t>(part.bytes), 1);
    for (auto at = wanted.lower_bound(begin); at != wanted.end() && at->first < end; ++at) {
      const RecordError& listed = *places[at->second];
      absl::Status status = part.damage;
      if (status.ok() && listed.offset != begin) continue;
      const bool by_pipeline =
          IsOfContent(listed.reason) && listed.reason != RecordErrorReason::kExample;
      if (status.ok() && by_pipeline) {
        status = DamageAt(listed, listed.reason, "whole, but a pipeline could not use it");
      }
      if (status.ok() && IsBehindLost(shard, part.offset)) {
        status =
            DamageAt(listed, listed.reason,
                     "whole, but bytes of the stream are lost in front of it: it may not be the "
                     "record that was meant");
      }
      *slots[at->second] = Checked(listed, status);
    }
    return absl::OkStatus();
  };
  return WalkParts(shard, container, max_bytes, on_part);
}

// Of an image, which is a file and a record of its own: its header.
absl::Status VerifyImage(const std::string& path, Places places, Slots slots) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path, internal::kMaxImageBytes));
  const absl::Status header = ReadImageHeader(bytes).status();
  for (size_t i = 0; i < places.size(); ++i) {
    absl::Status status;
    if (!header.ok()) {
      status = DamageAt(*places[i], RecordErrorReason::kImage, ToStd(header.message()));
    } else if (IsOfContent(places[i]->reason)) {
      status = DamageAt(*places[i], places[i]->reason, "whole, but a pipeline could not use it");
    }
    *slots[i] = Checked(*places[i], status);
  }
  return absl::OkStatus();
}

absl::Status VerifyFile(const std::string& path, const VerifyPlacesOptions& options, Places places,
                        Slots slots) {
  if (!options.container.has_value() && internal::IsImagePath(path)) {
    return VerifyImage(path, places, slots);
  }
  const ContainerOptions container = options.container.value_or(ContainerOfName(path));
  if (container.kind == ContainerKind::kTfRecord) {
    return VerifyFrames(path, places, options.max_record_bytes, slots);
  }
  return VerifyParts(path, container, places, options.max_record_bytes, slots);
}

}  // namespace

bool IsOfContent(RecordErrorReason reason) {
  return reason == RecordErrorReason::kExample || reason == RecordErrorReason::kFeature ||
         reason == RecordErrorReason::kImage || reason == RecordErrorReason::kValue;
}

absl::Status DamageAt(RecordError where, RecordErrorReason reason, std::string_view text) {
  where.reason = reason;
  where.position = -1;
  return MakeRecordError(absl::StatusCode::kDataLoss, where, text);
}

std::vector<PlaceCheck> VerifyPlaces(std::span<const RecordError> places,
                                     const VerifyPlacesOptions& options) {
  std::vector<PlaceCheck> checks(places.size());
  std::map<std::string, std::vector<size_t>> by_file;
  for (size_t i = 0; i < places.size(); ++i) by_file[places[i].file].push_back(i);
  for (const auto& [path, indices] : by_file) {
    std::vector<const RecordError*> listed;
    std::vector<PlaceCheck*> slots;
    for (const size_t i : indices) {
      listed.push_back(&places[i]);
      slots.push_back(&checks[i]);
    }
    const absl::Status read = VerifyFile(path, options, listed, slots);
    if (read.ok()) continue;
    for (size_t i = 0; i < slots.size(); ++i) *slots[i] = Checked(*listed[i], read);
  }
  return checks;
}

}  // namespace millrace::readers
