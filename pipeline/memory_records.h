#ifndef MILLRACE_PIPELINE_MEMORY_RECORDS_H_
#define MILLRACE_PIPELINE_MEMORY_RECORDS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::pipeline {

// Records in the memory of the host program, for `memory` stages. They can be read in any order and
// any number of times, so all stages of order work, and resuming does. Immutable, thread-safe;
// pipelines share ownership.
class MemoryRecords {
 public:
  // Copies the records, in their order.
  static std::shared_ptr<const MemoryRecords> Make(std::span<const std::string_view> records);
  static std::shared_ptr<const MemoryRecords> Make(std::span<const std::string> records);

  uint64_t size() const { return begins_.size() - 1; }
  // The bytes of one record, which live as long as this object. REQUIRES: record < size().
  std::string_view record(uint64_t record) const {
    return std::string_view(bytes_).substr(begins_[record], begins_[record + 1] - begins_[record]);
  }
  // A hash of the number of records, their lengths and their bytes. Data of one digest is the same
  // data.
  uint64_t digest() const { return digest_; }

  // All records one after the other, and where each begins, for this folder's own use.
  const std::string& bytes() const { return bytes_; }
  uint64_t begin(uint64_t record) const { return begins_[record]; }

 private:
  template <typename Text>
  explicit MemoryRecords(std::span<const Text> records);

  std::string bytes_;
  std::vector<uint64_t> begins_;  // where each record begins, and the end of the last
  uint64_t digest_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_MEMORY_RECORDS_H_
