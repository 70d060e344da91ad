#ifndef MILLRACE_READERS_SOURCE_RECORD_FETCHER_H_
#define MILLRACE_READERS_SOURCE_RECORD_FETCHER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "readers/open_file.h"
#include "readers/record_source.h"

namespace millrace::readers {

// Reads records by number; those that follow each other in a file together. Thread-compatible.
class RecordFetcher {
 public:
  explicit RecordFetcher(const RecordSource& source) : source_(source) {}

  // Calls `take(ref, payload)` for each of `records` in order, until it does not return OK. Holds 1
  // MiB of records that follow each other, or one longer record.
  //   DATA_LOSS, with RecordError  a record is damaged
  template <typename Take>
  absl::Status Fetch(std::span<const uint64_t> records, const Take& take) {
    return FetchAll(records, [&](const RecordRef& ref, absl::StatusOr<std::string_view> payload) {
      return payload.ok() ? take(ref, *payload) : payload.status();
    });
  }

  // The same where `take` gets a StatusOr, which is an error for a damaged record.
  template <typename Take>
  absl::Status FetchAll(std::span<const uint64_t> records, const Take& take) {
    const size_t count = records.size();
    ids_.assign(count, {});
    for (size_t i = 0; i < count; ++i) ids_[i].record = records[i];
    refs_.resize(count);
    starts_.resize(count + 1);
    source_.LocateAll(ids_, refs_, starts_);
    for (size_t first = 0; first < count;) {
      const size_t next = EndOfStretch(first);
      MILLRACE_RETURN_IF_ERROR(FetchStretch(first, next, take));
      first = next;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kReadBytes = 1 << 20;

  // The records from `first` on that lie one behind the other and fit a read.
  size_t EndOfStretch(size_t first) const {
    size_t next = first + 1;
    while (next < refs_.size() && starts_[next + 1] - starts_[first] <= kReadBytes &&
           refs_[next].shard == refs_[first].shard &&
           refs_[next].offset - refs_[first].offset == starts_[next] - starts_[first]) {
      ++next;
    }
    return next;
  }

  template <typename Take>
  absl::Status FetchStretch(size_t first, size_t next, const Take& take) {
    buffer_.resize(starts_[next] - starts_[first]);
    MILLRACE_RETURN_IF_ERROR(
        ReadFully(*source_.file(refs_[first].shard), refs_[first].offset, buffer_));
    for (size_t i = first; i < next; ++i) {
      const std::span framed =
          std::span(buffer_).subspan(starts_[i] - starts_[first], starts_[i + 1] - starts_[i]);
      MILLRACE_RETURN_IF_ERROR(take(refs_[i], source_.Unframe(refs_[i], framed)));
    }
    return absl::OkStatus();
  }

  const RecordSource& source_;
  std::vector<SampleId> ids_;
  std::vector<RecordRef> refs_;
  std::vector<size_t> starts_;
  std::vector<std::byte> buffer_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SOURCE_RECORD_FETCHER_H_
