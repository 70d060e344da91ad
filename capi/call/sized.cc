#include "capi/call/sized.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::capi {
namespace {

// No struct of any version is larger; a number above it was not set.
constexpr size_t kMostBytes = 4096;

size_t SizeIn(const void* given) {
  size_t size;
  std::memcpy(&size, given, sizeof size);
  return size;
}

bool IsSize(size_t size) { return size >= sizeof(size_t) && size <= kMostBytes; }

}  // namespace

absl::Status SizeError(const void* given, const char* type) {
  return absl::InvalidArgumentError(
      absl::StrCat(type, ".struct_size is ", SizeIn(given), ": set it to sizeof(", type, ")"));
}

absl::Status TakeBytes(const void* given, size_t known, const char* type, void* taken) {
  std::memset(taken, 0, known);
  std::memcpy(taken, &known, sizeof known);
  if (given == nullptr) return absl::OkStatus();
  const size_t size = SizeIn(given);
  if (!IsSize(size)) return SizeError(given, type);
  const auto* const bytes = static_cast<const char*>(given);
  if (size > known && std::any_of(bytes + known, bytes + size, [](char c) { return c != 0; })) {
    return absl::InvalidArgumentError(absl::StrCat(
        type, " has a field that this library does not know, and which is not 0: it is older than ",
        "the header that the program was compiled with"));
  }
  const size_t common = std::min(size, known);
  std::memcpy(static_cast<char*>(taken) + sizeof size, bytes + sizeof size, common - sizeof size);
  return absl::OkStatus();
}

bool GiveBytes(const void* filled, size_t known, void* out) {
  const size_t size = SizeIn(out);
  if (!IsSize(size)) return false;
  auto* const bytes = static_cast<char*>(out);
  const size_t common = std::min(size, known);
  std::memcpy(bytes + sizeof size, static_cast<const char*>(filled) + sizeof size,
              common - sizeof size);
  std::memset(bytes + common, 0, size - common);
  return true;
}

}  // namespace millrace::capi
