#include "readers/dali_index.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/container/container.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/open_file.h"
#include "readers/source/dali_index.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr size_t kWindowBytes = 256 << 10;
constexpr size_t kMaxLineBytes = 256;  // two numbers of 64 bits take 40; blanks around them
constexpr size_t kWriteBytes = 1 << 20;

// Lines of a file, one after the other.
class LineReader {
 public:
  explicit LineReader(const RandomAccessFile& file)
      : file_(file), window_(std::min<uint64_t>(file.size(), kWindowBytes) + kMaxLineBytes + 2) {}

  // The next line, without its end, valid until the next call; of one of more than kMaxLineBytes
  // only so many. Nullopt at the end of the file.
  absl::StatusOr<std::optional<std::string_view>> Next() {
    if (left_.size() <= kMaxLineBytes + 1) MILLRACE_RETURN_IF_ERROR(Fill());
    if (left_.empty()) return std::nullopt;
    const LineEnd end = FindLineEnd(left_.substr(0, kMaxLineBytes + 2));
    const std::string_view line = left_.substr(0, std::min(end.at, kMaxLineBytes));
    left_.remove_prefix(std::min(line.size() + std::max<size_t>(end.bytes, 1), left_.size()));
    return line;
  }

 private:
  absl::Status Fill() {
    if (!left_.empty()) std::memmove(window_.data(), left_.data(), left_.size());
    const auto room = std::as_writable_bytes(std::span(window_).subspan(left_.size()));
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(offset_, room));
    offset_ += got;
    left_ = {window_.data(), left_.size() + got};
    return absl::OkStatus();
  }

  const RandomAccessFile& file_;
  std::vector<char> window_;
  std::string_view left_;  // of the window
  uint64_t offset_ = 0;    // of what follows it in the file
};

struct ListedFrame {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

constexpr std::string_view kBlanks = " \t";

std::string_view WithoutBlanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Nullopt: the line is not two numbers and blanks between them.
std::optional<ListedFrame> ParseLine(std::string_view line) {
  ListedFrame frame;
  const char* const end = line.data() + line.size();
  const auto offset = std::from_chars(line.data(), end, frame.offset);
  if (offset.ec != std::errc() || offset.ptr == end) return std::nullopt;
  if (kBlanks.find(*offset.ptr) == kBlanks.npos) return std::nullopt;
  const std::string_view rest = WithoutBlanks({offset.ptr, end});
  const auto bytes = std::from_chars(rest.data(), end, frame.bytes);
  if (bytes.ec != std::errc() || bytes.ptr != end) return std::nullopt;
  return frame;
}

// Collects the frames of an index.
class FrameList {
 public:
  FrameList(uint64_t shard_bytes, uint64_t max_record_bytes)
      : shard_bytes_(shard_bytes),
        max_frame_bytes_(kFrameBytes + std::min<uint64_t>(max_record_bytes,
                                                          std::numeric_limits<uint32_t>::max())) {}

  // Returns what is wrong with the frame behind those that were added, or "".
  std::string Add(const ListedFrame& frame) {
    if (frame.bytes < kFrameBytes) {
      return absl::StrCat("a record of ", frame.bytes, " bytes, where its frame alone takes ",
                          kFrameBytes);
    }
    if (frame.offset < end_) {
      return absl::StrCat("offset ", frame.offset, " lies before ", end_,
                          ", where the record before it ends");
    }
    if (frame.offset > shard_bytes_ || frame.bytes > shard_bytes_ - frame.offset) {
      return absl::StrCat(frame.bytes, " bytes at offset ", frame.offset,
                          " are not in the file, which has ", shard_bytes_);
    }
    if (frame.bytes > max_frame_bytes_) {
      return absl::StrCat("a record of ", frame.bytes - kFrameBytes, " bytes; the limit is ",
                          max_frame_bytes_ - kFrameBytes);
    }
    has_gaps_ |= !begins_.empty() && frame.offset != end_;
    begins_.push_back(frame.offset);
    lengths_.push_back(static_cast<uint32_t>(frame.bytes - kFrameBytes));
    end_ = frame.offset + frame.bytes;
    return "";
  }

  bool empty() const { return begins_.empty(); }

  absl::StatusOr<ShardIndex> Finish(const std::shared_ptr<IndexMemory>& memory) {
    const bool is_whole = !has_gaps_ && (begins_.empty() || begins_[0] == 0);
    begins_.push_back(end_);
    if (!has_gaps_) lengths_ = {};
    MILLRACE_ASSIGN_OR_RETURN(RecordIndex records,
                              RecordIndex::Make(begins_, kTfRecordFrames, memory, lengths_));
    uint64_t digest = records.LengthsDigest();
    // Two choices of records of one length are not the same data.
    if (!is_whole) {
      digest = XXH3_64bits_withSeed(begins_.data(), begins_.size() * sizeof begins_[0], digest);
    }
    return ShardIndex{std::move(records), digest};
  }

 private:
  const uint64_t shard_bytes_;
  const uint64_t max_frame_bytes_;
  std::vector<uint64_t> begins_;
  std::vector<uint32_t> lengths_;
  uint64_t end_ = 0;  // of the last frame
  bool has_gaps_ = false;
};

absl::Status Append(std::string* lines, size_t least, AtomicFile* file) {
  if (lines->size() < least) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(*lines))));
  lines->clear();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ShardIndex> ReadDaliIndex(const RandomAccessFile& file, uint64_t shard_bytes,
                                         uint64_t max_record_bytes,
                                         const std::shared_ptr<IndexMemory>& memory) {
  LineReader lines(file);
  FrameList frames(shard_bytes, max_record_bytes);
  std::optional<uint64_t> blank;  // the number of a blank line: behind it there are only others
  for (uint64_t number = 1;; ++number) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string_view> whole, lines.Next());
    if (!whole.has_value()) break;
    const size_t mark = number == 1 ? ByteOrderMarkBytes(*whole) : 0;
    const std::string_view line = WithoutBlanks(whole->substr(mark));
    if (line.empty() && !blank.has_value()) blank = number;
    if (line.empty()) continue;
    const std::optional<ListedFrame> frame = ParseLine(line);
    const std::string why = !frame.has_value()  ? "not the offset and the size of a record"
                            : blank.has_value() ? absl::StrCat("line ", *blank, " is blank")
                                                : frames.Add(*frame);
    if (why.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ":", number, ": ", why));
  }
  if (frames.empty() && shard_bytes > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": lists no record, but its file has ", shard_bytes, " bytes"));
  }
  return frames.Finish(memory);
}

absl::Status CheckMayHaveDaliIndex(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, OpenFile(path));
  const auto container = MakeTfRecordContainer(/*verify_crc=*/true);
  MILLRACE_ASSIGN_OR_RETURN(const Compression compression, DetectCompression(*file, *container));
  if (compression == Compression::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file->path(), ": is compressed, and a .idx tells of plain files only"));
}

absl::Status WriteDaliIndex(const RecordSource& source, uint64_t first, uint64_t count,
                            const std::string& path, Existing existing) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  std::string lines;
  for (uint64_t record = first; record < first + count; ++record) {
    const RecordRef ref = source.Locate(record);
    absl::StrAppend(&lines, ref.offset, " ", source.FramedBytes(ref), "\n");
    MILLRACE_RETURN_IF_ERROR(Append(&lines, kWriteBytes, file.get()));
  }
  MILLRACE_RETURN_IF_ERROR(Append(&lines, 1, file.get()));
  return file->Commit(/*sync=*/true, existing);
}

}  // namespace millrace::readers
