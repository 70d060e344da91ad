#include "readers/record_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/write/record_writer.h"

namespace millrace::readers {
namespace {

class PlainSink : public RecordSink {
 public:
  explicit PlainSink(AtomicFile& file) : file_(file) { buffer_.reserve(kBufferBytes); }

  absl::Status Append(std::span<const std::byte> data) override {
    if (buffer_.size() + data.size() > kBufferBytes) MILLRACE_RETURN_IF_ERROR(Finish());
    if (data.size() >= kBufferBytes) return file_.Append(data);
    buffer_.insert(buffer_.end(), data.begin(), data.end());
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    MILLRACE_RETURN_IF_ERROR(file_.Append(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kBufferBytes = 256 << 10;
  AtomicFile& file_;
  std::vector<std::byte> buffer_;
};

class DeflateSink : public RecordSink {
 public:
  DeflateSink(AtomicFile& file, Compression compression, int level)
      : file_(file), buffer_(kBufferBytes) {
    constexpr int kGzipWrapper = 16;  // added to the window bits, see zlib.h
    constexpr int kMemLevel = 8;
    const int bits = MAX_WBITS + (compression == Compression::kGzip ? kGzipWrapper : 0);
    init_ = deflateInit2(&stream_, level, Z_DEFLATED, bits, kMemLevel, Z_DEFAULT_STRATEGY);
  }
  ~DeflateSink() override {
    if (init_ == Z_OK) deflateEnd(&stream_);
  }

  absl::Status Append(std::span<const std::byte> data) override {
    constexpr size_t kMostPerCall = size_t{1} << 30;  // avail_in has 32 bits
    while (!data.empty()) {
      const auto piece = data.first(std::min(data.size(), kMostPerCall));
      MILLRACE_RETURN_IF_ERROR(Deflate(piece, Z_NO_FLUSH));
      data = data.subspan(piece.size());
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override { return Deflate({}, Z_FINISH); }

 private:
  static constexpr size_t kBufferBytes = 256 << 10;

  absl::Status Deflate(std::span<const std::byte> data, int flush) {
    if (init_ != Z_OK) {
      return absl::ResourceExhaustedError(absl::StrCat(file_.path(), ": zlib: ", zError(init_)));
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
    stream_.avail_in = static_cast<uInt>(data.size());
    while (true) {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const int result = deflate(&stream_, flush);
      if (result == Z_STREAM_ERROR) {
        return absl::InternalError(absl::StrCat(file_.path(), ": zlib: ", zError(result)));
      }
      const size_t made = buffer_.size() - stream_.avail_out;
      MILLRACE_RETURN_IF_ERROR(file_.Append({buffer_.data(), made}));
      if (stream_.avail_out > 0) return absl::OkStatus();
    }
  }

  AtomicFile& file_;
  std::vector<std::byte> buffer_;
  z_stream stream_ = {};
  int init_ = Z_OK;
};

class Writer : public TfRecordWriter {
 public:
  Writer(std::unique_ptr<AtomicFile> file, const TfRecordWriterOptions& options)
      : file_(std::move(file)),
        sink_(MakeRecordSink(*file_, options.compression, options.compression_level)),
        sync_(options.sync) {}

  absl::Status Write(std::string_view payload) override {
    if (closed_) return Closed();
    if (torn_) return Torn();
    if (status_.ok()) status_ = Append(payload);
    return status_;
  }

  absl::Status Close() override {
    if (closed_) return Closed();
    closed_ = true;
    if (torn_) status_ = Torn();
    if (status_.ok()) status_ = sink_->Finish();
    if (status_.ok()) status_ = file_->Commit(sync_);
    if (!status_.ok()) file_.reset();  // removes the temporary file now
    return status_;
  }

  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return num_bytes_; }

 private:
  absl::Status Append(std::string_view payload) {
    const auto bytes = std::as_bytes(std::span(payload));
    std::array<std::byte, kHeaderBytes> header;
    std::array<std::byte, kFooterBytes> footer;
    EncodeHeader(payload.size(), header.data());
    StoreU32(MaskedCrc32c(bytes), footer.data());
    torn_ = true;
    MILLRACE_RETURN_IF_ERROR(sink_->Append(header));
    MILLRACE_RETURN_IF_ERROR(sink_->Append(bytes));
    MILLRACE_RETURN_IF_ERROR(sink_->Append(footer));
    torn_ = false;
    ++num_records_;
    num_bytes_ += payload.size() + kFrameBytes;
    return absl::OkStatus();
  }

  absl::Status Torn() const {
    if (!status_.ok()) return status_;
    return absl::ResourceExhaustedError(
        absl::StrCat(file_->path(), ": memory ended within a record"));
  }

  absl::Status Closed() const {
    return status_.ok() ? absl::FailedPreconditionError("the record writer is closed") : status_;
  }

  std::unique_ptr<AtomicFile> file_;
  const std::unique_ptr<RecordSink> sink_;
  const bool sync_;
  absl::Status status_;  // the first failure
  bool torn_ = false;    // true while a record is appended, and if that has failed
  bool closed_ = false;
  uint64_t num_records_ = 0;
  uint64_t num_bytes_ = 0;
};

}  // namespace

std::string FramedTfRecord(std::string_view payload) {
  std::string frame(payload.size() + kFrameBytes, '\0');
  auto* const bytes = reinterpret_cast<std::byte*>(frame.data());
  EncodeHeader(payload.size(), bytes);
  payload.copy(frame.data() + kHeaderBytes, payload.size());
  StoreU32(MaskedCrc32c(std::as_bytes(std::span(payload))), bytes + kHeaderBytes + payload.size());
  return frame;
}

std::unique_ptr<RecordSink> MakeRecordSink(AtomicFile& file, Compression compression, int level) {
  if (compression == Compression::kNone) return std::make_unique<PlainSink>(file);
  if (compression == Compression::kZstd) return MakeZstdSink(file, level);
  return std::make_unique<DeflateSink>(file, compression, level);
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> OpenTfRecordWriterWith(
    const std::string& path, const TfRecordWriterOptions& options, WriteFunction write_function) {
  if (options.compression == Compression::kAuto) {
    return absl::InvalidArgumentError("a writer needs a compression, kAuto is for readers");
  }
  if (options.compression_level < 1 || options.compression_level > 9) {
    return absl::InvalidArgumentError(
        absl::StrCat("compression_level ", options.compression_level, " is not in 1..9"));
  }
  MILLRACE_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path, std::move(write_function)));
  return std::make_unique<Writer>(std::move(file), options);
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Open(
    const std::string& path, const TfRecordWriterOptions& options) {
  return OpenTfRecordWriterWith(path, options, {});
}

}  // namespace millrace::readers
