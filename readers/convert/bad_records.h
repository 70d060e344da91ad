#ifndef MILLRACE_READERS_CONVERT_BAD_RECORDS_H_
#define MILLRACE_READERS_CONVERT_BAD_RECORDS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/convert.h"
#include "readers/quarantine.h"

// The records that a conversion cannot convert. Under both policies the conversion goes on behind
// them, so that a run tells all of them: under kSkip without them, under kFail without writing.

namespace millrace::readers::internal {

// Thread-compatible.
class BadRecords {
 public:
  // Number of records that are looked at without a good one: then the options are wrong, not the
  // data.
  static constexpr uint64_t kMostAtFirst = 1000;

  // Opens the quarantine, if there is one. `options` must outlive the result.
  //   other  the quarantine cannot be opened
  static absl::StatusOr<std::unique_ptr<BadRecords>> Open(const ConvertOptions& options);

  // Takes note of the next one, whose `error` has its place.
  //   not OK  the conversion ends: `error` is RESOURCE_EXHAUSTED, which says nothing about the
  //           record, none of the first kMostAtFirst records is good, or the quarantine cannot be
  //           written
  absl::Status Add(const absl::Status& error);
  void AddGood() { ++num_good_; }
  // Takes note of the records of a shard that an earlier process wrote, which told its bad ones.
  void AddEarlier(uint64_t num_good, uint64_t num_bad) {
    num_good_ += num_good;
    count_ += num_bad;
  }

  // True if nothing needs to be written any more.
  bool fails() const { return count_ > 0 && options_.on_damage == ConvertDamage::kFail; }
  // Status of the conversion, once all records were seen. An error is that of the first of them
  // that this process met.
  absl::Status Verdict() const;

 private:
  explicit BadRecords(const ConvertOptions& options) : options_(options) {}

  const ConvertOptions& options_;
  std::unique_ptr<QuarantineLog> quarantine_;  // null: there is none
  uint64_t count_ = 0;
  uint64_t num_good_ = 0;
  absl::Status first_;  // OK: an earlier process told all of them
};

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_BAD_RECORDS_H_
