#include "pipeline/source/memory.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {
namespace {

using readers::RecordRef;

// The bytes of all records.
class MemoryFile final : public RandomAccessFile {
 public:
  MemoryFile(std::shared_ptr<const MemoryRecords> records, std::string name)
      : records_(std::move(records)), name_(std::move(name)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const std::string_view bytes = records_->bytes();
    if (offset >= bytes.size()) return size_t{0};
    const size_t count = std::min<uint64_t>(out.size(), bytes.size() - offset);
    std::memcpy(out.data(), bytes.data() + offset, count);
    return count;
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return *ReadAt(offset, out) == out.size();
  }
  uint64_t size() const override { return records_->bytes().size(); }
  const std::string& path() const override { return name_; }

 private:
  const std::shared_ptr<const MemoryRecords> records_;
  const std::string name_;
};

class MemorySource final : public readers::RecordSource {
 public:
  MemorySource(std::shared_ptr<const MemoryRecords> records, const std::string& stage)
      : records_(std::move(records)),
        files_({absl::StrCat("memory \"", stage, "\"")}),
        file_(std::make_shared<MemoryFile>(records_, files_[0])) {}

  uint64_t num_records() const override { return records_->size(); }
  const std::vector<std::string>& files() const override { return files_; }
  RecordRef Locate(uint64_t record) const override {
    RecordRef ref;
    ref.ordinal = record;
    ref.offset = records_->begin(record);
    ref.length = records_->begin(record + 1) - ref.offset;
    return ref;
  }
  std::shared_ptr<const RandomAccessFile> file(uint32_t) const override { return file_; }
  uint64_t FramedBytes(const RecordRef& ref) const override { return ref.length; }
  absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    if (ref.length == 0) return std::string_view("");  // nothing was read for it, not even to null
    return std::string_view(reinterpret_cast<const char*>(framed.data()), ref.length);
  }
  uint64_t Fingerprint() const override { return records_->digest(); }

 private:
  const std::shared_ptr<const MemoryRecords> records_;
  const std::vector<std::string> files_;
  const std::shared_ptr<const RandomAccessFile> file_;
};

}  // namespace

template <typename Text>
MemoryRecords::MemoryRecords(std::span<const Text> records) : begins_(1, 0) {
  size_t size = 0;
  for (const Text& record : records) size += record.size();
  bytes_.reserve(size);
  begins_.reserve(records.size() + 1);
  for (const Text& record : records) {
    bytes_ += record;
    begins_.push_back(bytes_.size());
  }
  digest_ = XXH3_64bits_withSeed(bytes_.data(), bytes_.size(),
                                 XXH3_64bits(begins_.data(), begins_.size() * sizeof begins_[0]));
}

std::shared_ptr<const MemoryRecords> MemoryRecords::Make(
    std::span<const std::string_view> records) {
  return std::shared_ptr<const MemoryRecords>(new MemoryRecords(records));
}

std::shared_ptr<const MemoryRecords> MemoryRecords::Make(std::span<const std::string> records) {
  return std::shared_ptr<const MemoryRecords>(new MemoryRecords(records));
}

std::unique_ptr<readers::RecordSource> MakeMemorySource(
    std::shared_ptr<const MemoryRecords> records, const std::string& stage) {
  return std::make_unique<MemorySource>(std::move(records), stage);
}

}  // namespace millrace::pipeline
