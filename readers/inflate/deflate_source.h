#ifndef MILLRACE_READERS_INFLATE_DEFLATE_SOURCE_H_
#define MILLRACE_READERS_INFLATE_DEFLATE_SOURCE_H_

#include <isa-l/igzip_lib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/inflate/byte_source.h"

namespace millrace::readers {

// Where a file can be entered: the begin of a deflate block, of a gzip member or of a zstd frame.
struct InflateEntry {
  uint64_t in_bits = 0;  // from the begin of the file
  // True for a block: the 32 KiB that were inflated before it must be known.
  bool in_member = false;
};

// The inflated bytes of a file; tells on demand where the file can be entered. Thread-compatible.
class EnterableSource : public ByteSource {
 public:
  std::optional<uint64_t> Remaining() const override { return std::nullopt; }

  // Read that looks for entries: inflates a little, perhaps nothing (then 0 is not the end), and
  // sets `entry` when the file can be entered behind what has been read by now. It finds every
  // begin of a member or frame and nearly every begin of a block, but may take a call for a few
  // bytes of input: for use once in a long while.
  virtual absl::StatusOr<size_t> ReadToEntry(std::span<std::byte> out,
                                             std::optional<InflateEntry>& entry) = 0;

  // True if the end was reached without damage.
  virtual bool ended() const = 0;
  // End of the part of the file that was inflated.
  virtual uint64_t consumed() const = 0;
  // Begin, in the file, of the member or frame that was entered last, or of the one expected next.
  virtual uint64_t member_begin() const = 0;
};

// gzip, zlib or zstd, from byte `begin` of the file on. Reads `chunk_bytes` of it at a time.
std::unique_ptr<EnterableSource> MakeEnterableSource(std::shared_ptr<const RandomAccessFile> file,
                                                     Compression compression, size_t chunk_bytes,
                                                     uint64_t begin = 0);
// Its part for zstd.
std::unique_ptr<EnterableSource> MakeZstdSource(std::shared_ptr<const RandomAccessFile> file,
                                                size_t chunk_bytes, uint64_t begin = 0);

// The bytes of a gzip or zlib file.
class InflateSource : public EnterableSource {
 public:
  InflateSource(std::shared_ptr<const RandomAccessFile> file, Compression compression,
                size_t chunk_bytes, uint64_t begin);

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override;
  const std::string& path() const override { return file_->path(); }

  absl::StatusOr<size_t> ReadToEntry(std::span<std::byte> out,
                                     std::optional<InflateEntry>& entry) override;
  bool ended() const override { return ended_; }
  uint64_t consumed() const override { return offset_ - avail_in(); }
  uint64_t member_begin() const override { return member_begin_; }

 private:
  size_t Prepare(std::span<std::byte> out);
  absl::Status Step();
  absl::Status Refill();
  absl::Status StartMember();
  absl::Status SkipPadding();
  absl::Status ReadHeader();
  void LimitInput();
  void FreeInput();
  uint64_t avail_in() const { return uint64_t{state_.avail_in} + held_back_; }
  absl::Status StrayBytes() const;
  absl::Status Cut() const;
  absl::Status Damage(RecordErrorReason reason, std::string_view text) const;

  const std::shared_ptr<const RandomAccessFile> file_;
  const Compression compression_;
  std::vector<std::byte> input_;
  uint64_t offset_;  // place in the file of the byte after input_
  uint64_t member_begin_;
  uint32_t held_back_ = 0;    // bytes of input_ that the inflater has not seen yet
  bool input_ended_ = false;  // true if input_ has the last bytes of the file
  bool in_member_ = false;    // true between the first byte of a member and its end
  bool in_header_ = false;    // true while the header of a gzip member is read
  bool ended_ = false;        // true if all members have been read
  uint64_t num_members_ = 0;  // that ended well
  absl::Status status_;       // the first failure
  inflate_state state_ = {};
  isal_gzip_header header_ = {};  // nothing of it is kept
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_DEFLATE_SOURCE_H_
