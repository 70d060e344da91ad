#ifndef MILLRACE_PIPELINE_AUDIT_FORMAT_H_
#define MILLRACE_PIPELINE_AUDIT_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "pipeline/audit.h"

// The blocks of an audit log, byte by byte as docs/audit.md says.

namespace millrace::pipeline {

enum class AuditBlockKind : uint32_t { kHeader = 1, kBatch = 2, kEnd = 3 };

// An orderly stop.
struct AuditEnd {
  uint64_t next_batch = 0;
  bool end_of_stream = false;  // true if no batch follows
};

// Whole blocks, ready to be written.
std::string EncodeAuditHeader(const AuditHeader& header);
std::string EncodeAuditBatch(const AuditBatch& batch);
std::string EncodeAuditEnd(const AuditEnd& end);

// The inverse, from a block's payload; nullopt for a payload that the encoder does not write.
std::optional<AuditHeader> DecodeAuditHeader(std::string_view payload);
std::optional<AuditBatch> DecodeAuditBatch(std::string_view payload);
std::optional<AuditEnd> DecodeAuditEnd(std::string_view payload);
// Only the number of a batch, of which the payload's first bytes are enough.
std::optional<uint64_t> DecodeAuditBatchIndex(std::string_view payload);

struct AuditBlock {
  AuditBlockKind kind = AuditBlockKind::kHeader;
  std::string payload;
  uint64_t end = 0;  // offset behind the block
};

// Reads a log block by block. Immutable, thread-safe.
class AuditReader {
 public:
  // The kind of bytes at an offset.
  enum class Outcome {
    kBlock,
    kEnd,      // the end of the file
    kTorn,     // the file ends inside the block, or holds only zeros from here on
    kDamaged,  // no block
  };

  static absl::StatusOr<AuditReader> Open(const std::string& path);

  // Fills `block` for kBlock. Other statuses: the file cannot be read.
  absl::StatusOr<Outcome> Read(uint64_t offset, AuditBlock& block) const;
  const std::string& path() const { return file_->path(); }
  uint64_t size() const { return file_->size(); }

 private:
  explicit AuditReader(std::shared_ptr<const RandomAccessFile> file) : file_(std::move(file)) {}
  absl::StatusOr<bool> OnlyZeros(uint64_t offset) const;

  std::shared_ptr<const RandomAccessFile> file_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_FORMAT_H_
