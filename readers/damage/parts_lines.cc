#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/run.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/container/container.h"
#include "readers/damage/parts_walk.h"
#include "readers/open_file.h"
#include "readers/text/csv_row.h"

// Lines, and rows of CSV that may be none.
//
// In a row as it should be, quotes are closed at a line break exactly where their number up to
// there is even. So a row is looked for up to the first such line break, and then split: a bad one
// costs its first line, and the walk goes on at the second. From a line with an odd number of
// quotes that goes no further than to the next such line, and from any other to its own end: no
// byte is looked at more than about twice, with any damage.

namespace millrace::readers {
namespace {

constexpr uint64_t kLineWindowBytes = 1 << 20;
constexpr int kRowsToCount = 100;     // rows at the front that tell how many cells a row has
constexpr int kStretchesToCount = 8;  // of a damaged stream

// A file that is gone through forwards, and now and then back a little.
class ByteWindow {
 public:
  explicit ByteWindow(const RandomAccessFile& file)
      : file_(file), window_(std::min(kLineWindowBytes, file.size())) {}

  // The bytes that are held from `at` on: at least `least` of them, and none from `end` on. The
  // view lives until the next call. REQUIRES: at + least <= end.
  absl::StatusOr<std::string_view> From(uint64_t at, uint64_t end, uint64_t least = 1) {
    if (least > window_.size()) return FromLong(at, least);
    if (at < begin_ || at + least > begin_ + held_) {
      MILLRACE_ASSIGN_OR_RETURN(held_, file_.ReadAt(at, window_));
      begin_ = at;
      has_return_ = TextOf(window_).substr(0, held_).find('\r') != std::string_view::npos;
    }
    if (held_ - (at - begin_) < least) {
      return absl::DataLossError(
          absl::StrCat(file_.path(), ": shrank to ", begin_ + held_, " bytes while it was read"));
    }
    return TextOf(window_).substr(at - begin_, std::min(held_ - (at - begin_), end - at));
  }

  // False where there is no "\r" in what From last returned of less than a window.
  bool may_have_return() const { return has_return_; }

 private:
  static std::string_view TextOf(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  absl::StatusOr<std::string_view> FromLong(uint64_t at, uint64_t bytes) {
    long_.resize(bytes);
    MILLRACE_RETURN_IF_ERROR(ReadFully(file_, at, long_));
    return TextOf(long_);
  }

  const RandomAccessFile& file_;
  std::vector<std::byte> window_;
  std::vector<std::byte> long_;
  uint64_t begin_ = 0;
  uint64_t held_ = 0;
  bool has_return_ = false;
};

class LineWalk {
 public:
  LineWalk(const PartsInput& input, PartTeller& teller)
      : input_(input),
        is_csv_(input.container.kind == ContainerKind::kCsv),
        container_(MakeContainer(input.container, /*verify_crc=*/true)),
        teller_(teller),
        bytes_(input.file) {}

  absl::Status Run() {
    WalkOptions plain;
    plain.plain = input_.plain;
    const absl::StatusOr<uint64_t> begin = BeginOfText(input_.file, plain, input_.container);
    if (const auto error = GetRecordError(begin.status()); error.has_value()) {
      const bool compressed = error->reason == RecordErrorReason::kWrongCompression;
      return teller_.Damage(0, input_.file.size(), error->reason,
                            compressed ? "the file is compressed, and was said not to be"
                                       : TextOfDamage(begin.status(), *error));
    }
    MILLRACE_RETURN_IF_ERROR(begin.status());
    from_ = *begin;
    if (is_csv_) {
      MILLRACE_RETURN_IF_ERROR(Front());
    } else {
      MILLRACE_ASSIGN_OR_RETURN(from_, BehindBlank(from_));
    }
    while (true) {
      if (from_ < barrier()) {
        MILLRACE_RETURN_IF_ERROR(Next());
      } else if (next_lost_ < input_.lost.size()) {
        MILLRACE_RETURN_IF_ERROR(PassLost());
      } else {
        return absl::OkStatus();
      }
    }
  }

 private:
  // A line, or lines up to where the quotes of the first are closed.
  struct Row {
    uint64_t begin = 0;
    uint64_t line_end = 0;  // of the first line
    uint64_t end = 0;
    bool breaks = false;  // the first line has a line break
    bool closed = true;
  };
  struct Wrong {
    RecordErrorReason reason = RecordErrorReason::kExample;
    std::string text;  // "": nothing is
  };
  struct Judged {
    Row row;
    uint64_t next = 0;  // behind blank lines
    std::string_view framed;
    std::string_view payload;
    size_t cells = 0;
    Wrong wrong;
  };

  struct Counted {
    size_t cells = 0;   // that most rows have
    int num_alike = 0;  // rows that have so many
    int num_rows = 0;
  };

  // The end of the bytes that are there: the next place where bytes were lost.
  uint64_t barrier() const {
    return next_lost_ < input_.lost.size() ? input_.lost[next_lost_].begin : input_.file.size();
  }
  bool loses_at_barrier() const { return next_lost_ < input_.lost.size(); }

  // The bytes that are held of a line, with its end if that is held.
  struct Piece {
    std::string_view bytes;
    bool ends = false;
  };
  // The view lives until the next call. REQUIRES: at < barrier().
  absl::StatusOr<Piece> PieceOfLine(uint64_t at) {
    const uint64_t least = std::min<uint64_t>(2, barrier() - at);
    MILLRACE_ASSIGN_OR_RETURN(std::string_view bytes, bytes_.From(at, barrier(), least));
    // A "\n" may belong to it.
    if (bytes.ends_with('\r') && at + bytes.size() < barrier()) bytes.remove_suffix(1);
    if (!bytes_.may_have_return()) {
      const size_t feed = bytes.find('\n');
      const bool ends = feed != bytes.npos;
      return Piece{bytes.substr(0, ends ? feed + 1 : feed), ends};
    }
    const LineEnd end = FindLineEnd(bytes);
    if (end.bytes == 0) return Piece{bytes, false};
    return Piece{bytes.substr(0, end.at + end.bytes), true};
  }

  absl::StatusOr<Row> Scan(uint64_t begin) {
    Row row = {.begin = begin, .line_end = barrier(), .end = begin};
    while (row.end < barrier()) {
      MILLRACE_ASSIGN_OR_RETURN(const Piece piece, PieceOfLine(row.end));
      if (is_csv_ && std::ranges::count(piece.bytes, '"') % 2 != 0) row.closed = !row.closed;
      row.end += piece.bytes.size();
      const bool is_long = row.end - begin > input_.max_record_bytes;
      if (piece.ends && !std::exchange(row.breaks, true)) row.line_end = row.end;
      if (row.breaks && is_long) break;
      if (piece.ends && row.closed) break;
    }
    return row;
  }

  // Behind the blank lines at `at`, which are no rows.
  absl::StatusOr<uint64_t> BehindBlank(uint64_t at) {
    if (input_.container.skips_blank) return BehindBlankText(at);
    while (is_csv_ && at < barrier()) {
      MILLRACE_ASSIGN_OR_RETURN(const std::string_view bytes, bytes_.From(at, barrier()));
      if (bytes[0] != '\n' && bytes[0] != '\r') break;
      const size_t blank = bytes.find_first_not_of("\r\n");
      at += std::min(blank, bytes.size());
      if (blank != bytes.npos) break;
    }
    return at;
  }

  // The same where blanks alone make no record.
  absl::StatusOr<uint64_t> BehindBlankText(uint64_t at) {
    uint64_t line = at;  // the last that began
    while (at < barrier()) {
      MILLRACE_ASSIGN_OR_RETURN(const Piece piece, PieceOfLine(at));
      if (piece.bytes.find_first_not_of(" \t\r\n") != piece.bytes.npos) return line;
      at += piece.bytes.size();
      if (piece.ends) line = at;
    }
    return at;
  }

  // The views live until the next call.
  absl::StatusOr<Judged> Judge(uint64_t begin) {
    Judged judged;
    MILLRACE_ASSIGN_OR_RETURN(judged.row, Scan(begin));
    const Row& row = judged.row;
    MILLRACE_ASSIGN_OR_RETURN(judged.next, BehindBlank(row.end));
    if (judged.next - begin > input_.max_record_bytes) {
      judged.wrong = {RecordErrorReason::kAbsurdLength,
                      absl::StrCat(is_csv_ ? "a row" : "a line", " of more than ",
                                   input_.max_record_bytes, " bytes, which is the limit")};
      return judged;
    }
    if (!row.closed) {
      judged.wrong = {RecordErrorReason::kTruncatedPayload,
                      loses_at_barrier() ? "the stream breaks inside a quoted field of this row"
                                         : "the file ends inside a quoted field of this row"};
      return judged;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string_view bytes,
                              bytes_.From(begin, judged.next, judged.next - begin));
    judged.framed = bytes;
    const RecordRef ref = {0, teller_.ordinal(), begin, bytes.size()};
    const auto payload =
        container_->Unframe(input_.file.path(), ref, std::as_bytes(std::span(bytes)));
    if (!payload.ok()) {
      judged.wrong = {RecordErrorReason::kUnknown, "an empty row"};
      return judged;
    }
    judged.payload = *payload;
    if (is_csv_) CountCells(judged);
    return judged;
  }

  void CountCells(Judged& judged) {
    arena_.Reset();
    std::array<internal::CsvCell, 1> none;
    const auto cells =
        internal::SplitCsvRow(judged.payload, input_.container.delimiter, arena_, none);
    if (!cells.ok()) judged.wrong.text = std::string(cells.status().message());
    judged.cells = cells.value_or(0);
  }

  // Reads the row that names the columns and finds out how many cells a row has: as many as that
  // row, or, without one, as most of the first rows.
  absl::Status Front() {
    MILLRACE_ASSIGN_OR_RETURN(from_, BehindBlank(from_));
    std::optional<Judged> header;
    uint64_t at = from_;
    if (input_.container.has_header && from_ < input_.file.size()) {
      MILLRACE_ASSIGN_OR_RETURN(header, Judge(from_));
      at = header->wrong.text.empty() ? header->next : header->row.line_end;
    }
    MILLRACE_ASSIGN_OR_RETURN(const Counted counted, CountRows(at));
    num_cells_ = counted.cells;
    if (!header.has_value()) return absl::OkStatus();
    return Header(*header, counted, at);
  }

  absl::Status Header(const Judged& header, const Counted& counted, uint64_t behind) {
    const uint64_t begin = std::exchange(from_, behind);
    std::string wrong = header.wrong.text;
    if (!header.row.breaks && loses_at_barrier()) wrong = "the stream breaks in it";
    if (!wrong.empty()) {
      return teller_.Header(begin, from_ - begin,
                            absl::StrCat("the row that names the columns is damaged: ", wrong));
    }
    // Some writers name one column less than there are: the number that most rows have goes first.
    const bool rows_agree = counted.num_alike > 1 && 2 * counted.num_alike > counted.num_rows;
    if (!rows_agree) num_cells_ = header.cells;
    of_header_ = num_cells_ == header.cells;
    return absl::OkStatus();
  }

  // Counts the rows at `at` and, where bytes of the stream are lost, those behind the next places
  // too: the bytes in front of one may have been made up.
  absl::StatusOr<Counted> CountRows(uint64_t at) {
    Counted most;
    std::map<size_t, int> rows;
    const size_t next_lost = next_lost_;
    for (int i = 0; i < kStretchesToCount; ++i) {
      MILLRACE_RETURN_IF_ERROR(CountStretch(at, rows, most));
      if (!loses_at_barrier()) break;
      MILLRACE_ASSIGN_OR_RETURN(at, BehindLost(input_.lost[next_lost_++]));
    }
    next_lost_ = next_lost;
    return most;
  }

  absl::Status CountStretch(uint64_t at, std::map<size_t, int>& rows, Counted& most) {
    for (int i = 0; i < kRowsToCount && at < barrier(); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const Judged judged, Judge(at));
      at = judged.wrong.text.empty() ? judged.next : judged.row.line_end;
      const bool is_torn = !judged.row.breaks && loses_at_barrier();
      if (is_torn || !judged.wrong.text.empty()) continue;
      ++most.num_rows;
      const int num_alike = ++rows[judged.cells];
      if (num_alike > most.num_alike) most = {judged.cells, num_alike, most.num_rows};
    }
    return absl::OkStatus();
  }

  absl::Status Next() {
    MILLRACE_ASSIGN_OR_RETURN(Judged judged, Judge(from_));
    const Row& row = judged.row;
    if (!row.breaks && loses_at_barrier()) return PassLost();
    if (is_csv_ && num_cells_ == 0 && judged.wrong.text.empty()) {  // the first row that is one
      MILLRACE_ASSIGN_OR_RETURN(const Counted counted, CountRows(from_));
      num_cells_ = counted.cells;
      MILLRACE_ASSIGN_OR_RETURN(judged, Judge(from_));
    }
    if (judged.wrong.text.empty() && is_csv_ && judged.cells != num_cells_) {
      judged.wrong.text =
          absl::StrCat(judged.cells, " cells; ",
                       of_header_ ? "the row of names has " : "most rows have ", num_cells_);
    }
    if (judged.wrong.text.empty()) {
      from_ = judged.next;
      return teller_.Record(row.begin, judged.framed, judged.payload);
    }
    MILLRACE_ASSIGN_OR_RETURN(from_, BehindBlank(row.line_end));
    return teller_.Damage(row.begin, from_ - row.begin, judged.wrong.reason, judged.wrong.text);
  }

  // Where the first line begins behind lost bytes: a line before it may lack its front.
  // REQUIRES: `lost` is in front of the barrier.
  absl::StatusOr<uint64_t> BehindLost(const LostBytes& lost) {
    uint64_t at = std::min(lost.begin + lost.bytes, barrier());
    while (at < barrier()) {
      MILLRACE_ASSIGN_OR_RETURN(const Piece piece, PieceOfLine(at));
      at += piece.bytes.size();
      if (piece.ends) break;
    }
    return input_.container.skips_blank ? BehindBlank(at) : at;
  }

  absl::Status PassLost() {
    const LostBytes& lost = input_.lost[next_lost_++];
    const uint64_t begin = from_;
    MILLRACE_ASSIGN_OR_RETURN(from_, BehindLost(lost));
    return teller_.Lost(begin, from_ - begin, lost.damage);
  }

  const PartsInput& input_;
  const bool is_csv_;
  const std::unique_ptr<const Container> container_;
  PartTeller& teller_;
  ByteWindow bytes_;
  uint64_t from_ = 0;
  size_t next_lost_ = 0;    // of input_.lost, from from_ on
  size_t num_cells_ = 0;    // of a row; 0: none was seen yet that is one
  bool of_header_ = false;  // the row that names the columns says so
  RunArena arena_;
};

}  // namespace

absl::Status WalkLineParts(const PartsInput& input, PartTeller& teller) {
  return LineWalk(input, teller).Run();
}

}  // namespace millrace::readers
