#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/container/container.h"

// Lines of text and rows of CSV. The walk reads the shard once, window by window, and holds no more
// of it than a window however long a line is. Line ends, and quotes of CSV, are found by memchr:
// between two of these only the last byte counts. A window is looked through for "\r" once, so that
// where there is none, only "\n" is looked for.

namespace millrace::readers {
namespace {

constexpr size_t kWindowBytes = 256 << 10;

// Where indexes came to be others than before: "\r" alone ends lines, and a byte order mark is none
// of the first.
constexpr uint64_t kAnyLineEnd = uint64_t{1} << 32;

// Calls `see(bytes, offset)` for all bytes of `file` from `begin` on, in order. A "\r" and the "\n"
// behind it come together.
template <typename See>
absl::Status ForEachWindow(const RandomAccessFile& file, uint64_t begin, const WalkOptions& options,
                           const See& see) {
  std::vector<std::byte> window(std::min<uint64_t>(kWindowBytes, file.size()) + 1);
  size_t held = 0;  // bytes at the front of the window that were read before: a "\r", or none
  for (uint64_t offset = begin; offset < file.size();) {
    const auto room = std::span(window).subspan(held);
    MILLRACE_ASSIGN_OR_RETURN(
        const size_t got,
        file.ReadAt(offset, room.first(std::min<uint64_t>(room.size(), file.size() - offset))));
    if (got == 0 && offset >= file.size()) break;  // known only now where it is inflated meanwhile
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(file.path(), ": shrank to ", offset, " bytes while it was being indexed"));
    }
    std::string_view bytes(reinterpret_cast<const char*>(window.data()), held + got);
    const uint64_t first = offset - held;
    offset += got;
    held = bytes.ends_with('\r') ? 1 : 0;
    bytes.remove_suffix(held);
    MILLRACE_RETURN_IF_ERROR(see(bytes, first));
    if (held > 0) window[0] = std::byte{'\r'};
    if (options.advanced) options.advanced(got);
  }
  return held > 0 ? see("\r", file.size() - 1) : absl::OkStatus();
}

// Finds the line ends of a window.
class LineEnds {
 public:
  explicit LineEnds(std::string_view window) : has_return_(window.find('\r') != window.npos) {}

  // The first of `bytes`, which are the rest of the window.
  LineEnd FindIn(std::string_view bytes) const {
    if (has_return_) return FindLineEnd(bytes);
    const size_t at = bytes.find('\n');
    return {at, at == bytes.npos ? size_t{0} : size_t{1}};
  }

 private:
  const bool has_return_;
};

absl::Status TooLong(const RandomAccessFile& file, uint64_t ordinal, uint64_t offset,
                     uint64_t limit) {
  RecordRef ref;
  ref.ordinal = ordinal;
  ref.offset = offset;
  return DamagedRecord(file.path(), ref, RecordErrorReason::kAbsurdLength,
                       absl::StrCat("a line of more than ", limit, " bytes, which is the limit"));
}

// A line is its bytes without "\n", "\r\n" or "\r".
std::string_view TrimLine(std::string_view* line) {
  if (line->ends_with('\n')) line->remove_suffix(1);
  if (line->ends_with('\r')) line->remove_suffix(1);
  if (line->find('\n') == line->npos && line->find('\r') == line->npos) return "";
  return "a line break inside a line: the shard changed after it was indexed";
}

// A row is its bytes without the line breaks and blank lines behind it.
std::string_view TrimRow(std::string_view* row) {
  const size_t last = row->find_last_not_of("\r\n");
  row->remove_suffix(row->size() - (last == row->npos ? 0 : last + 1));
  return row->empty() ? "an empty row: the shard changed after it was indexed" : "";
}

// A line that is not blank, without the blank lines and the blanks behind it.
std::string_view TrimToBlanks(std::string_view* line) {
  line->remove_suffix(line->size() - (line->find_last_not_of(" \t\r\n") + 1));  // npos + 1 is 0
  return TrimLine(line);
}

// Finds where lines begin.
class TextWalk {
 public:
  TextWalk(const RandomAccessFile& file, const WalkOptions& options, bool skips_blank)
      : file_(file), options_(options), skips_blank_(skips_blank) {}

  // Returns the begins of all lines, and the end of the last.
  absl::StatusOr<std::vector<uint64_t>> Run() {
    MILLRACE_ASSIGN_OR_RETURN(
        line_,
        BeginOfText(file_, options_, {.kind = ContainerKind::kText, .skips_blank = skips_blank_}));
    const auto see = [this](std::string_view bytes, uint64_t offset) { return See(bytes, offset); };
    MILLRACE_RETURN_IF_ERROR(ForEachWindow(file_, line_, options_, see));
    if (line_ < file_.size()) MILLRACE_RETURN_IF_ERROR(EndLine(file_.size()));
    begins_.push_back(file_.size());
    return std::move(begins_);
  }

 private:
  absl::Status See(std::string_view bytes, uint64_t offset) {
    const LineEnds ends(bytes);
    while (true) {
      const LineEnd end = ends.FindIn(bytes);
      blank_ =
          blank_ && skips_blank_ && bytes.substr(0, end.at).find_first_not_of(" \t") == bytes.npos;
      if (end.bytes == 0) return CheckLength(offset + bytes.size());
      bytes.remove_prefix(end.at + end.bytes);
      offset += end.at + end.bytes;
      MILLRACE_RETURN_IF_ERROR(EndLine(offset));
    }
  }

  // The next line begins at `next`.
  absl::Status EndLine(uint64_t next) {
    MILLRACE_RETURN_IF_ERROR(CheckLength(next));
    if (!blank_) begins_.push_back(line_);
    line_ = next;
    blank_ = skips_blank_;
    return absl::OkStatus();
  }

  // The line goes on to `end`; a blank one is part of the record before it.
  absl::Status CheckLength(uint64_t end) const {
    const bool has_record = blank_ && !begins_.empty();
    const uint64_t begin = has_record ? begins_.back() : line_;
    if (end - begin <= options_.max_record_bytes) return absl::OkStatus();
    return TooLong(file_, begins_.size() - (has_record ? 1 : 0), begin, options_.max_record_bytes);
  }

  const RandomAccessFile& file_;
  const WalkOptions& options_;
  const bool skips_blank_;
  std::vector<uint64_t> begins_;
  uint64_t line_ = 0;          // where the line that is looked at begins
  bool blank_ = skips_blank_;  // it is to be passed over, as far as it was looked at
};

template <std::string_view (*kTrim)(std::string_view* line)>
class TextContainer final : public TrimmedContainer<kTrim> {
 public:
  explicit TextContainer(bool skips_blank)
      : skips_blank_(skips_blank),
        format_{.key = static_cast<uint64_t>(ContainerKind::kText) | kAnyLineEnd |
                       uint64_t{skips_blank} << 8} {}

  const FrameFormat& format() const override { return format_; }
  bool LooksPlain(std::span<const std::byte> first) const override { return HasNoMagic(first); }

  absl::StatusOr<RecordIndex> FindFrames(
      const RandomAccessFile& file, const WalkOptions& options,
      const std::shared_ptr<IndexMemory>& memory) const override {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> begins,
                              TextWalk(file, options, skips_blank_).Run());
    return RecordIndex::Make(begins, format_, memory);
  }

 private:
  const bool skips_blank_;
  const FrameFormat format_;
};

// Finds where rows begin.
class CsvWalk {
 public:
  CsvWalk(const RandomAccessFile& file, const WalkOptions& options, const ContainerOptions& csv)
      : file_(file), options_(options), csv_(csv) {}

  // Returns the begins of all rows, and the end of the last.
  absl::StatusOr<std::vector<uint64_t>> Run() {
    MILLRACE_ASSIGN_OR_RETURN(row_begin_,
                              BeginOfText(file_, options_, {.kind = ContainerKind::kCsv}));
    const auto see = [this](std::string_view bytes, uint64_t offset) { return See(bytes, offset); };
    MILLRACE_RETURN_IF_ERROR(ForEachWindow(file_, row_begin_, options_, see));
    if (state_ == State::kQuoted) {
      return Damaged(row_begin_, RecordErrorReason::kTruncatedPayload,
                     "the file ends inside a quoted field of this row");
    }
    MILLRACE_RETURN_IF_ERROR(EndRow(file_.size(), file_.size()));
    if (csv_.has_header && !begins_.empty()) begins_.erase(begins_.begin());
    MILLRACE_RETURN_IF_ERROR(CheckLength(file_.size()));
    begins_.push_back(file_.size());
    return std::move(begins_);
  }

 private:
  enum class State { kFieldStart, kUnquoted, kQuoted, kQuoteInQuoted };

  absl::Status See(std::string_view bytes, uint64_t offset) {
    const LineEnds ends(bytes);
    while (!bytes.empty()) {
      const LineEnd end = ends.FindIn(bytes);
      Step(bytes.substr(0, end.at));
      if (end.bytes == 0) break;
      bytes.remove_prefix(end.at + end.bytes);
      offset += end.at + end.bytes;
      if (state_ == State::kQuoted) continue;  // this one belongs to the field
      MILLRACE_RETURN_IF_ERROR(EndRow(offset - end.bytes, offset));
      state_ = State::kFieldStart;
    }
    const uint64_t end = offset + bytes.size();
    return end - row_begin_ <= options_.max_record_bytes ? absl::OkStatus() : TooLongAt(row_begin_);
  }

  // Takes the state to the end of these bytes of a line. Between two quotes only the last byte
  // counts.
  void Step(std::string_view bytes) {
    while (true) {
      const size_t quote = bytes.find('"');
      const std::string_view plain = bytes.substr(0, quote);
      if (!plain.empty() && state_ != State::kQuoted) {
        state_ = plain.back() == csv_.delimiter ? State::kFieldStart : State::kUnquoted;
      }
      if (quote == bytes.npos) return;
      if (state_ == State::kQuoted) {
        state_ = State::kQuoteInQuoted;
      } else if (state_ != State::kUnquoted) {
        state_ = State::kQuoted;
      }
      bytes.remove_prefix(quote + 1);
    }
  }

  // The row goes on to `end`, and what follows it begins at `next`; a blank line is none.
  absl::Status EndRow(uint64_t end, uint64_t next) {
    const uint64_t length = end - row_begin_;
    const uint64_t begin = row_begin_;
    row_begin_ = next;
    if (length == 0) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(CheckLength(begin));
    begins_.push_back(begin);
    return CheckLength(next);
  }

  // The last row that began, and blank lines behind it, reach to `end`.
  absl::Status CheckLength(uint64_t end) const {
    if (begins_.empty() || end - begins_.back() <= options_.max_record_bytes) {
      return absl::OkStatus();
    }
    return TooLongAt(begins_.back());
  }

  uint64_t OrdinalOf(uint64_t begin) const {
    const auto rows =
        static_cast<uint64_t>(std::ranges::lower_bound(begins_, begin) - begins_.begin());
    return rows - (csv_.has_header && rows > 0 ? 1 : 0);
  }
  absl::Status TooLongAt(uint64_t begin) const {
    return TooLong(file_, OrdinalOf(begin), begin, options_.max_record_bytes);
  }
  absl::Status Damaged(uint64_t begin, RecordErrorReason reason, std::string_view text) const {
    RecordRef ref;
    ref.ordinal = OrdinalOf(begin);
    ref.offset = begin;
    return DamagedRecord(file_.path(), ref, reason, text);
  }

  const RandomAccessFile& file_;
  const WalkOptions& options_;
  const ContainerOptions& csv_;
  std::vector<uint64_t> begins_;
  uint64_t row_begin_ = 0;
  State state_ = State::kFieldStart;
};

class CsvContainer final : public TrimmedContainer<TrimRow> {
 public:
  CsvContainer(const ContainerOptions& options, bool judges_rows)
      : options_(options),
        format_{.key = static_cast<uint64_t>(ContainerKind::kCsv) | kAnyLineEnd |
                       uint64_t{options.has_header} << 8 | uint64_t{judges_rows} << 24 |
                       static_cast<uint64_t>(static_cast<uint8_t>(options.delimiter)) << 16} {}

  const FrameFormat& format() const override { return format_; }
  bool LooksPlain(std::span<const std::byte> first) const override { return HasNoMagic(first); }

  absl::StatusOr<RecordIndex> FindFrames(
      const RandomAccessFile& file, const WalkOptions& options,
      const std::shared_ptr<IndexMemory>& memory) const override {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> begins,
                              CsvWalk(file, options, options_).Run());
    return RecordIndex::Make(begins, format_, memory);
  }

 private:
  const ContainerOptions options_;
  const FrameFormat format_;
};

}  // namespace

std::unique_ptr<const Container> MakeTextContainer(const ContainerOptions& options) {
  if (options.skips_blank) return std::make_unique<TextContainer<TrimToBlanks>>(true);
  return std::make_unique<TextContainer<TrimLine>>(false);
}

std::unique_ptr<const Container> MakeCsvContainer(const ContainerOptions& options,
                                                  bool judges_rows) {
  return std::make_unique<CsvContainer>(options, judges_rows);
}

}  // namespace millrace::readers
