#include "readers/http/head.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

// Takes a number off the front of `text`; nullopt when there is none.
std::optional<uint64_t> TakeNumber(std::string_view& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool TakeText(std::string_view prefix, std::string_view& text) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "bytes 0-99/1000", "bytes 0-99/*", "bytes */1000"; anything else leaves no range and no total.
void TakeContentRange(std::string_view text, HttpHead& head) {
  if (!TakeText("bytes ", text)) return;
  if (!TakeText("*", text)) {
    const auto first = TakeNumber(text);
    const bool dash = TakeText("-", text);
    const auto last = TakeNumber(text);
    if (!first.has_value() || !dash || !last.has_value()) return;
    head.has_range = true;
    head.first = *first;
    head.last = *last;
  }
  if (TakeText("/", text)) head.total = TakeNumber(text);
}

absl::Status CheckCode(int status) {
  const std::string text = absl::StrCat("HTTP status ", status);
  switch (status) {
    case 200:
    case 206:
      return absl::OkStatus();
    case 404:
    case 410:
      return absl::NotFoundError(text);
    case 401:
    case 403:
    case 407:
      return absl::PermissionDeniedError(text);
    case 408:
    case 429:
      return absl::UnavailableError(text);
    default:
      if (status >= 500) return absl::UnavailableError(text);
      return absl::FailedPreconditionError(text);
  }
}

absl::Status CheckUnchanged(const HttpFacts& expected, uint64_t total, const HttpVersion& version) {
  if (expected.size == total && expected.version.Matches(version)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the file changed while it was read: it was ", expected.size, " bytes, ",
      expected.version.ToString(), ", and is ", total, " bytes, ", version.ToString()));
}

absl::StatusOr<HttpFacts> JudgePart(const HttpHead& head, const HttpAsked& asked) {
  if (!head.has_range || !head.total.has_value()) {
    return absl::DataLossError("a part of the file without a Content-Range that says which");
  }
  if (asked.expected.has_value()) {
    MILLRACE_RETURN_IF_ERROR(CheckUnchanged(*asked.expected, *head.total, head.version));
  }
  const uint64_t last = asked.offset + asked.size - 1;
  if (head.first != asked.offset || head.last != last || last >= *head.total) {
    return absl::DataLossError(absl::StrCat("asked for bytes ", asked.offset, "-", last,
                                            ", but the answer has ", head.first, "-", head.last,
                                            " of ", *head.total));
  }
  return HttpFacts{*head.total, head.version};
}

absl::StatusOr<HttpFacts> JudgeWhole(const HttpHead& head, const HttpAsked& asked) {
  if (!head.content_length.has_value()) {
    return absl::FailedPreconditionError("the server neither sends ranges nor says the size");
  }
  const HttpFacts facts{*head.content_length, head.version, /*ranges=*/false};
  if (!asked.expected.has_value()) return facts;
  MILLRACE_RETURN_IF_ERROR(CheckUnchanged(*asked.expected, facts.size, facts.version));
  if (asked.offset == 0 && asked.size == facts.size) return facts;
  return absl::FailedPreconditionError(
      "the server answers a range request with the whole file (HTTP status 200)");
}

}  // namespace

bool HttpVersion::Matches(const HttpVersion& other) const {
  if (!etag.empty()) return etag == other.etag;
  return last_modified.empty() || last_modified == other.last_modified;
}

std::string HttpVersion::ToString() const {
  if (!etag.empty()) return absl::StrCat("ETag ", etag);
  if (!last_modified.empty()) return absl::StrCat("Last-Modified ", last_modified);
  return "no version";
}

void HttpHead::TakeLine(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = HttpHead();
    std::string_view code = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
    status = static_cast<int>(std::min<uint64_t>(TakeNumber(code).value_or(0), 999));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const absl::string_view name = ToAbsl(line.substr(0, colon));
  std::string_view value = ToStd(absl::StripAsciiWhitespace(ToAbsl(line.substr(colon + 1))));
  if (absl::EqualsIgnoreCase(name, "etag")) version.etag = value;
  if (absl::EqualsIgnoreCase(name, "last-modified")) version.last_modified = value;
  if (absl::EqualsIgnoreCase(name, "content-encoding")) content_encoding = value;
  if (absl::EqualsIgnoreCase(name, "content-length")) content_length = TakeNumber(value);
  if (absl::EqualsIgnoreCase(name, "content-range")) TakeContentRange(value, *this);
}

absl::StatusOr<HttpFacts> JudgeHead(const HttpHead& head, const HttpAsked& asked) {
  if (head.status == 416 && head.total.has_value()) {  // there is no such range
    const HttpFacts facts{*head.total, head.version};
    if (asked.expected.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the file changed while it was read: it was ", asked.expected->size,
                       " bytes, ", asked.expected->version.ToString(), ", and is ", facts.size,
                       " bytes, ", facts.version.ToString()));
    }
    if (facts.size == 0) return facts;
  }
  MILLRACE_RETURN_IF_ERROR(CheckCode(head.status));
  if (!head.content_encoding.empty() && head.content_encoding != "identity") {
    return absl::FailedPreconditionError(
        absl::StrCat("the server encodes the body (Content-Encoding: ", head.content_encoding,
                     "), although it was asked for the bytes as they are"));
  }
  return head.status == 206 ? JudgePart(head, asked) : JudgeWhole(head, asked);
}

}  // namespace millrace::readers
