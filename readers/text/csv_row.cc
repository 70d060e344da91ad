#include "readers/text/csv_row.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::readers::internal {
namespace {

std::string_view WithoutLineEnd(std::string_view row) {
  if (row.ends_with('\n')) row.remove_suffix(1);
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

class Splitter {
 public:
  Splitter(std::string_view row, char delimiter, RunArena& arena)
      : row_(WithoutLineEnd(row)), delimiter_(delimiter), arena_(arena) {}

  // Reads the cell at at_ and stops at its end.
  absl::StatusOr<CsvCell> Next() {
    return at_ < row_.size() && row_[at_] == '"' ? Quoted() : Plain();
  }

  // Steps over the delimiter behind a cell; false: there is none, the row ends.
  bool Step() { return at_++ < row_.size(); }

 private:
  absl::Status Error(std::string_view text) const {
    return absl::DataLossError(absl::StrCat("not a CSV row: byte ", at_, ": ", ToAbsl(text)));
  }

  absl::StatusOr<CsvCell> Plain() {
    const size_t begin = at_;
    for (; at_ < row_.size() && row_[at_] != delimiter_; ++at_) {
      if (row_[at_] == '"') return Error("a quote inside a cell that does not begin with one");
      if (row_[at_] == '\n' || row_[at_] == '\r') return Error("a second row");
    }
    return CsvCell{row_.substr(begin, at_ - begin), false};
  }

  absl::StatusOr<CsvCell> Quoted() {
    const size_t begin = at_ + 1;
    size_t doubled = 0;
    for (at_ = begin;; at_ += 2, ++doubled) {
      at_ = row_.find('"', at_);
      if (at_ == std::string_view::npos) {
        at_ = begin - 1;
        return Error("a quote that is not closed");
      }
      if (at_ + 1 == row_.size() || row_[at_ + 1] != '"') break;
    }
    const std::string_view inside = row_.substr(begin, at_ - begin);
    ++at_;
    if (at_ < row_.size() && row_[at_] != delimiter_) return Error("text behind a closing quote");
    return CsvCell{doubled == 0 ? inside : Undoubled(inside, doubled), true};
  }

  std::string_view Undoubled(std::string_view text, size_t doubled) {
    auto* const begin = reinterpret_cast<char*>(arena_.Allocate(text.size() - doubled));
    char* out = begin;
    for (size_t i = 0; i < text.size(); ++i) {
      *out++ = text[i];
      if (text[i] == '"') ++i;
    }
    return {begin, static_cast<size_t>(out - begin)};
  }

  const std::string_view row_;
  const char delimiter_;
  RunArena& arena_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<size_t> SplitCsvRow(std::string_view row, char delimiter, RunArena& arena,
                                   std::span<CsvCell> cells) {
  Splitter splitter(row, delimiter, arena);
  size_t count = 0;
  do {
    MILLRACE_ASSIGN_OR_RETURN(const CsvCell cell, splitter.Next());
    if (count < cells.size()) cells[count] = cell;
    ++count;
  } while (splitter.Step());
  return count;
}

}  // namespace millrace::readers::internal
