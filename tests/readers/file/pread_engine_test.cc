#include <future>
#include <thread>

#include "base/mutex.h"
#include "readers/file/read_watch.h"
#include "readers/read_engine.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

using testing::SizeIs;

// Submits and waits.
std::vector<absl::Status> ReadGroup(IoEngine& engine, std::vector<ReadRequest> requests) {
  std::promise<std::vector<absl::Status>> promise;
  engine.Submit(std::move(requests), [&](std::vector<absl::Status> statuses) {
    promise.set_value(std::move(statuses));
  });
  return promise.get_future().get();
}

ReadRequest Request(std::shared_ptr<const RandomAccessFile> file, uint64_t offset,
                    std::string& out) {
  return {std::move(file), offset, std::as_writable_bytes(std::span(out))};
}

// A file whose reads wait until they are let go.
class GateFile : public FakeFile {
 public:
  GateFile() : FakeFile("0123456789") {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    {
      MutexLock lock(mu_);
      ++waiting_;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(mu_);
    }
    return FakeFile::ReadAt(offset, out);
  }
  void AwaitReader() {
    MutexLock lock(mu_);
    while (waiting_ == 0) changed_.Wait(mu_);
  }
  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  mutable Mutex mu_;
  mutable CondVar changed_;
  mutable int waiting_ MILLRACE_GUARDED_BY(mu_) = 0;
  bool open_ MILLRACE_GUARDED_BY(mu_) = false;
};

// Some of its bytes are in memory.
class CachedFile : public FakeFile {
 public:
  explicit CachedFile(uint64_t cached_bytes)
      : FakeFile("0123456789"), cached_bytes_(cached_bytes) {}
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return offset + out.size() <= cached_bytes_ && FakeFile::ReadAt(offset, out).ok();
  }

 private:
  const uint64_t cached_bytes_;
};

TEST(PreadEngineTest, BytesInMemoryComeBeforeSubmitReturns) {
  const auto engine = MakePreadEngine(1).value();
  const auto file = std::make_shared<CachedFile>(6);
  std::string a(2, '.'), b(4, '.');
  bool is_done = false;
  engine->Submit({Request(file, 4, a), Request(file, 0, b)},
                 [&](const std::vector<absl::Status>& statuses) {
                   EXPECT_THAT(statuses, SizeIs(2));
                   is_done = true;
                 });
  EXPECT_TRUE(is_done);
  EXPECT_EQ(a, "45");
  EXPECT_EQ(b, "0123");
}

TEST(PreadEngineTest, WhatIsNotInMemoryIsReadWithAllThatComesAfterIt) {
  const auto engine = MakePreadEngine(1).value();
  const auto file = std::make_shared<CachedFile>(6);
  std::string a(2, '.'), b(4, '.'), c(1, '.');
  const auto statuses =
      ReadGroup(*engine, {Request(file, 0, a), Request(file, 5, b), Request(file, 1, c)});
  ASSERT_THAT(statuses, SizeIs(3));
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(a + b + c, "0156781");
}

TEST(PreadEngineTest, GroupEndsOnceWithOneStatusPerRequest) {
  const auto engine = MakePreadEngine(2).value();
  const auto good = std::make_shared<FakeFile>("0123456789");
  const auto bad = std::make_shared<FakeFile>("0123456789");
  bad->FailFrom(0);
  std::string a(3, '?'), b(3, '?'), c(3, '?'), d(3, '?');
  const auto statuses = ReadGroup(
      *engine, {Request(good, 2, a), Request(bad, 2, b), Request(good, 8, c), Request(good, 7, d)});
  ASSERT_THAT(statuses, SizeIs(4));
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(statuses[2].code(), absl::StatusCode::kDataLoss) << "a short read";
  EXPECT_TRUE(statuses[3].ok());
  EXPECT_EQ(a, "234");
  EXPECT_EQ(d, "789");
}

TEST(PreadEngineTest, EmptyGroupEndsToo) {
  EXPECT_THAT(ReadGroup(**MakePreadEngine(1), {}), SizeIs(0));
}

TEST(PreadEngineTest, ManyGroupsFromManyThreadsAllArrive) {
  const auto engine = MakePreadEngine(3).value();
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes.push_back(static_cast<char>('a' + i % 26));
  const auto file = std::make_shared<FakeFile>(bytes);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const uint64_t offset = static_cast<uint64_t>(t * 200 + i);
        std::string out(10, '?');
        const auto statuses = ReadGroup(*engine, {Request(file, offset, out)});
        if (!statuses[0].ok() || out != bytes.substr(offset, 10)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(PreadEngineTest, DestructionFinishesTheReadUnderWayAndCancelsTheRest) {
  auto engine = MakePreadEngine(1).value();
  const auto gate = std::make_shared<GateFile>();
  std::string a(2, '?'), b(2, '?'), c(2, '?');
  std::vector<absl::Status> first;
  std::vector<absl::Status> second;
  engine->Submit({Request(gate, 0, a)},
                 [&](std::vector<absl::Status> statuses) { first = std::move(statuses); });
  engine->Submit({Request(gate, 2, b), Request(gate, 4, c)},
                 [&](std::vector<absl::Status> statuses) { second = std::move(statuses); });
  gate->AwaitReader();
  // The engine dies while its only thread is in the first read. The gate opens from another thread;
  // whether before or after the stop, both groups must end, and the first read must be whole.
  std::thread opener([&] { gate->Open(); });
  engine.reset();
  opener.join();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_TRUE(first[0].ok());
  EXPECT_EQ(a, "01");
  ASSERT_THAT(second, SizeIs(2));
  for (const absl::Status& status : second) {
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled) << status;
  }
}

// The read goes on: its buffer may still be written to.
TEST(PreadEngineTest, AReadThatHangsIsNamedAndItsEndToo) {
  std::promise<OverdueRead> named;
  std::promise<OverdueRead> ended;
  ReadWatchOptions watch;
  watch.deadline = std::chrono::milliseconds(1);
  watch.report = [&](const OverdueRead& read) { (read.over ? ended : named).set_value(read); };
  const auto engine = MakePreadEngine(1, watch).value();
  const auto gate = std::make_shared<GateFile>();
  std::string out(2, '?');
  std::promise<absl::Status> done;
  engine->Submit({Request(gate, 3, out)},
                 [&](const std::vector<absl::Status>& statuses) { done.set_value(statuses[0]); });
  const OverdueRead read = named.get_future().get();
  EXPECT_EQ(read.path, "fake.tfrecord");
  EXPECT_EQ(read.offset, 3u);
  EXPECT_EQ(read.bytes, 2u);
  EXPECT_FALSE(read.over);
  gate->Open();
  EXPECT_GE(ended.get_future().get().so_far, read.so_far);
  EXPECT_TRUE(done.get_future().get().ok());
  EXPECT_EQ(out, "34");
}

TEST(ReadWatchTest, EachReadThatIsOverdueIsReportedOnce) {
  std::vector<std::pair<uint64_t, bool>> reports;
  ReadWatchOptions options;
  options.deadline = std::chrono::hours(1);
  options.report = [&](const OverdueRead& read) { reports.emplace_back(read.offset, read.over); };
  ReadWatch watch(options);
  const auto file = std::make_shared<FakeFile>("0123456789");
  const ReadWatch::Clock::time_point start = ReadWatch::Clock::now();
  const ReadRequest requests[] = {{file, 0, {}}, {file, 1, {}}, {file, 2, {}}};
  const auto first = watch.Begin(requests[0], start);
  const auto second = watch.Begin(requests[1], start + std::chrono::minutes(30));
  const auto third = watch.Begin(requests[2], start);
  watch.Look(start + std::chrono::minutes(59));
  watch.End(third, start + std::chrono::minutes(59));
  EXPECT_THAT(reports, SizeIs(0));
  watch.Look(start + std::chrono::minutes(60));
  watch.Look(start + std::chrono::minutes(61));
  EXPECT_THAT(reports, testing::ElementsAre(std::pair(0, false)));
  watch.End(second, start + std::chrono::minutes(70));
  watch.End(first, start + std::chrono::minutes(70));
  EXPECT_THAT(reports, testing::ElementsAre(std::pair(0, false), std::pair(0, true)));
}

TEST(PreadEngineTest, NoThreadAtAllIsResourceExhausted) {
  const NoMoreThreads no_more_threads;
  EXPECT_EQ(MakePreadEngine(4).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::readers
