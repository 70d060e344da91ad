#ifndef MILLRACE_READERS_INFLATE_PASS_H_
#define MILLRACE_READERS_INFLATE_PASS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/file/index_key.h"
#include "readers/inflate/access_points.h"
#include "readers/inflate/deflate_source.h"

struct XXH3_state_s;

namespace millrace::readers {

struct InflatePassOptions {
  uint64_t span_bytes = 4 << 20;  // inflated or in the file, about; from kLeastSpanBytes to 16 MiB
  // Called with the bytes of the file since the last call; may be empty.
  std::function<void(uint64_t bytes)> advanced;
};

// Inflates a gzip, zlib or zstd file once, from its begin to its end, and makes its access points.
// Meanwhile the inflated bytes can be read in order, so that a search for records needs no pass of
// its own. Thread-compatible, ReadAt too.
class InflatePass : public RandomAccessFile {
 public:
  InflatePass(std::shared_ptr<const RandomAccessFile> file, Compression compression,
              InflatePassOptions options);
  ~InflatePass() override;

  // REQUIRES: no read before was at a larger offset.
  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  // Number of inflated bytes; before the end is known, more than any file has.
  uint64_t size() const override;
  const std::string& path() const override { return source_->path(); }

  // Goes on to the end and returns the file of points (EncodePoints).
  //   DATA_LOSS            with RecordError: the stream is damaged
  //   FAILED_PRECONDITION  it cannot be entered often enough
  //   other                the file cannot be read
  absl::StatusOr<std::vector<std::byte>> Finish(const IndexKey& key);

 private:
  struct FreeDigest {
    void operator()(XXH3_state_s* state) const;
  };

  absl::Status Advance();
  void MakeRoom();
  void Add(size_t got);
  void EndSpan(const InflateEntry& next);
  uint64_t end() const { return begin_ + filled_; }

  const InflatePassOptions options_;
  const std::unique_ptr<EnterableSource> source_;
  AccessPoints points_;
  WindowPacker packer_;
  std::vector<std::byte> windows_;
  std::unique_ptr<XXH3_state_s, FreeDigest> digest_;  // digest of the last span so far
  // The latest inflated bytes: `filled_` of them, from begin_ on.
  std::vector<std::byte> recent_;
  uint64_t begin_ = 0;
  size_t filled_ = 0;
  uint64_t told_ = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_PASS_H_
