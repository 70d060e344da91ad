#include "base/local_path.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace {
namespace {

constexpr std::string_view kSeparator = "://";

bool IsScheme(std::string_view scheme, std::string_view name) {
  return absl::EqualsIgnoreCase(ToAbsl(scheme), ToAbsl(name));
}

// The value of a hexadecimal digit, or -1.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

absl::StatusOr<std::string> PathOfFileUrl(const std::string& url) {
  const auto bad = [&](std::string_view text) {
    return absl::InvalidArgumentError(absl::StrCat(url, ": ", ToAbsl(text)));
  };
  const std::string_view rest = std::string_view(url).substr(url.find(kSeparator) + 3);
  const size_t slash = rest.find('/');
  const std::string_view host = rest.substr(0, slash);
  if (slash == rest.npos) return bad("file:// is followed by an absolute path: file:///a/b");
  if (!host.empty() && !IsScheme(host, "localhost")) {
    return bad("a file of another host cannot be read; a local one is file:///a/b");
  }
  std::string path;
  for (size_t i = slash; i < rest.size(); ++i) {
    if (rest[i] != '%') {
      path.push_back(rest[i]);
      continue;
    }
    const int high = i + 2 < rest.size() ? HexValue(rest[i + 1]) : -1;
    const int low = high < 0 ? -1 : HexValue(rest[i + 2]);
    if (low < 0) return bad("a % without two hexadecimal digits behind it; % itself is %25");
    path.push_back(static_cast<char>(16 * high + low));
    i += 2;
  }
  return path;
}

absl::Status NotRead(const std::string& name, std::string_view scheme, bool may_be_http) {
  const std::string what = absl::StrCat(name, ": ", ToAbsl(scheme), ToAbsl(kSeparator));
  if (IsScheme(scheme, "http") || IsScheme(scheme, "https")) {
    return absl::UnimplementedError(
        absl::StrCat(what, " is for files of records that are read; here a local file is meant"));
  }
  return absl::UnimplementedError(absl::StrCat(
      what, " is not a scheme that Millrace reads or writes; give a path or file:///PATH",
      may_be_http ? ", or http:// or https:// (many stores have such addresses, presigned ones too)"
                  : ""));
}

}  // namespace

std::string_view SchemeOf(std::string_view name) {
  const std::string_view scheme = name.substr(0, name.find(kSeparator));
  if (scheme.size() == name.size() || scheme.size() < 2) return {};
  const auto may_be_in = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
  };
  const bool is_one = absl::ascii_isalpha(static_cast<unsigned char>(scheme[0])) &&
                      std::ranges::all_of(scheme, may_be_in);
  return is_one ? scheme : std::string_view();
}

absl::StatusOr<std::string> LocalPath(const std::string& name) {
  const std::string_view scheme = SchemeOf(name);
  if (scheme.empty()) return name;
  if (IsScheme(scheme, "file")) return PathOfFileUrl(name);
  return NotRead(name, scheme, /*may_be_http=*/false);
}

absl::StatusOr<std::string> LocalPathOrUrl(const std::string& name) {
  const std::string_view scheme = SchemeOf(name);
  if (IsScheme(scheme, "http") || IsScheme(scheme, "https")) return name;
  if (scheme.empty() || IsScheme(scheme, "file")) return LocalPath(name);
  return NotRead(name, scheme, /*may_be_http=*/true);
}

}  // namespace millrace
