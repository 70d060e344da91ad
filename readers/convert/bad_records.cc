#include "readers/convert/bad_records.h"

#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"

namespace millrace::readers::internal {
namespace {

absl::Status WithText(const absl::Status& status, const std::string& text) {
  absl::Status changed(status.code(), text);
  if (const auto place = GetRecordError(status)) SetRecordError(changed, *place);
  return changed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BadRecords>> BadRecords::Open(const ConvertOptions& options) {
  std::unique_ptr<BadRecords> records(new BadRecords(options));
  if (options.quarantine_file.empty()) return records;
  MILLRACE_ASSIGN_OR_RETURN(records->quarantine_, QuarantineLog::Open(options.quarantine_file));
  return records;
}

absl::Status BadRecords::Add(const absl::Status& error) {
  if (absl::IsResourceExhausted(error) || absl::IsCancelled(error)) return error;
  ++count_;
  if (first_.ok()) first_ = error;
  if (options_.tell_bad) options_.tell_bad(error);
  const std::optional<RecordError> place = GetRecordError(error);
  if (quarantine_ != nullptr && place.has_value()) {
    MILLRACE_RETURN_IF_ERROR(quarantine_->Add(std::span(&*place, 1)));
  }
  if (num_good_ > 0 || count_ < kMostAtFirst) return absl::OkStatus();
  return WithText(first_, absl::StrCat("none of the first ", kMostAtFirst,
                                       " records can be converted; the first: ", first_.message()));
}

absl::Status BadRecords::Verdict() const {
  if (count_ == 0) return absl::OkStatus();
  if (!fails() && num_good_ > 0) return absl::OkStatus();
  if (first_.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("none of ", count_, " records can be converted; an earlier process told why"));
  }
  if (count_ == 1) return first_;
  return WithText(first_, absl::StrCat(first_.message(), " (and ", count_ - 1, " more of ",
                                       count_ + num_good_, " records)"));
}

}  // namespace millrace::readers::internal
