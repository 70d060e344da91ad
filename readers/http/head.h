#ifndef MILLRACE_READERS_HTTP_HEAD_H_
#define MILLRACE_READERS_HTTP_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// The meaning of a server's answer to a range request, before its body is looked at. Pure.
//
// Two versions of a file are never mixed: every answer names the version that its bytes are of, and
// is compared with that of the first one. If-Match or If-Range would have the server compare, but a
// refusal does not say what is there now, weak ETags never match, and a server may ignore both.

namespace millrace::readers {

// The mark of one version of a file: its ETag, or the time of its last change.
struct HttpVersion {
  std::string etag;
  std::string last_modified;

  // False if the server gives neither.
  bool known() const { return !etag.empty() || !last_modified.empty(); }
  // True if `other` is the same version, by the best mark that this one has.
  bool Matches(const HttpVersion& other) const;
  std::string ToString() const;  // "ETag "abc"", "Last-Modified ..." or "no version"
};

struct HttpFacts {
  uint64_t size = 0;
  HttpVersion version;
  bool ranges = true;  // false if the server sends the whole file for every range
};

// The status line and headers of one answer, as far as they matter.
struct HttpHead {
  int status = 0;
  HttpVersion version;
  std::string content_encoding;
  std::optional<uint64_t> content_length;
  // True if Content-Range is "bytes first-last/total"; else it is "bytes */total", if it is there.
  bool has_range = false;
  uint64_t first = 0;
  uint64_t last = 0;
  std::optional<uint64_t> total;

  // Takes one line; a status line begins a new answer (after a redirect, say).
  void TakeLine(std::string_view line);
};

// Bytes that were asked for, `size` of them, and what the file was when it was opened; nullopt:
// this is the request that finds out, for one byte.
struct HttpAsked {
  uint64_t offset = 0;
  size_t size = 0;
  std::optional<HttpFacts> expected;
};

// Judges `head` as an answer to `asked`. Messages lack the URL.
//   value                the body is just the bytes asked for (or, with `expected` nullopt, may be
//                        the whole file)
//   NOT_FOUND            404, 410
//   PERMISSION_DENIED    401, 403, 407
//   UNAVAILABLE          408, 429, 5xx: worth another try
//   FAILED_PRECONDITION  another version, no ranges, an encoded body, other codes
//   DATA_LOSS            a range that was not asked for
absl::StatusOr<HttpFacts> JudgeHead(const HttpHead& head, const HttpAsked& asked);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_HEAD_H_
