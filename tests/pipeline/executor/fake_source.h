#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_FAKE_SOURCE_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_FAKE_SOURCE_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/context.h"
#include "base/mutex.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/record_source.h"

// A record source in memory with faults that a test asks for, and an I/O engine to read it with.

namespace millrace::pipeline {

// Bytes in memory. Reads that touch a bad offset fail with EIO; reads that touch a short offset
// end there.
class MemoryFile final : public RandomAccessFile {
 public:
  MemoryFile(std::string path, std::string bytes, std::set<uint64_t> bad, std::set<uint64_t> cut)
      : path_(std::move(path)),
        bytes_(std::move(bytes)),
        bad_(std::move(bad)),
        cut_(std::move(cut)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const auto bad = bad_.lower_bound(offset);
    if (bad != bad_.end() && *bad < offset + out.size()) {
      return ErrnoStatus(EIO, "pread", path_);
    }
    size_t size = std::min<size_t>(out.size(), bytes_.size() - offset);
    const auto cut = cut_.lower_bound(offset);
    if (cut != cut_.end() && *cut < offset + size) size = *cut - offset;
    std::memcpy(out.data(), bytes_.data() + offset, size);
    return size;
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }

 private:
  const std::string path_;
  const std::string bytes_;
  const std::set<uint64_t> bad_, cut_;
};

// What a fake source holds and what is wrong with it, by record number.
struct FakeData {
  std::vector<std::string> payloads;
  size_t records_per_shard = 7;
  std::set<uint64_t> io_errors, short_reads, bad_crc;
  uint64_t fingerprint = 0xDA7A;
  uint64_t memory_bytes = 0;  // says the source
};

inline FakeData MakeFakeData(size_t records, size_t payload_bytes = 40) {
  FakeData data;
  for (size_t i = 0; i < records; ++i) {
    data.payloads.push_back(absl::StrCat("record ", i, " "));
    data.payloads.back().resize(payload_bytes + i % 5, static_cast<char>('a' + i % 26));
  }
  return data;
}

// A frame is the payload and one byte that sums it.
class FakeSource : public readers::RecordSource {
 public:
  explicit FakeSource(const FakeData& data)
      : fingerprint_(data.fingerprint), memory_bytes_(data.memory_bytes) {
    for (size_t first = 0; first < data.payloads.size(); first += data.records_per_shard) {
      AddShard(data, first, std::min(data.payloads.size(), first + data.records_per_shard));
    }
  }
  uint64_t num_records() const override { return refs_.size(); }
  uint64_t memory_bytes() const override { return memory_bytes_; }
  const std::vector<std::string>& files() const override { return names_; }
  readers::RecordRef Locate(uint64_t record) const override { return refs_[record]; }
  std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const override {
    return files_[shard];
  }
  uint64_t FramedBytes(const readers::RecordRef& ref) const override { return ref.length + 1; }
  absl::StatusOr<std::string_view> Unframe(const readers::RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    const std::string_view payload(reinterpret_cast<const char*>(framed.data()), ref.length);
    if (Sum(payload) == static_cast<char>(framed[ref.length])) return payload;
    return MakeRecordError(absl::StatusCode::kDataLoss,
                           {.file = names_[ref.shard],
                            .offset = static_cast<int64_t>(ref.offset),
                            .ordinal = static_cast<int64_t>(ref.ordinal),
                            .reason = RecordErrorReason::kDataCrc},
                           "bad checksum");
  }
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  static char Sum(std::string_view payload) {
    uint8_t sum = 1;
    for (const char c : payload) sum = static_cast<uint8_t>(sum * 31 + static_cast<uint8_t>(c));
    return static_cast<char>(sum);
  }
  void AddShard(const FakeData& data, size_t first, size_t end) {
    std::string bytes;
    std::set<uint64_t> bad, cut;
    const auto shard = static_cast<uint32_t>(files_.size());
    for (size_t i = first; i < end; ++i) {
      const std::string& payload = data.payloads[i];
      refs_.push_back({shard, i - first, bytes.size(), payload.size()});
      if (data.io_errors.contains(i)) bad.insert(bytes.size());
      if (data.short_reads.contains(i)) cut.insert(bytes.size() + 3);
      bytes += payload;
      bytes += static_cast<char>(Sum(payload) + (data.bad_crc.contains(i) ? 1 : 0));
    }
    names_.push_back(absl::StrCat("shard-", shard));
    files_.push_back(std::make_shared<MemoryFile>(names_.back(), std::move(bytes), bad, cut));
  }

  const uint64_t fingerprint_;
  const uint64_t memory_bytes_;
  std::vector<readers::RecordRef> refs_;
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const RandomAccessFile>> files_;
};

// Reads groups on threads of its own, in an order and at a pace that a test chooses.
class ThreadedIo : public IoEngine {
 public:
  struct Habits {
    std::function<size_t(size_t num_groups)> pick;  // which of the groups, oldest first, is next
    std::function<void(const ReadRequest&)> before_read = nullptr;
    std::function<void()> before_done = nullptr;
  };
  ThreadedIo(int num_threads, Habits habits) : habits_(std::move(habits)) {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~ThreadedIo() override {
    {
      MutexLock lock(mu_);
      stop_ = true;
      wake_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    MutexLock lock(mu_);
    groups_.push_back({std::move(requests), std::move(done)});
    wake_.NotifyAll();  // of several threads that wait on one, glibc may wake none (its bug 25847)
  }

 private:
  struct Group {
    std::vector<ReadRequest> requests;
    std::function<void(std::vector<absl::Status>)> done;
  };
  static absl::Status Read(const ReadRequest& request) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t size, request.file->ReadAt(request.offset, request.out));
    if (size == request.out.size()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(request.file->path(), ": short read"));
  }
  // False when there is none left and the engine is being destroyed.
  bool Take(Group& group) {
    MutexLock lock(mu_);
    while (groups_.empty() && !stop_) wake_.Wait(mu_);
    if (groups_.empty()) return false;
    const auto place = groups_.begin() + static_cast<ptrdiff_t>(habits_.pick(groups_.size()));
    group = std::move(*place);
    groups_.erase(place);
    return true;
  }
  void Work() {
    Group group;
    while (Take(group)) {
      std::vector<absl::Status> status;
      for (const ReadRequest& request : group.requests) {
        if (habits_.before_read) habits_.before_read(request);
        status.push_back(Read(request));
      }
      if (habits_.before_done) habits_.before_done();
      group.done(std::move(status));
    }
  }

  const Habits habits_;
  Mutex mu_;
  CondVar wake_;
  std::vector<Group> groups_ MILLRACE_GUARDED_BY(mu_);
  bool stop_ MILLRACE_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

// Two threads that read; the newest group first, so that runs become ready out of order.
class FakeIo final : public ThreadedIo {
 public:
  FakeIo() : ThreadedIo(2, {.pick = [](size_t num_groups) { return num_groups - 1; }}) {}
};

inline std::shared_ptr<Context> FakeContext(int threads, int64_t budget = int64_t{1} << 30) {
  ContextOptions options;
  options.threads = threads;
  options.memory_budget_bytes = budget;
  options.io = std::make_shared<FakeIo>();
  return *Context::Make(std::move(options));
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_FAKE_SOURCE_H_
