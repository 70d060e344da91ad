#include <gmock/gmock.h>

#include <atomic>
#include <new>
#include <string>
#include <utility>

#include "readers/convert/work.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers::internal {
namespace {

// Of one chunk.
class Number final : public FetchedRecords {
 public:
  explicit Number(uint64_t chunk) : number(chunk) {}
  absl::Status ForEach(const TakeRecord&, const RefuseRecord&) override { return absl::OkStatus(); }
  const uint64_t number;
};

// Work on chunks that hold their own number, whose writes are collected.
class ConvertWorkTest : public testing::Test {
 protected:
  ChunkWork Work(uint64_t num_chunks) {
    ChunkWork work;
    work.num_chunks = num_chunks;
    work.fetch = [](uint64_t chunk) -> absl::StatusOr<std::unique_ptr<FetchedRecords>> {
      return std::make_unique<Number>(chunk);
    };
    work.encode = [](uint64_t chunk, FetchedRecords& records) -> absl::StatusOr<EncodedChunk> {
      EXPECT_EQ(dynamic_cast<Number&>(records).number, chunk);
      return EncodedChunk{EncodedRecord{.bytes = std::to_string(chunk)}};
    };
    work.write = [this](EncodedChunk chunk) {
      EXPECT_EQ(chunk.at(0)->bytes, std::to_string(num_written_));
      ++num_written_;
      return absl::OkStatus();
    };
    return work;
  }

  uint64_t num_written_ = 0;
};

TEST_F(ConvertWorkTest, ChunksAreWrittenInOrder) {
  for (const int threads : {1, 2, 9}) {
    num_written_ = 0;
    EXPECT_TRUE(RunInOrder(Work(500), threads).ok());
    EXPECT_EQ(num_written_, 500u) << threads;
  }
  num_written_ = 0;
  EXPECT_TRUE(RunInOrder(Work(0), 3).ok());
  EXPECT_EQ(num_written_, 0u);
}

// The chunk comes when the wait has been seen, so that without it this does not end.
TEST_F(ConvertWorkTest, TheCallerIsAskedWhileItWaits) {
  std::atomic<bool> asked = false;  // calling thread -> those that encode
  ChunkWork work = Work(2);
  const auto encode = work.encode;
  work.encode = [&](uint64_t chunk, FetchedRecords& records) {
    asked.wait(false);
    return encode(chunk, records);
  };
  work.wait = [&]() -> absl::Status {
    asked = true;
    asked.notify_all();
    return absl::CancelledError("enough");
  };
  EXPECT_EQ(RunInOrder(work, 2).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(num_written_, 0u);
}

TEST_F(ConvertWorkTest, WithoutThreadsTheCallerDoesAll) {
  const NoMoreThreads none;
  EXPECT_TRUE(RunInOrder(Work(20), 4).ok());
  EXPECT_EQ(num_written_, 20u);
}

TEST_F(ConvertWorkTest, FetchesThatNeedItAreInOrder) {
  ChunkWork work = Work(500);
  work.fetch_in_order = true;
  std::atomic<uint64_t> next = 0;  // without a lock: one thread at a time
  const auto fetch = work.fetch;
  work.fetch = [&](uint64_t chunk) {
    EXPECT_EQ(next.load(), chunk);
    auto records = fetch(chunk);
    next.store(chunk + 1);
    return records;
  };
  EXPECT_TRUE(RunInOrder(work, 8).ok());
  EXPECT_EQ(next.load(), 500u);
}

TEST_F(ConvertWorkTest, WithoutMemoryItEndsWithAnErrorOnEveryThread) {
  enum Place { kFetch, kEncode, kWrite };
  for (const int threads : {1, 2, 6}) {
    for (const Place place : {kFetch, kEncode, kWrite}) {
      num_written_ = 0;
      ChunkWork work = Work(50);
      const ChunkWork good = work;
      work.fetch = [&](uint64_t chunk) {
        if (place == kFetch && chunk == 20) throw std::bad_alloc();
        return good.fetch(chunk);
      };
      work.encode = [&](uint64_t chunk, FetchedRecords& records) {
        if (place == kEncode && chunk == 20) throw std::bad_alloc();
        return good.encode(chunk, records);
      };
      work.write = [&](EncodedChunk chunk) {
        if (place == kWrite && num_written_ == 20) throw std::bad_alloc();
        return good.write(std::move(chunk));
      };
      EXPECT_EQ(RunInOrder(work, threads).code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(num_written_, 20u);
    }
  }
}

TEST_F(ConvertWorkTest, TheErrorOfTheFirstChunkThatHasOneIsReturned) {
  for (const int threads : {1, 6}) {
    for (const bool in_fetch : {true, false}) {
      num_written_ = 0;
      ChunkWork work = Work(300);
      const auto fail = [](uint64_t chunk) {
        return absl::DataLossError("chunk " + std::to_string(chunk));
      };
      const auto fetch = work.fetch;
      const auto encode = work.encode;
      work.fetch = [&](uint64_t chunk) {
        return in_fetch && chunk >= 100 ? fail(chunk) : fetch(chunk);
      };
      work.encode = [&](uint64_t chunk, FetchedRecords& records) {
        return chunk >= 100 ? fail(chunk) : encode(chunk, records);
      };
      EXPECT_MESSAGE(RunInOrder(work, threads), "chunk_100");
      EXPECT_EQ(num_written_, 100u);
    }
  }
}

TEST_F(ConvertWorkTest, AWriteThatFailsEndsTheWork) {
  for (const int threads : {1, 6}) {
    num_written_ = 0;
    ChunkWork work = Work(300);
    std::atomic<int> num_fetched = 0;
    const auto fetch = work.fetch;
    work.fetch = [&](uint64_t chunk) {
      ++num_fetched;
      return fetch(chunk);
    };
    const auto write = work.write;
    work.write = [&](EncodedChunk chunk) {
      return num_written_ == 5 ? absl::ResourceExhaustedError("full") : write(std::move(chunk));
    };
    EXPECT_MESSAGE(RunInOrder(work, threads), "full");
    EXPECT_EQ(num_written_, 5u);
    EXPECT_LE(num_fetched.load(), 6 + 2 * threads) << "no more wait than the ring holds";
  }
}

}  // namespace
}  // namespace millrace::readers::internal
