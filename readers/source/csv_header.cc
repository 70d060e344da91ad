#include "readers/source/csv_header.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/run.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/parallel/parallel.h"
#include "readers/scan.h"
#include "readers/text/csv_row.h"
#include "readers/text/number_text.h"

namespace millrace::readers {
namespace {

constexpr size_t kFirstBytes = 16 << 10;
constexpr size_t kMostBytes = 16 << 20;
constexpr std::string_view kOtherOrder = "the columns are in another order";

// Where the row at the front of `text` ends; npos: not in `text`.
size_t EndOfRow(std::string_view text, char delimiter) {
  enum class State { kFieldStart, kUnquoted, kQuoted, kQuoteInQuoted };
  State state = State::kFieldStart;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (state == State::kQuoted) {
      if (c == '"') state = State::kQuoteInQuoted;
    } else if (c == '\n' || c == '\r') {
      return i;
    } else if (c == '"' && state != State::kUnquoted) {
      state = State::kQuoted;
    } else {
      state = c == delimiter ? State::kFieldStart : State::kUnquoted;
    }
  }
  return text.npos;
}

std::string_view BehindMarkAndBlankLines(std::string_view text) {
  text.remove_prefix(ByteOrderMarkBytes(text));
  text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
  return text;
}

// Of one row, without its end.
absl::StatusOr<std::vector<std::string>> NamesOf(std::string_view row, char delimiter) {
  RunArena arena;
  std::vector<internal::CsvCell> cells;
  MILLRACE_ASSIGN_OR_RETURN(const size_t count,
                            internal::SplitCsvRow(row, delimiter, arena, cells));
  cells.resize(count);
  MILLRACE_RETURN_IF_ERROR(internal::SplitCsvRow(row, delimiter, arena, cells).status());
  std::vector<std::string> names;
  for (const internal::CsvCell& cell : cells) {
    names.emplace_back(cell.quoted ? cell.text : internal::TrimBlanks(cell.text));
  }
  return names;
}

std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kMost = 100;
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kMost) break;
    shown.push_back(ShownText(name));
  }
  return absl::StrCat("[", absl::StrJoin(shown, ", "), names.size() > kMost ? ", ...]" : "]");
}

std::vector<std::string> Trimmed(std::vector<std::string> names) {
  for (std::string& name : names) name = std::string(internal::TrimBlanks(name));
  return names;
}

// Finds out how the names of a file differ from those that are wanted.
class Difference {
 public:
  Difference(const std::vector<std::string>& found, const std::vector<std::string>& wanted)
      : found_(found), wanted_(wanted) {}

  // One line of text for each name that is wrong; "" if none is.
  std::string Text(bool allow_more) {
    for (const std::string& name : wanted_) {
      const auto same = std::ranges::count(found_, name);
      if (same == 0) Missing(name);
      if (same > 1) Add("'", ShownText(name), "' is there ", same, " times");
    }
    for (size_t i = 0; i < found_.size() && !allow_more; ++i) {
      if (std::ranges::find(wanted_, found_[i]) != wanted_.end()) continue;
      Add("column ", i + 1, ", '", ShownText(found_[i]), "', is not wanted");
    }
    return std::move(text_);
  }

 private:
  void Missing(const std::string& name) {
    std::vector<std::string> others;
    for (const std::string& other : found_) {
      if (std::ranges::find(wanted_, other) == wanted_.end()) others.push_back(other);
    }
    const std::string nearest = NearestName(name, others);
    Add("no column '", ShownText(name), "'",
        nearest.empty() ? "" : absl::StrCat(" (is it '", ShownText(nearest), "'?)"));
  }
  template <typename... Parts>
  void Add(const Parts&... parts) {
    absl::StrAppend(&text_, text_.empty() ? "" : ", ", parts...);
  }

  const std::vector<std::string>& found_;
  const std::vector<std::string>& wanted_;
  std::string text_;
};

// `wrong` is what is wrong with the names of `file`.
absl::Status WrongNames(const std::string& file, std::string_view wrong,
                        const std::vector<std::string>& found,
                        const std::vector<std::string>& wanted, std::string_view of = "") {
  return absl::InvalidArgumentError(absl::StrCat(file, ": header: ", ToAbsl(wrong), ". It names ",
                                                 ListOf(found), "; wanted ", ListOf(wanted),
                                                 ToAbsl(of)));
}

// All files that have rows of names have the same ones in the same order.
absl::Status CheckAlike(const std::vector<std::string>& files,
                        const std::vector<std::vector<std::string>>& names) {
  const auto has_names = [](const auto& list) { return !list.empty(); };
  const auto first = std::ranges::find_if(names, has_names);
  for (auto other = first; other != names.end(); ++other) {
    if (other->empty() || *other == *first) continue;
    const std::string wrong = Difference(*other, *first).Text(/*allow_more=*/false);
    return WrongNames(files[static_cast<size_t>(other - names.begin())],
                      wrong.empty() ? kOtherOrder : wrong, *other, *first,
                      absl::StrCat(", as ", files[static_cast<size_t>(first - names.begin())]));
  }
  return absl::OkStatus();
}

// "'a' is there 2 times" for each name that is.
std::string Doubled(const std::vector<std::string>& names) {
  const std::set<std::string> each(names.begin(), names.end());
  return Difference(names, {each.begin(), each.end()}).Text(/*allow_more=*/false);
}

bool IsInOrder(const CellOrder& order) {
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i) - 1) return false;
  }
  return order.empty() || order[0] == static_cast<int64_t>(order.size()) - 1;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const RandomAccessFile& file,
                                                       char delimiter) {
  std::vector<std::byte> bytes;
  for (size_t size = kFirstBytes;; size *= 4) {
    bytes.resize(size);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
    const std::string_view text =
        BehindMarkAndBlankLines({reinterpret_cast<const char*>(bytes.data()), got});
    const size_t end = EndOfRow(text, delimiter);
    if (end == text.npos && got == size && size < kMostBytes) continue;
    if (end == text.npos && got == size) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": header: more than ", kMostBytes, " bytes"));
    }
    if (text.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": header: there is no row, and the first one is to name the columns"));
    }
    auto names = NamesOf(text.substr(0, end), delimiter);
    if (names.ok()) return names;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": header: ", names.status().message()));
  }
}

absl::StatusOr<CellOrder> MatchHeader(const std::string& file,
                                      const std::vector<std::string>& found_names,
                                      const CsvColumns& columns) {
  if (found_names.empty()) return CellOrder();
  const std::vector<std::string> found = Trimmed(found_names);
  const std::vector<std::string> wanted = Trimmed(columns.names);
  std::string wrong = Difference(found, wanted).Text(columns.allow_more);
  if (wrong.empty() && columns.in_order && found != wanted) wrong = kOtherOrder;
  if (!wrong.empty()) return WrongNames(file, wrong, found, wanted);
  CellOrder order = {static_cast<int64_t>(found.size())};
  for (const std::string& name : wanted) {
    order.push_back(std::ranges::find(found, name) - found.begin());
  }
  return order;
}

absl::StatusOr<std::vector<CellOrder>> MatchHeaders(
    const std::vector<std::string>& files, const CsvColumns& wanted, int threads,
    const std::function<absl::StatusOr<std::vector<std::string>>(size_t)>& read) {
  std::vector<std::vector<std::string>> names(files.size());
  MILLRACE_RETURN_IF_ERROR(ParallelFor(files.size(), threads, [&](size_t i, size_t) {
    auto found = read(i);
    if (found.ok()) names[i] = *std::move(found);
    return found.status();
  }));
  if (wanted.names.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckAlike(files, names));
    return std::vector<CellOrder>();
  }
  std::vector<CellOrder> orders;
  for (size_t i = 0; i < files.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(orders.emplace_back(), MatchHeader(files[i], names[i], wanted));
  }
  if (std::ranges::all_of(orders, IsInOrder)) orders.clear();
  return orders;
}

absl::Status SameColumns::Check(const std::string& file,
                                const absl::StatusOr<std::vector<std::string>>& names) {
  MILLRACE_RETURN_IF_ERROR(names.status());
  if (const std::string doubled = Doubled(*names); !doubled.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": header: ", doubled, ". It names ", ListOf(*names)));
  }
  if (first_.empty()) {
    first_file_ = file;
    first_ = *names;
  }
  const std::string wrong = Difference(*names, first_).Text(/*allow_more=*/false);
  if (wrong.empty()) return absl::OkStatus();
  return WrongNames(file, wrong, *names, first_, absl::StrCat(", as ", first_file_));
}

}  // namespace millrace::readers
