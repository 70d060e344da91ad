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
#include "readers/container/container.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/open_file.h"
#include "readers/source/dali_index.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr size_t kWindowBytes = 256 << 10;
constexpr size_t kMaxLineBytes = 64;  // two numbers of 64 bits take 41
constexpr size_t kWriteBytes = 1 << 20;

// Lines of a file, one after the other.
class LineReader {
 public:
  explicit LineReader(const RandomAccessFile& file)
      : file_(file), window_(std::min<uint64_t>(file.size(), kWindowBytes) + kMaxLineBytes + 1) {}

  // The next line, without its end, valid until the next call; of one of more than kMaxLineBytes
  // only so many. Nullopt at the end of the file.
  absl::StatusOr<std::optional<std::string_view>> Next() {
    if (left_.size() <= kMaxLineBytes) MILLRACE_RETURN_IF_ERROR(Fill());
    if (left_.empty()) return std::nullopt;
    const std::string_view head = left_.substr(0, kMaxLineBytes + 1);
    const std::string_view line = head.substr(0, std::min(head.find('\n'), kMaxLineBytes));
    left_.remove_prefix(std::min(line.size() + 1, left_.size()));
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

// Nullopt: the line is not two numbers and a space between them.
std::optional<ListedFrame> ParseLine(std::string_view line) {
  ListedFrame frame;
  const char* const end = line.data() + line.size();
  const auto offset = std::from_chars(line.data(), end, frame.offset);
  if (offset.ec != std::errc() || offset.ptr == end || *offset.ptr != ' ') return std::nullopt;
  const auto bytes = std::from_chars(offset.ptr + 1, end, frame.bytes);
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
  for (uint64_t number = 1;; ++number) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines.Next());
    if (!line.has_value()) return frames.Finish(memory);
    const std::optional<ListedFrame> frame = ParseLine(*line);
    const std::string why =
        frame.has_value() ? frames.Add(*frame) : "not the offset and the size of a record";
    if (why.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ":", number, ": ", why));
  }
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
