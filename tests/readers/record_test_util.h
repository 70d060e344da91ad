#ifndef MILLRACE_TESTS_READERS_RECORD_TEST_UTIL_H_
#define MILLRACE_TESTS_READERS_RECORD_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/io.h"
#include "base/record_error.h"
#include "readers/record_reader.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/slow_crc32c.h"
#include "tests/temp_files.h"

// Frames for the tests of readers, made without the code under test: CRC-32C bit by bit.

namespace millrace::readers {

inline std::string LittleEndian(uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// The 12 header bytes of a record of `length` bytes.
inline std::string Header(uint64_t length) {
  const std::string bytes = LittleEndian(length, 8);
  return bytes + LittleEndian(SlowMaskedCrc(bytes), 4);
}

inline std::string Frame(std::string_view payload) {
  return Header(payload.size()) + std::string(payload) + LittleEndian(SlowMaskedCrc(payload), 4);
}

inline std::string Frames(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) bytes += Frame(payload);
  return bytes;
}

inline std::string TestData(const std::string& name) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/readers/testdata/" + name;
}

// The payloads that scripts/make_tf_fixtures.py had TensorFlow write.
inline std::vector<std::string> TfPayloads() {
  std::vector<std::string> payloads;
  int i = 0;
  for (const int length : {0, 1, 3, 4, 11, 12, 16, 100, 255, 256, 1000}) {
    std::string payload;
    for (int j = 0; j < length; ++j) payload.push_back(static_cast<char>((7 * i + 13 * j) % 251));
    payloads.push_back(payload);
    ++i;
  }
  return payloads;
}

// A file in memory that counts reads and can fail.
class FakeFile : public RandomAccessFile {
 public:
  explicit FakeFile(std::string bytes) : bytes_(std::move(bytes)) {}

  // Reads that touch the byte at `offset` or one behind it fail.
  void FailFrom(uint64_t offset) { fail_from_ = offset; }
  int num_reads() const { return num_reads_; }
  uint64_t bytes_read() const { return bytes_read_; }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    ++num_reads_;
    const uint64_t end = std::min<uint64_t>(bytes_.size(), offset + out.size());
    if (end > fail_from_) return absl::UnknownError("fake.tfrecord at offset N: EIO");
    if (offset >= bytes_.size()) return size_t{0};
    std::memcpy(out.data(), bytes_.data() + offset, end - offset);
    bytes_read_ += end - offset;
    return static_cast<size_t>(end - offset);
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }

 private:
  const std::string bytes_;
  const std::string path_ = "fake.tfrecord";
  uint64_t fail_from_ = UINT64_MAX;
  mutable std::atomic<int> num_reads_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
};

// One whose bytes lie in memory. Each loan is a copy of its own, of exactly its size.
class LendingFile : public FakeFile {
 public:
  explicit LendingFile(const std::string& bytes) : FakeFile(bytes), bytes_(bytes) {}

  std::shared_ptr<const std::byte> Borrow(uint64_t offset, size_t count) const override {
    EXPECT_LE(offset + count, bytes_.size());
    std::shared_ptr<std::byte[]> copy(new std::byte[count]);
    std::memcpy(copy.get(), bytes_.data() + offset, count);
    return {copy, copy.get()};
  }

 private:
  const std::string bytes_;
};

// Everything that a reader says until its end: the good payloads by ordinal, and the errors.
struct ReadLog {
  std::vector<std::pair<uint64_t, std::string>> records;
  std::vector<RecordError> errors;
  absl::Status last_error;
  bool clean_end = false;

  std::vector<std::string> Payloads() const {
    std::vector<std::string> payloads;
    for (const auto& [ordinal, payload] : records) payloads.push_back(payload);
    return payloads;
  }
};

inline ReadLog ReadToEnd(RecordReader& reader) {
  ReadLog log;
  while (true) {
    const auto next = reader.Next();
    if (next.ok() && !next->has_value()) {
      log.clean_end = true;
      return log;
    }
    if (next.ok()) {
      log.records.emplace_back((*next)->ref.ordinal, std::string((*next)->payload));
      continue;
    }
    log.last_error = next.status();
    const auto error = GetRecordError(next.status());
    if (!error.has_value()) return log;
    log.errors.push_back(*error);
    if (error->reason != RecordErrorReason::kDataCrc) return log;
  }
}

// What a status says is wrong with a record; kUnknown when it says nothing.
inline RecordErrorReason ReasonOf(const absl::Status& status) {
  const auto error = GetRecordError(status);
  return error.has_value() ? error->reason : RecordErrorReason::kUnknown;
}

// While it lives no thread can be started: its stack would be larger than the address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(pthread_attr_init(&huge), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 60), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    EXPECT_EQ(pthread_attr_destroy(&huge), 0);
  }
  ~NoMoreThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    EXPECT_EQ(pthread_attr_destroy(&before_), 0);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_RECORD_TEST_UTIL_H_
