#include "trainer/backend/cuda/tuning/plan_book.h"

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/crc32c.h"
#include "base/status.h"

namespace millrace::trainer::cuda {
namespace {

constexpr std::string_view kTitle = "millrace plans 1";

std::string SumLine(std::string_view text) {
  return absl::StrFormat("crc32c %08x\n", MaskedCrc32c(std::as_bytes(std::span(text))));
}

absl::Status Bad(std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("no text of plans: ", ToAbsl(why)));
}

// The text without the line of its sum; nullopt: that is not there, or another.
std::optional<std::string_view> WithoutSum(std::string_view text) {
  const size_t size = SumLine("").size();
  if (text.size() < size) return std::nullopt;
  const std::string_view body = text.substr(0, text.size() - size);
  return text.substr(body.size()) == SumLine(body) ? std::optional(body) : std::nullopt;
}

}  // namespace

absl::StatusOr<PlanBook> PlanBook::FromText(std::string_view text) {
  const std::optional<std::string_view> body = WithoutSum(text);
  if (!body) return Bad("its sum is wrong");
  std::vector<std::string> lines = absl::StrSplit(ToAbsl(*body), '\n');
  if (lines.size() < 3 || lines[0] != kTitle) return Bad("it is of another version");
  lines.pop_back();  // behind the last line's end
  PlanBook book(lines[1]);
  for (size_t i = 2; i < lines.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(lines[i], '\t');
    if (parts.size() != 2) return Bad(absl::StrCat("line ", i + 1));
    book.Set(parts[1], parts[0]);
  }
  return book;
}

std::string PlanBook::ToText() const {
  std::string text = absl::StrCat(ToAbsl(kTitle), "\n", key_, "\n");
  for (const auto& [product, name] : names_) absl::StrAppend(&text, name, "\t", product, "\n");
  return text + SumLine(text);
}

std::optional<std::string> PlanBook::Find(const std::string& product) const {
  const auto found = names_.find(product);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

void PlanBook::Add(const PlanBook& other) {
  for (const auto& [product, name] : other.names_) Set(product, name);
}

}  // namespace millrace::trainer::cuda
