#include "cli/emulate/visit_record.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/open_file.h"

namespace millrace::cli {

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  constexpr uint64_t kAround = 5;  // a byte order mark and a line end
  absl::StatusOr<std::string> token =
      readers::ReadTextFile(path, pipeline::kMaxTokenBytes + kAround);
  if (absl::IsNotFound(token.status())) return "";
  if (!token.ok()) return Annotate(token.status(), "resume token");
  std::string_view rest = *token;
  // It is written whole, with its line end. Less would be taken for the start, or for an earlier
  // batch.
  const std::string_view line = TakeLine(rest);
  const std::string_view why = line.empty()                   ? "there is no token in it"
                               : line.size() == token->size() ? "it has no line end"
                               : !rest.empty()                ? "it has more than one line"
                                                              : "";
  if (why.empty()) return std::string(line);
  return absl::InvalidArgumentError(absl::StrCat(
      "resume token: ", path, ": ", ToAbsl(why),
      "; it was cut off, or something else wrote it. Without the file the run begins anew"));
}

absl::StatusOr<VisitRecord> VisitRecord::Open(const std::string& audit_path,
                                              const std::string& token_path,
                                              const pipeline::Plan& plan,
                                              const pipeline::Pipeline& stream,
                                              const pipeline::OpenOptions& options) {
  VisitRecord record;
  record.token_path_ = token_path;
  if (audit_path.empty()) return record;
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::AuditHeader header,
                            pipeline::MakeAuditHeader(plan, stream, options));
  record.next_batch_ = header.start_batch;
  MILLRACE_ASSIGN_OR_RETURN(record.log_, pipeline::AuditLog::Open(audit_path, header));
  return record;
}

// The log is written first: if the process is killed between the two, the batch is delivered again
// and the log shows it. In the other order the batch would never be logged.
absl::Status VisitRecord::Add(const pipeline::Batch& batch) {
  next_batch_ = batch.index() + 1;
  if (log_ != nullptr) MILLRACE_RETURN_IF_ERROR(log_->Add(batch));
  if (token_path_.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(token_path_));
  const std::string line = batch.resume_token() + "\n";
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(line))));
  return file->Commit(/*sync=*/false);
}

absl::Status VisitRecord::Finish(bool end_of_stream) {
  return log_ == nullptr ? absl::OkStatus() : log_->Finish(next_batch_, end_of_stream);
}

}  // namespace millrace::cli
