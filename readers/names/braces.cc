#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/names/names.h"

namespace millrace::readers::internal {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kNone = std::string_view::npos;

absl::Status TooMany(std::string_view pattern) {
  return absl::InvalidArgumentError(
      absl::StrCat("the braces of ", ToAbsl(pattern.substr(0, 200)), " stand for more than ",
                   kMaxNames, " names, or for over ", kMaxNameBytes >> 20, " MiB of them"));
}

// Where the brace that is open at i is closed; kNone for all other characters.
std::vector<size_t> MatchBraces(std::string_view text) {
  std::vector<size_t> ends(text.size(), kNone);
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      open.push_back(i);
    } else if (text[i] == '}' && !open.empty()) {
      ends[open.back()] = i;
      open.pop_back();
    }
  }
  return ends;
}

// The parts of `body` between commas that stand in no braces of their own.
std::vector<std::string_view> SplitAtCommas(std::string_view body) {
  const std::vector<size_t> ends = MatchBraces(body);
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '\\') {
      ++i;
    } else if (ends[i] != kNone) {
      i = ends[i];
    } else if (body[i] == ',') {
      parts.push_back(body.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(body.substr(begin));
  return parts;
}

bool ParseNumber(std::string_view text, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stopped == end && !text.empty();
}

// "08..12": the numbers, in either direction. Empty: it is no range.
absl::StatusOr<std::vector<std::string>> ExpandRange(std::string_view body) {
  std::vector<std::string> names;
  const size_t dots = body.find("..");
  if (dots == kNone) return names;
  const std::string_view first = body.substr(0, dots);
  const std::string_view last = body.substr(dots + 2);
  uint64_t a = 0;
  uint64_t b = 0;
  if (!ParseNumber(first, &a) || !ParseNumber(last, &b)) return names;
  const auto [low, high] = std::minmax(a, b);
  if (high - low >= kMaxNames) return TooMany(body);
  const auto padded = [](std::string_view text) { return text.size() > 1 && text[0] == '0'; };
  const size_t width = padded(first) || padded(last) ? std::max(first.size(), last.size()) : 0;
  if ((high - low + 1) * width > kMaxNameBytes) return TooMany(body);
  for (uint64_t i = low; names.size() <= high - low; ++i) {
    const std::string digits = std::to_string(i);
    names.push_back(std::string(width - std::min(width, digits.size()), '0') + digits);
  }
  return names;
}

class Expander {
 public:
  explicit Expander(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::vector<std::string>> Expand(std::string_view text, int depth) const {
    const std::vector<size_t> ends = MatchBraces(text);
    std::vector<std::string> names = {""};
    size_t begin = 0;  // of the text that stands for itself
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (ends[i] != kNone) {
        MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> choices,
                                  Choices(text.substr(i + 1, ends[i] - i - 1), depth));
        if (choices.empty()) continue;
        MILLRACE_RETURN_IF_ERROR(Append(names, {std::string(text.substr(begin, i - begin))}));
        MILLRACE_RETURN_IF_ERROR(Append(names, choices));
        i = ends[i];
        begin = i + 1;
      }
    }
    MILLRACE_RETURN_IF_ERROR(Append(names, {std::string(text.substr(begin))}));
    return names;
  }

 private:
  // The texts that the braces around `body` stand for; empty: they stand for themselves.
  absl::StatusOr<std::vector<std::string>> Choices(std::string_view body, int depth) const {
    const std::vector<std::string_view> parts = SplitAtCommas(body);
    if (parts.size() == 1) return ExpandRange(body);
    if (depth == kMaxDepth) {
      return absl::InvalidArgumentError(absl::StrCat("braces are nested more than ", kMaxDepth,
                                                     " deep in ", ToAbsl(pattern_.substr(0, 200))));
    }
    std::vector<std::string> choices;
    for (const std::string_view part : parts) {
      MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> names, Expand(part, depth + 1));
      if (choices.size() + names.size() > kMaxNames) return TooMany(pattern_);
      std::ranges::move(names, std::back_inserter(choices));
    }
    return choices;
  }

  // Puts each of `ends` behind each of `names`.
  absl::Status Append(std::vector<std::string>& names, const std::vector<std::string>& ends) const {
    const auto bytes = [](const std::vector<std::string>& texts) {
      size_t sum = 0;
      for (const std::string& text : texts) sum += text.size();
      return sum;
    };
    if (names.size() * ends.size() > kMaxNames ||
        bytes(names) * ends.size() + bytes(ends) * names.size() > kMaxNameBytes) {
      return TooMany(pattern_);
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& end : ends) longer.push_back(name + end);
    }
    names = std::move(longer);
    return absl::OkStatus();
  }

  const std::string_view pattern_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view pattern) {
  return Expander(pattern).Expand(pattern, 0);
}

}  // namespace millrace::readers::internal
