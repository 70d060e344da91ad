#include "readers/container/tar_walk.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

// Windows as the walk over TFRecord headers has them: wide while members are small.
constexpr size_t kWideWindow = 256 << 10;
constexpr size_t kNarrowWindow = 4 << 10;
constexpr uint64_t kLargeMember = 64 << 10;
constexpr uint64_t kMostExtra = 1 << 20;  // of a long name, or of pax records

// Fields of a header.
struct Place {
  size_t at;
  size_t size;
};
constexpr Place kName = {0, 100};
constexpr Place kSize = {124, 12};
constexpr Place kChecksum = {148, 8};
constexpr size_t kType = 156;
constexpr Place kMagic = {257, 6};
constexpr Place kPrefix = {345, 155};

std::string_view FieldOf(std::string_view header, Place place) {
  return header.substr(place.at, place.size);
}

// Up to the first NUL.
std::string_view Text(std::string_view field) { return field.substr(0, field.find('\0')); }

// Octal digits between spaces and NULs.
std::optional<uint64_t> Octal(std::string_view field) {
  const size_t begin = std::min(field.find_first_not_of(' '), field.size());
  const size_t end = std::min(field.find_first_of(std::string_view(" \0", 2), begin), field.size());
  uint64_t value = 0;
  const auto [last, error] =
      std::from_chars(field.data() + begin, field.data() + end, value, /*base=*/8);
  if (error != std::errc() || last != field.data() + end) return std::nullopt;
  return value;
}

// Octal, or, with the highest bit set, big-endian in base 256.
std::optional<uint64_t> Number(std::string_view field) {
  if ((static_cast<uint8_t>(field[0]) & 0x80) == 0) return Octal(field);
  uint64_t value = static_cast<uint8_t>(field[0]) & 0x7f;
  for (const char c : field.substr(1)) {
    if (value >> 55 != 0) return std::nullopt;
    value = value << 8 | static_cast<uint8_t>(c);
  }
  return value;
}

uint64_t Padded(uint64_t size) { return (size + kTarBlock - 1) / kTarBlock * kTarBlock; }

bool IsZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

}  // namespace

std::string TooManyZeros(uint64_t bytes) {
  return absl::StrCat("the archive ends in ", bytes,
                      " bytes of zeros, which are too many for its end mark");
}

struct TarWalk::Extras {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
  bool is_sparse = false;
  bool any = false;
};

TarWalk::TarWalk(const RandomAccessFile& file, uint64_t max_member_bytes, bool is_part,
                 bool begins_narrow)
    : file_(file),
      max_member_bytes_(max_member_bytes),
      is_part_(is_part),
      window_(is_part ? kTarBlock : kWideWindow),
      wide_bytes_(begins_narrow ? kNarrowWindow : kWideWindow) {}

std::string_view TarWalk::header() const {
  return {reinterpret_cast<const char*>(window_.data()) + (at_ - window_begin_), kTarBlock};
}

absl::StatusOr<std::optional<TarMember>> TarWalk::Next() {
  begin_ = at_;
  Extras extras;
  while (true) {
    if (at_ == file_.size() && is_part_ && !extras.any) return std::nullopt;
    MILLRACE_RETURN_IF_ERROR(LoadHeader());
    if (IsZero(header())) {
      if (is_part_ || extras.any) {
        return Damaged(RecordErrorReason::kLengthCrc, "an end mark where a member should follow");
      }
      return std::nullopt;
    }
    MILLRACE_RETURN_IF_ERROR(CheckSum());
    const char type = header()[kType];
    const bool is_extra = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!is_extra) return MakeMember(begin_, extras);
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t size, Size());
    MILLRACE_RETURN_IF_ERROR(ReadExtra(type, size, &extras));
    extras.any = true;
  }
}

absl::Status TarWalk::LoadHeader() {
  const uint64_t remaining = file_.size() - at_;
  if (remaining == 0) {
    return Damaged(RecordErrorReason::kTruncatedHeader, std::string(kNoTarEnd));
  }
  if (remaining < kTarBlock) {
    return Damaged(
        RecordErrorReason::kTruncatedHeader,
        absl::StrCat("the file ends after ", remaining, " of ", kTarBlock, " bytes of a header"));
  }
  if (at_ >= window_begin_ && at_ + kTarBlock <= window_end_) return absl::OkStatus();
  const uint64_t want = std::min<uint64_t>(
      {last_size_ >= kLargeMember ? kNarrowWindow : wide_bytes_, window_.size(), remaining});
  wide_bytes_ = std::min<uint64_t>(2 * wide_bytes_, kWideWindow);
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(at_, {window_.data(), want}));
  window_begin_ = at_;
  window_end_ = at_ + got;
  if (got >= kTarBlock) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": shrank to ", window_end_, " bytes while it was being read"));
}

// The sum of all bytes, those of the checksum itself counting as spaces. Old programs summed signed
// chars.
absl::Status TarWalk::CheckSum() {
  uint64_t sum = kChecksum.size * ' ';
  int64_t signed_sum = kChecksum.size * ' ';
  for (size_t i = 0; i < kTarBlock; ++i) {
    if (i >= kChecksum.at && i < kChecksum.at + kChecksum.size) continue;
    sum += static_cast<uint8_t>(header()[i]);
    signed_sum += static_cast<int8_t>(header()[i]);
  }
  const std::optional<uint64_t> stored = Octal(FieldOf(header(), kChecksum));
  if (stored == sum || (stored.has_value() && static_cast<int64_t>(*stored) == signed_sum)) {
    return absl::OkStatus();
  }
  return Damaged(
      RecordErrorReason::kLengthCrc,
      absl::StrCat("the checksum of a header does not match",
                   at_ > 0 ? "" : "; is this a tar archive, and is the compression right?"));
}

absl::StatusOr<uint64_t> TarWalk::Size() {
  const std::optional<uint64_t> size = Number(FieldOf(header(), kSize));
  if (size.has_value()) return *size;
  return Damaged(RecordErrorReason::kUnknown, "the size of this member is no number");
}

absl::Status TarWalk::ReadExtra(char type, uint64_t size, Extras* extras) {
  if (size > kMostExtra) {
    return Damaged(
        RecordErrorReason::kAbsurdLength,
        absl::StrCat("a name or pax records of ", size, " bytes; the limit is ", kMostExtra));
  }
  if (Padded(size) > file_.size() - at_ - kTarBlock) {
    return Damaged(RecordErrorReason::kTruncatedPayload, "the file ends inside a long name");
  }
  std::string text(size, '\0');
  MILLRACE_RETURN_IF_ERROR(
      ReadFully(file_, at_ + kTarBlock, std::as_writable_bytes(std::span(text))));
  if (type == 'L') extras->name = std::string(Text(text));
  if (type == 'x') MILLRACE_RETURN_IF_ERROR(ReadPax(text, extras));
  at_ += kTarBlock + Padded(size);
  return absl::OkStatus();
}

// "LENGTH KEY=VALUE\n", again and again; LENGTH counts all of it.
absl::Status TarWalk::ReadPax(std::string_view records, Extras* extras) {
  while (!records.empty()) {
    size_t length = 0;
    const char* const end = records.data() + records.size();
    const auto [digits_end, error] = std::from_chars(records.data(), end, length);
    const auto digits = static_cast<size_t>(digits_end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 2 ||
        records[digits] != ' ' || records[length - 1] != '\n') {
      return Damaged(RecordErrorReason::kUnknown, "a pax record that is none");
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::string_view key = record.substr(0, record.find('='));
    const std::string_view value = record.substr(std::min(key.size() + 1, record.size()));
    if (key == "path") extras->name = std::string(value);
    if (key == "size") {
      uint64_t size = 0;
      const auto [last, bad] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (bad != std::errc() || last != value.data() + value.size()) {
        return Damaged(RecordErrorReason::kUnknown, "a size of pax that is no number");
      }
      extras->size = size;
    }
    if (key.starts_with("GNU.sparse.")) extras->is_sparse = true;
    if (key == "GNU.sparse.name") extras->name = std::string(value);
    records.remove_prefix(length);
  }
  return absl::OkStatus();
}

absl::StatusOr<TarMember> TarWalk::MakeMember(uint64_t begin, const Extras& extras) {
  const char type = header()[kType];
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t header_size, Size());
  TarMember member;
  const std::string_view name = Text(FieldOf(header(), kName));
  const std::string_view prefix = Text(FieldOf(header(), kPrefix));
  const bool has_prefix = FieldOf(header(), kMagic) == std::string_view("ustar\0", 6);
  member.name = extras.name.value_or(has_prefix && !prefix.empty()
                                         ? absl::StrCat(ToAbsl(prefix), "/", ToAbsl(name))
                                         : std::string(name));
  const bool has_data = type < '1' || type > '6';  // those are links, devices and folders
  const bool is_sparse = extras.is_sparse || type == 'S';
  member.is_file =
      (type == '0' || type == '\0' || type == '7' || is_sparse) && !member.name.ends_with('/');
  member.begin = begin;
  member.data = at_ + kTarBlock;
  member.size = has_data ? extras.size.value_or(header_size) : 0;
  member.end = member.size > UINT64_MAX - kTarBlock - member.data
                   ? UINT64_MAX
                   : member.data + Padded(member.size);
  const absl::Status status = CheckMember(member, is_sparse);
  if (!status.ok()) {
    fault_.member = std::move(member);
    return status;
  }
  at_ = member.end;
  last_size_ = member.size;
  return member;
}

absl::Status TarWalk::CheckMember(const TarMember& member, bool is_sparse) {
  if (is_sparse) {
    return Damaged(RecordErrorReason::kUnknown, "a sparse member, which cannot be read");
  }
  if (member.size > max_member_bytes_ && member.is_file) {
    return Damaged(
        RecordErrorReason::kAbsurdLength,
        absl::StrCat("a member of ", member.size, " bytes; the limit is ", max_member_bytes_));
  }
  if (member.end > file_.size()) {
    return Damaged(RecordErrorReason::kTruncatedPayload,
                   absl::StrCat("the file ends inside a member of ", member.size, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status TarWalk::CheckRest() {
  while (at_ < file_.size()) {
    const uint64_t want = std::min<uint64_t>(window_.size(), file_.size() - at_);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(at_, {window_.data(), want}));
    if (got == 0) break;
    window_begin_ = at_;
    window_end_ = at_ + got;
    const std::string_view bytes(reinterpret_cast<const char*>(window_.data()), got);
    const size_t other = bytes.find_first_not_of('\0');
    if (other != bytes.npos) {
      at_ += other;
      return Damaged(RecordErrorReason::kUnknown, std::string(kBehindTarEnd));
    }
    at_ += got;
  }
  return absl::OkStatus();
}

absl::Status TarWalk::Damaged(RecordErrorReason reason, std::string text) {
  fault_ = {.reason = reason, .text = std::move(text), .begin = begin_, .member = std::nullopt};
  RecordRef ref;
  ref.offset = at_;
  return DamagedRecord(file_.path(), ref, reason, fault_.text);
}

std::string_view TarSampleKey(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  constexpr std::string_view kMeta = "__";
  if (first.size() >= 2 * kMeta.size() && first.starts_with(kMeta) && first.ends_with(kMeta)) {
    return {};
  }
  const size_t last = name.rfind('/') + 1;  // of the last part, or 0
  const size_t dot = name.find('.', last);
  return dot == name.npos || dot == last ? std::string_view() : name.substr(0, dot);
}

}  // namespace millrace::readers
