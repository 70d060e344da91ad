#include "readers/text/tar_sample.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/tar_walk.h"

namespace millrace::readers::internal {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kChecksumAt = 148;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kTypeAt = 156;

// The text of a header's field, up to its first NUL.
std::string_view Field(std::string_view header, size_t at, size_t size) {
  const std::string_view field = header.substr(at, size);
  return field.substr(0, field.find('\0'));
}

// Octal digits with blanks around them, or (GNU, for what is too large) 0x80 and a binary number.
std::optional<uint64_t> ParseNumber(std::string_view field) {
  uint64_t number = 0;
  if (!field.empty() && static_cast<uint8_t>(field[0]) == 0x80) {
    for (const char c : field.substr(1)) {
      if (number >> 56 != 0) return std::nullopt;
      number = number << 8 | static_cast<uint8_t>(c);
    }
    return number;
  }
  const size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  field = field.substr(begin);
  const char* const end = field.data() + field.size();
  const auto [stopped, error] = std::from_chars(field.data(), end, number, 8);
  const bool ended = stopped == end || *stopped == ' ' || *stopped == '\0';
  return error == std::errc() && ended ? std::optional(number) : std::nullopt;
}

// Writers have summed the bytes as unsigned and as signed ones; both are taken.
bool ChecksumOk(std::string_view header) {
  uint64_t sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool inside = i >= kChecksumAt && i < kChecksumAt + kChecksumBytes;
    const char c = inside ? ' ' : header[i];
    sum += static_cast<uint8_t>(c);
    signed_sum += static_cast<signed char>(c);
  }
  const auto stored = ParseNumber(header.substr(kChecksumAt, kChecksumBytes));
  return stored && (*stored == sum || static_cast<int64_t>(*stored) == signed_sum);
}

// The facts that earlier headers tell of the next member.
struct Overrides {
  std::optional<std::string> path;
  std::optional<uint64_t> size;
};

// "27 path=a/long/name.jpg\n" and so on, each with its own length. False: damaged.
bool ReadPax(std::string_view records, Overrides* next) {
  while (!records.empty()) {
    size_t length = 0;
    const char* const end = records.data() + records.size();
    const auto [space, error] = std::from_chars(records.data(), end, length);
    const auto digits = static_cast<size_t>(space - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 2) return false;
    if (*space != ' ' || records[length - 1] != '\n') return false;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view value = record.substr(equals + 1);
    if (record.substr(0, equals) == "path") next->path = std::string(value);
    if (record.substr(0, equals) == "size") {
      uint64_t size = 0;
      const char* const value_end = value.data() + value.size();
      const auto [stopped, bad] = std::from_chars(value.data(), value_end, size);
      if (bad != std::errc() || stopped != value_end) return false;
      next->size = size;
    }
    records.remove_prefix(length);
  }
  return true;
}

std::string ExtensionOf(std::string_view path) {
  path = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return "";
  return absl::AsciiStrToLower(ToAbsl(path.substr(dot + 1)));
}

std::string PathOf(std::string_view header) {
  const std::string_view name = Field(header, 0, 100);
  const std::string_view folders = Field(header, 345, 155);
  const bool has_folders = header.substr(257, 6) == std::string_view("ustar\0", 6);
  return has_folders && !folders.empty() ? absl::StrCat(ToAbsl(folders), "/", ToAbsl(name))
                                         : std::string(name);
}

class SampleReader {
 public:
  explicit SampleReader(std::string_view blocks) : blocks_(blocks) {}

  absl::StatusOr<std::vector<TarMember>> Read() {
    while (at_ < blocks_.size()) {
      if (blocks_.size() - at_ < kBlock) return Error("ends inside a header");
      const std::string_view header = blocks_.substr(at_, kBlock);
      if (header.find_first_not_of('\0') == std::string_view::npos) break;
      MILLRACE_RETURN_IF_ERROR(ReadMember(header));
    }
    return std::move(members_);
  }

 private:
  absl::Status Error(std::string_view text) const {
    return absl::DataLossError(absl::StrCat("not a tar sample: byte ", at_, ": ", ToAbsl(text)));
  }

  static bool HasData(char type) {
    return type < '1' || type > '6';  // links, devices and folders have none, even if they say so
  }

  absl::Status ReadMember(std::string_view header) {
    if (!ChecksumOk(header)) return Error("a header's checksum is wrong");
    const char type = header[kTypeAt];
    const auto said = ParseNumber(header.substr(124, 12));
    if (!said) return Error("a member's size is no number");
    uint64_t size = HasData(type) ? *said : 0;
    const bool describes = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (!describes && HasData(type) && next_.size) size = *next_.size;
    const size_t begin = at_ + kBlock;
    if (size > blocks_.size() - begin) return Error("ends inside a member");
    const std::string_view data = blocks_.substr(begin, size);
    if (describes) {
      MILLRACE_RETURN_IF_ERROR(Describe(type, data));
    } else {
      if (type == '0' || type == '\0' || type == '7') {
        std::string path = next_.path ? *std::move(next_.path) : PathOf(header);
        std::string extension = ExtensionOf(path);
        const bool is_of_sample = !TarSampleKey(path).empty();
        if (is_of_sample) members_.push_back({std::move(path), std::move(extension), data});
      } else if (type == 'S') {
        return Error("a sparse member");
      }
      next_ = {};
    }
    // The last block may be cut where its padding begins.
    at_ = std::min(begin + (size + kBlock - 1) / kBlock * kBlock, blocks_.size());
    return absl::OkStatus();
  }

  absl::Status Describe(char type, std::string_view data) {
    if (type == 'L') next_.path = std::string(data.substr(0, data.find('\0')));
    if (type == 'x' && !ReadPax(data, &next_)) return Error("a PAX header is damaged");
    return absl::OkStatus();
  }

  const std::string_view blocks_;
  size_t at_ = 0;
  Overrides next_;
  std::vector<TarMember> members_;
};

}  // namespace

absl::StatusOr<std::vector<TarMember>> ReadTarSample(std::string_view blocks) {
  return SampleReader(blocks).Read();
}

}  // namespace millrace::readers::internal
