// Files that read by themselves, behind the pread engine.
#include <future>
#include <new>

#include "base/mutex.h"
#include "readers/read_engine.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

using testing::SizeIs;

// Starts reads below an offset, and ends them when it is told to.
class StartingFile : public FakeFile {
 public:
  explicit StartingFile(uint64_t end) : FakeFile("0123456789"), end_(end) {}

  bool starts_reads() const override { return true; }
  bool StartRead(uint64_t offset, std::span<std::byte> out,
                 std::function<void(absl::Status)> done) const override {
    if (offset >= end_) return false;
    MutexLock lock(mu_);
    started_.push_back([this, offset, out, done = std::move(done)](const absl::Status& status) {
      static_cast<void>(FakeFile::ReadAt(offset, out));
      done(status);
    });
    return true;
  }
  size_t num_started() const {
    MutexLock lock(mu_);
    return started_.size();
  }
  // Ends read `i`, the first that is left being 0.
  void End(size_t i, const absl::Status& status = absl::OkStatus()) {
    std::function<void(const absl::Status&)> end;
    {
      MutexLock lock(mu_);
      end = std::move(started_[i]);
      started_.erase(started_.begin() + static_cast<ptrdiff_t>(i));
    }
    end(status);
  }

 private:
  const uint64_t end_;
  mutable Mutex mu_;
  mutable std::vector<std::function<void(const absl::Status&)>> started_ MILLRACE_GUARDED_BY(mu_);
};

// Has no memory to start a read.
class PoorFile : public FakeFile {
 public:
  PoorFile() : FakeFile("0123456789") {}

  bool starts_reads() const override { return true; }
  bool StartRead(uint64_t, std::span<std::byte>, std::function<void(absl::Status)>) const override {
    throw std::bad_alloc();
  }
};

ReadRequest RequestTo(std::shared_ptr<const RandomAccessFile> file, uint64_t offset,
                      std::string& out) {
  return {std::move(file), offset, std::as_writable_bytes(std::span(out))};
}

TEST(StartedReadsTest, AsManyAreUnderWayAsWereSubmitted) {
  const auto engine = MakePreadEngine(1).value();
  const auto file = std::make_shared<StartingFile>(10);
  std::string a(2, '.'), b(2, '.'), c(2, '.');
  std::vector<absl::Status> first, second;
  engine->Submit({RequestTo(file, 0, a), RequestTo(file, 2, b)},
                 [&](std::vector<absl::Status> statuses) { first = std::move(statuses); });
  engine->Submit({RequestTo(file, 4, c)},
                 [&](std::vector<absl::Status> statuses) { second = std::move(statuses); });
  EXPECT_EQ(file->num_started(), 3u);
  file->End(2);
  EXPECT_THAT(second, SizeIs(1)) << "before the group that was submitted first";
  file->End(1, absl::UnavailableError("gone"));
  EXPECT_THAT(first, SizeIs(0));
  file->End(0);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_TRUE(first[0].ok());
  EXPECT_EQ(first[1], absl::UnavailableError("gone"));
  EXPECT_EQ(a + c, "0145");
}

TEST(StartedReadsTest, WhatAFileDoesNotStartIsReadByAThread) {
  const auto engine = MakePreadEngine(1).value();
  const auto file = std::make_shared<StartingFile>(5);
  std::string a(2, '.'), b(2, '.');
  std::promise<std::vector<absl::Status>> promise;
  engine->Submit(
      {RequestTo(file, 6, a), RequestTo(file, 1, b)},
      [&](std::vector<absl::Status> statuses) { promise.set_value(std::move(statuses)); });
  file->End(0);
  EXPECT_THAT(promise.get_future().get(), SizeIs(2));
  EXPECT_EQ(a + b, "6712");
}

// What was started fills its bytes, so the caller must not be left before that has ended.
TEST(StartedReadsTest, WithoutMemoryToStartTheOthersEndFirst) {
  const auto engine = MakePreadEngine(1).value();
  const auto file = std::make_shared<StartingFile>(10);
  const auto poor = std::make_shared<PoorFile>();
  std::string a(2, '.'), b(2, '.'), c(2, '.');
  std::vector<absl::Status> statuses;
  engine->Submit({RequestTo(file, 0, a), RequestTo(poor, 2, b), RequestTo(file, 4, c)},
                 [&](std::vector<absl::Status> all) { statuses = std::move(all); });
  EXPECT_EQ(file->num_started(), 2u);
  file->End(0);
  EXPECT_THAT(statuses, SizeIs(0));
  file->End(0);
  ASSERT_THAT(statuses, SizeIs(3));
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(statuses[2].ok());
  EXPECT_EQ(a + c, "0145");
}

TEST(StartedReadsTest, TheFileIsLetGoBeforeDone) {
  const auto engine = MakePreadEngine(1).value();
  auto file = std::make_shared<StartingFile>(10);
  StartingFile* const raw = file.get();
  const std::weak_ptr<StartingFile> alive = file;
  std::string a(2, '.');
  int64_t owners = 0;
  engine->Submit({RequestTo(file, 0, a)},
                 [&](const std::vector<absl::Status>&) { owners = alive.use_count(); });
  raw->End(0);
  EXPECT_EQ(owners, 1) << "that of this test";
}

}  // namespace
}  // namespace millrace::readers
