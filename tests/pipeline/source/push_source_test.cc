#include "pipeline/push_source.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "pipeline/source/growing.h"
#include "tests/messages.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;  // NOLINT: durations

constexpr std::chrono::nanoseconds kNoWait{0};

std::unique_ptr<GrowingSource> Open(const PushSource& source) {
  auto records = OpenPushSource(source);
  EXPECT_TRUE(records.ok()) << records.status();
  return records.ok() ? *std::move(records) : nullptr;
}

// Reads a record as the executor does.
std::string Read(const GrowingSource& source, uint64_t record) {
  const absl::StatusOr<std::string_view> payload = source.Unframe(source.Locate(record), {});
  return payload.ok() ? std::string(*payload) : absl::StrCat("error: ", payload.status().message());
}

std::vector<uint64_t> Numbers(uint64_t first, uint64_t end) {
  std::vector<uint64_t> numbers(end - first);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// Lets a test wait until something has grown.
class Bell {
 public:
  std::function<void()> Ringer() {
    return [this] {
      MutexLock lock(mu_);
      rung_.NotifyAll();
    };
  }
  template <typename Condition>
  void WaitFor(const Condition& condition) {
    MutexLock lock(mu_);
    while (!condition()) rung_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar rung_;
};

TEST(PushSourceTest, RecordsAreReadInTheOrderInWhichTheyWerePushed) {
  // S-USER-6.
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  const std::vector<std::string> records = {"first", "", std::string("\0zero\0", 6), "last"};
  for (const std::string& record : records) ASSERT_TRUE(host->Push(record).ok());
  ASSERT_EQ(source->available(), records.size());
  EXPECT_EQ(source->num_records(), records.size());
  EXPECT_EQ(host->num_pushed(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(Read(*source, i), records[i]);
    EXPECT_EQ(source->Locate(i).ordinal, i);
  }
}

TEST(PushSourceTest, RecordsAreViewedTogetherUpToOneThatWasReleased) {
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  std::vector<readers::RecordRef> refs;
  for (const char* record : {"ab", "", "cde", "f"}) {
    ASSERT_TRUE(host->Push(record).ok());
    refs.push_back(source->Locate(refs.size()));
  }
  EXPECT_TRUE(source->in_place());
  EXPECT_EQ(refs[3].offset, 5u);
  const std::vector<size_t> starts(5);
  std::vector<std::string_view> payloads(4);
  EXPECT_EQ(source->UnframeAll(refs, nullptr, starts, payloads), 4u);
  EXPECT_THAT(payloads, ElementsAre("ab", "", "cde", "f"));
  EXPECT_NE(payloads[1].data(), nullptr);
  source->Release(Numbers(2, 3));
  EXPECT_EQ(source->UnframeAll(refs, nullptr, starts, payloads), 2u);
  EXPECT_EQ(source->Unframe(refs[2], {}).status().code(), absl::StatusCode::kInternal);
}

TEST(PushSourceTest, AFullSourceTakesNoMoreUntilRecordsAreReleased) {
  // S-USER-7.
  const auto host = PushSource::Make({.max_bytes = 2 * (100 + 64)});
  const auto source = Open(*host);
  const std::string record(100, 'x');
  EXPECT_TRUE(*host->TryPush(record));
  EXPECT_TRUE(*host->TryPush(record));
  EXPECT_FALSE(*host->TryPush(record));
  EXPECT_FALSE(*host->PushFor(record, 1ms));
  source->Release(Numbers(0, 1));
  EXPECT_TRUE(*host->TryPush(record));
  EXPECT_FALSE(*host->TryPush(""));
  EXPECT_EQ(source->available(), 3u);
  EXPECT_THAT(Read(*source, 1), HasSubstr("xxx"));
}

TEST(PushSourceTest, ARecordLargerThanTheLimitIsTakenAlone) {
  // S-USER-7.
  const auto host = PushSource::Make({.max_bytes = 10});
  const auto source = Open(*host);
  EXPECT_TRUE(*host->TryPush(std::string(5000, 'x')));
  EXPECT_FALSE(*host->TryPush("y"));
  source->Release(Numbers(0, 1));
  EXPECT_TRUE(*host->TryPush(std::string(6000, 'z')));
  EXPECT_EQ(Read(*source, 1).size(), 6000u);
}

TEST(PushSourceTest, WhatTheReaderCannotDoWithoutIsTakenEvenWhenFull) {
  // S-USER-7.
  const auto host = PushSource::Make({.max_bytes = 10});
  const auto source = Open(*host);
  source->Want(3);
  source->Want(2);  // never less than before
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(*host->TryPush("0123456789")) << i;
  EXPECT_FALSE(*host->TryPush("0123456789"));
}

TEST(PushSourceTest, APushThatWaitsGoesOnWhenThereIsRoom) {
  const auto host = PushSource::Make({.max_bytes = 0});
  const auto source = Open(*host);
  ASSERT_TRUE(host->Push("0").ok());
  Bell bell;
  source->SetOnGrow(bell.Ringer());
  std::thread producer([&] {
    for (int i = 1; i < 100; ++i) EXPECT_TRUE(host->Push(absl::StrCat(i)).ok());
  });
  for (uint64_t i = 0; i < 100; ++i) {
    bell.WaitFor([&] { return source->available() > i; });
    EXPECT_EQ(Read(*source, i), absl::StrCat(i));
    EXPECT_EQ(source->available(), i + 1);
    source->Release(Numbers(i, i + 1));
  }
  producer.join();
}

TEST(PushSourceTest, ACallOnRoomComesOnceUnderNoLock) {
  const auto host = PushSource::Make({.max_bytes = 10});
  auto source = Open(*host);
  std::atomic<int> calls = 0;
  const auto count = [&] {
    host->num_pushed();  // takes the source's lock
    ++calls;
  };
  ASSERT_TRUE(host->Push("0").ok());
  host->OnRoom(count);
  host->OnRoom(count);
  EXPECT_TRUE(source->TakeReleased().empty());
  source->Release(Numbers(0, 1));
  EXPECT_EQ(calls, 0);  // the caller may hold a lock
  source->TakeReleased();
  EXPECT_EQ(calls, 2);
  host->OnRoom(count);
  source->Want(5);
  source->TakeReleased();
  EXPECT_EQ(calls, 3);
  host->OnRoom(count);
  source.reset();
  EXPECT_EQ(calls, 4);
  host->OnRoom(count);  // at once
  EXPECT_EQ(calls, 5);
  const auto finished = PushSource::Make();
  finished->OnRoom(count);
  finished->Finish();
  EXPECT_EQ(calls, 6);
  finished->OnRoom(count);
  EXPECT_EQ(calls, 7);
}

TEST(PushSourceTest, ClosingEndsAPushThatWaits) {
  // S-USER-7.
  const auto host = PushSource::Make({.max_bytes = 0});
  auto source = Open(*host);
  ASSERT_TRUE(host->Push("0").ok());
  std::thread producer([&] { EXPECT_TRUE(absl::IsCancelled(host->Push("1"))); });
  source.reset();
  producer.join();
  EXPECT_TRUE(absl::IsCancelled(host->Push("2")));
  EXPECT_TRUE(absl::IsCancelled(host->PushFor("2", kNoWait).status()));
}

TEST(PushSourceTest, FinishEndsTheStreamBehindTheLastRecord) {
  // S-USER-6.
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  ASSERT_TRUE(host->Push("0").ok());
  EXPECT_FALSE(source->ended());
  host->Finish();
  host->Fail(absl::DataLossError("too late"));
  EXPECT_TRUE(source->ended());
  EXPECT_TRUE(source->status().ok());
  EXPECT_EQ(source->available(), 1u);
  EXPECT_EQ(host->Push("1").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PushSourceTest, FailAndADroppedHandleEndTheStreamWithAnError) {
  // S-USER-6.
  auto host = PushSource::Make();
  auto source = Open(*host);
  host->Fail(absl::DataLossError("the camera broke"));
  EXPECT_TRUE(source->ended());
  EXPECT_EQ(source->status(), absl::DataLossError("the camera broke"));

  host = PushSource::Make({.name = "dropped"});
  source = Open(*host);
  EXPECT_TRUE(host->Push("0").ok());
  host.reset();
  EXPECT_TRUE(source->ended());
  EXPECT_EQ(source->status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Read(*source, 0), "0");
}

TEST(PushSourceTest, AReleasedRecordCannotBeReadButKeepsItsNumber) {
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(host->Push("abc").ok());
  const readers::RecordRef ref = source->Locate(1);
  source->Release(Numbers(0, 2));
  source->Release(Numbers(0, 1));  // never back
  EXPECT_EQ(source->Unframe(ref, {}).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(source->Locate(1).ordinal, 1u);
  EXPECT_EQ(Read(*source, 2), "abc");
  source->Release(Numbers(0, 100));  // no further than there are
  ASSERT_TRUE(host->Push("d").ok());
  EXPECT_EQ(Read(*source, 3), "d");
}

TEST(PushSourceTest, RecordsAreReleasedInAnyOrderAndTheRestIsReadAsBefore) {
  // S-USER-8.
  constexpr uint64_t kRecords = 500;
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  std::vector<readers::RecordRef> refs;
  for (uint64_t i = 0; i < kRecords; ++i) {
    ASSERT_TRUE(host->Push(std::string(i % 7, static_cast<char>('a' + i % 26))).ok());
    refs.push_back(source->Locate(i));
  }
  std::vector<uint64_t> order = Numbers(0, kRecords);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  std::vector<bool> held(kRecords, true);
  uint64_t bytes = host->held_bytes();
  for (const uint64_t record : order) {
    source->Release({&record, 1});
    held[record] = false;
    EXPECT_EQ(host->held_bytes(), bytes -= record % 7 + 64);
    for (const uint64_t other : {record, (record + 1) % kRecords, (record * 31 + 7) % kRecords}) {
      const auto payload = source->Unframe(refs[other], {});
      ASSERT_EQ(payload.ok(), held[other]) << other;
      if (held[other]) {
        EXPECT_EQ(*payload, std::string(other % 7, static_cast<char>('a' + other % 26)));
      }
    }
  }
  EXPECT_EQ(host->held_bytes(), 0u);
}

TEST(PushSourceTest, ARecordOfSeveralRowsIsReleasedWithTheLast) {
  // S-USER-8.
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  for (const char* record : {"ab", "cd"}) ASSERT_TRUE(host->Push(record).ok());
  source->SetUses(0, 3);
  source->SetUses(1, 0);
  EXPECT_EQ(host->held_bytes(), 66u);
  source->Release(std::vector<uint64_t>{0, 0});
  EXPECT_EQ(Read(*source, 0), "ab");
  source->Release(std::vector<uint64_t>{0});
  EXPECT_EQ(host->held_bytes(), 0u);
}

TEST(PushSourceTest, OnePipelineReadsIt) {
  const auto host = PushSource::Make({.name = "feed"});
  const auto source = Open(*host);
  const auto second = OpenPushSource(*host);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_MESSAGE(second.status());
}

TEST(PushSourceTest, TheFingerprintIsThatOfTheName) {
  const auto a = PushSource::Make({.name = "a"}), b = PushSource::Make({.name = "b"});
  const auto again = PushSource::Make({.name = "a", .max_bytes = 1});
  const uint64_t fingerprint = Open(*a)->Fingerprint();
  EXPECT_NE(fingerprint, Open(*b)->Fingerprint());
  EXPECT_EQ(fingerprint, Open(*again)->Fingerprint());
}

TEST(PushSourceTest, NoCallOfTheOldFunctionRunsOnceItIsReplaced) {
  const auto host = PushSource::Make();
  const auto source = Open(*host);
  std::atomic<int> calls = 0;
  auto alive = std::make_unique<std::atomic<bool>>(true);
  source->SetOnGrow([&calls, alive = alive.get()] {
    EXPECT_TRUE(alive->load());
    ++calls;
  });
  std::thread producer([&] {
    for (int i = 0; i < 2000; ++i) EXPECT_TRUE(host->Push("x").ok());
  });
  while (calls == 0) std::this_thread::yield();
  source->SetOnGrow({});
  alive->store(false);
  alive.reset();  // a late call would be a use after free
  producer.join();
  EXPECT_EQ(source->available(), 2000u);
}

TEST(PushSourceTest, ManyProducersAndOneReaderLoseAndRepeatNothing) {
  // S-USER-6: each producer's records keep their order.
  constexpr int kProducers = 4, kRecords = 500;
  const auto host = PushSource::Make({.max_bytes = 1000});
  const auto source = Open(*host);
  Bell bell;
  source->SetOnGrow(bell.Ringer());
  std::vector<std::thread> producers;
  std::atomic<int> running = kProducers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kRecords; ++i) {
        EXPECT_TRUE(host->Push(absl::StrCat(p, ":", i)).ok());
      }
      if (--running == 0) host->Finish();
    });
  }
  std::map<std::string, int> next;
  for (uint64_t record = 0;; ++record) {
    bell.WaitFor([&] { return source->ended() || source->available() > record; });
    if (record >= source->available()) break;
    const std::string text = Read(*source, record);
    const std::string producer = text.substr(0, text.find(':'));
    EXPECT_EQ(text, absl::StrCat(producer, ":", next[producer]++));
    source->Release(Numbers(record, record + 1));
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(next.size(), static_cast<size_t>(kProducers));
  for (const auto& [producer, count] : next) EXPECT_EQ(count, kRecords) << producer;
}

}  // namespace
}  // namespace millrace::pipeline
