#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "pipeline/audit.h"
#include "pipeline/audit/format.h"

namespace millrace::pipeline {
namespace {

uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

class AuditLogFile final : public AuditLog {
 public:
  AuditLogFile(UniqueFd fd, std::string path, const AuditHeader& header, bool sync)
      : fd_(std::move(fd)), path_(std::move(path)), sync_(sync), header_(header) {}

  absl::Status Restart(uint64_t start_batch) override {
    header_.start_batch = start_batch;
    header_.started_ns = std::max(header_.started_ns, Now());
    return Begin();
  }
  absl::Status Begin() { return Write(EncodeAuditHeader(header_), sync_); }

  absl::Status Add(const AuditBatch& batch) override {
    return Write(EncodeAuditBatch(batch), sync_);
  }
  absl::Status Finish(uint64_t next_batch, bool end_of_stream) override {
    return Write(EncodeAuditEnd({next_batch, end_of_stream}), /*sync=*/true);
  }
  absl::Status Write(const std::string& block, bool sync) {
    if (status_.ok()) {
      status_ = WriteFully(fd_.get(), std::as_bytes(std::span(block)), path_, {});
    }
    if (status_.ok() && sync && ::fdatasync(fd_.get()) != 0 && errno != EINVAL) {
      status_ = ErrnoStatus(errno, "fdatasync", path_);
    }
    return status_;
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
  const bool sync_;  // AuditLogOptions::sync
  AuditHeader header_;
  absl::Status status_;  // the first error
};

absl::Status CheckSameStream(const std::string& path, const AuditHeader& logged,
                             const AuditHeader& header) {
  std::string differs;
  if (logged.semantics_version != header.semantics_version) differs += " semantics_version";
  if (logged.plan_fingerprint != header.plan_fingerprint) differs += " plan";
  if (logged.data_fingerprint != header.data_fingerprint) differs += " data";
  if (differs.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": the audit log is of another stream; it differs in:", differs));
}

// A file system without locks (some network ones) has nothing to say about other writers.
absl::Status Lock(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  const int error = errno;
  if (error == ENOSYS || error == EOPNOTSUPP) return absl::OkStatus();
  if (error != EWOULDBLOCK) return ErrnoStatus(error, "flock", path);
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": another process writes this audit log"));
}

// Where the last whole block ends. Everything behind it was torn by a kill.
absl::StatusOr<uint64_t> WholeBytes(const AuditReader& reader, const AuditHeader& header) {
  AuditBlock block;
  uint64_t offset = 0;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const AuditReader::Outcome outcome, reader.Read(offset, block));
    if (outcome == AuditReader::Outcome::kEnd || outcome == AuditReader::Outcome::kTorn) {
      return offset;
    }
    if (outcome == AuditReader::Outcome::kDamaged) {
      if (offset == 0) {
        return absl::FailedPreconditionError(absl::StrCat(reader.path(), " is no audit log"));
      }
      return absl::DataLossError(
          absl::StrCat(reader.path(), ": the audit log is damaged at offset ", offset));
    }
    if (block.kind == AuditBlockKind::kHeader) {
      const std::optional<AuditHeader> logged = DecodeAuditHeader(block.payload);
      if (!logged) {
        return absl::FailedPreconditionError(absl::StrCat(
            reader.path(), ": offset ", offset, ": a header that this version does not know"));
      }
      MILLRACE_RETURN_IF_ERROR(CheckSameStream(reader.path(), *logged, header));
    }
    offset = block.end;
  }
}

}  // namespace

AuditBatch MakeAuditBatch(const Batch& batch, std::span<const AuditReplaced> replaced) {
  AuditBatch slice;
  slice.index = batch.index();
  slice.epoch = batch.epoch();
  slice.ends_epoch = batch.ends_epoch();
  slice.first_global_row = batch.first_global_row();
  slice.num_rows = batch.num_rows();
  slice.num_global_valid_rows = batch.num_global_valid_rows();
  slice.replaced.assign(replaced.begin(), replaced.end());
  for (const DamagedSample& one : batch.damaged()) {
    const RecordError error = GetRecordError(one.error).value_or(RecordError());
    slice.replaced.push_back({one.row, one.id, error.reason});
  }
  std::vector<bool> visited(static_cast<size_t>(batch.num_rows()), true);
  for (const AuditReplaced& one : slice.replaced) visited[static_cast<size_t>(one.row)] = false;
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    const auto at = static_cast<size_t>(row);
    if (batch.valid()[at] != 0 && visited[at]) slice.visits.push_back({row, batch.ids()[at]});
  }
  return slice;
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path,
                                                         AuditHeader header,
                                                         const AuditLogOptions& options) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return CannotCreate(errno, path);
  MILLRACE_RETURN_IF_ERROR(Lock(fd.get(), path));
  MILLRACE_ASSIGN_OR_RETURN(const AuditReader reader, AuditReader::Open(path));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t whole_bytes, WholeBytes(reader, header));
  if (whole_bytes < reader.size() && ::ftruncate(fd.get(), static_cast<off_t>(whole_bytes)) != 0) {
    return ErrnoStatus(errno, "ftruncate", path);
  }
  if (header.started_ns == 0) header.started_ns = Now();
  auto log = std::make_unique<AuditLogFile>(std::move(fd), path, header, options.sync);
  MILLRACE_RETURN_IF_ERROR(log->Begin());
  return log;
}

}  // namespace millrace::pipeline
