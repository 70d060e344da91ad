#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "pipeline/op_table.h"
#include "pipeline/source/growing.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/source/push_fixture.h"

// Records that are read where they lie, in the program's memory, and the ends of their owners.

namespace millrace::pipeline {
namespace {

using Code = absl::StatusCode;

// Buffers of the program, and how often the owner of each has ended.
class Buffers {
 public:
  explicit Buffers(const std::vector<std::string>& payloads)
      : payloads_(payloads), ends_(payloads.size()) {}

  size_t size() const { return payloads_.size(); }
  std::string_view record(size_t i) const { return payloads_[i]; }
  // An owner of buffer `i`, at whose end `at_end` is called too.
  std::shared_ptr<const void> Owner(size_t i, std::function<void()> at_end = {}) {
    const char* const data = payloads_[i].data();
    return {data, [this, i, at_end = std::move(at_end)](const void*) {
              ++ends_[i];
              if (at_end) at_end();
            }};
  }
  int ends(size_t i) const { return ends_[i]; }
  // True if the owners of all buffers have ended once.
  bool AllEndedOnce() const {
    return std::ranges::all_of(ends_, [](const std::atomic<int>& ends) { return ends == 1; });
  }
  // True if all of `bytes` lie in one of the buffers.
  bool Hold(std::string_view bytes) const {
    return std::ranges::any_of(payloads_, [&](const std::string& payload) {
      return bytes.data() >= payload.data() &&
             bytes.data() + bytes.size() <= payload.data() + payload.size();
    });
  }

 private:
  const std::vector<std::string> payloads_;
  std::vector<std::atomic<int>> ends_;
};

Buffers Large(size_t count) {
  std::vector<std::string> payloads;
  for (size_t i = 0; i < count; ++i) payloads.emplace_back(100, static_cast<char>('a' + i));
  return Buffers(payloads);
}

TEST(PushOwnerTest, ARecordIsReadWhereItLies) {
  Buffers buffers = Large(2);
  const auto host = PushSource::Make();
  const auto source = *OpenPushSource(*host);
  ASSERT_TRUE(host->Push(buffers.record(0), buffers.Owner(0)).ok());
  EXPECT_TRUE(*host->TryPush(buffers.record(1), buffers.Owner(1)));
  ASSERT_TRUE(host->Push(std::string_view(), nullptr).ok());
  for (const uint64_t i : {0, 1}) {
    const auto payload = source->Unframe(source->Locate(i), {});
    EXPECT_EQ(static_cast<const void*>(payload->data()), buffers.record(i).data());
    EXPECT_EQ(payload->size(), 100u);
  }
  EXPECT_EQ(*source->Unframe(source->Locate(2), {}), "");
  EXPECT_EQ(host->held_bytes(), 2u * 100 + 3 * 64);
}

TEST(PushOwnerTest, AnOwnerEndsWhenItsRecordWasReleased) {
  // S-USER-8.
  Buffers buffers = Large(2);
  const auto host = PushSource::Make();
  const auto source = *OpenPushSource(*host);
  for (const size_t i : {0, 1}) {
    ASSERT_TRUE(host->Push(buffers.record(i), buffers.Owner(i)).ok());
  }
  EXPECT_TRUE(source->TakeReleased().empty());
  source->SetUses(0, 2);
  source->Release(std::vector<uint64_t>{0});
  EXPECT_TRUE(source->TakeReleased().empty());
  source->Release(std::vector<uint64_t>{0});
  EXPECT_EQ(buffers.ends(0), 0);  // the caller may hold a lock
  {
    const ReleasedRecords released = source->TakeReleased();
    EXPECT_FALSE(released.empty());
    EXPECT_EQ(buffers.ends(0), 0);
  }
  EXPECT_EQ(buffers.ends(0), 1);
  source->SetUses(1, 0);
  EXPECT_EQ(buffers.ends(1), 0);
  source->TakeReleased();
  EXPECT_TRUE(buffers.AllEndedOnce());
}

TEST(PushOwnerTest, AnOwnerEndsWhereItsRecordIsRefused) {
  Buffers buffers = Large(6);
  const auto host = PushSource::Make({.max_bytes = 1});
  auto source = *OpenPushSource(*host);
  ASSERT_TRUE(host->Push(buffers.record(0), buffers.Owner(0)).ok());
  EXPECT_FALSE(*host->TryPush(buffers.record(1), buffers.Owner(1)));
  EXPECT_EQ(buffers.ends(1), 1);
  EXPECT_FALSE(*host->PushFor(buffers.record(2), buffers.Owner(2), std::chrono::nanoseconds(1)));
  EXPECT_EQ(buffers.ends(2), 1);
  std::thread waits([&] {
    EXPECT_EQ(host->Push(buffers.record(3), buffers.Owner(3)).code(), Code::kCancelled);
    EXPECT_EQ(buffers.ends(3), 1);
  });
  source->Close();
  waits.join();
  EXPECT_EQ(host->Push(buffers.record(4), buffers.Owner(4)).code(), Code::kCancelled);
  EXPECT_EQ(buffers.ends(0), 0);  // somebody may still read it
  source.reset();
  EXPECT_EQ(buffers.ends(0), 1);
  const auto finished = PushSource::Make();
  finished->Finish();
  EXPECT_EQ(finished->TryPush(buffers.record(5), buffers.Owner(5)).status().code(),
            Code::kFailedPrecondition);
  EXPECT_TRUE(buffers.AllEndedOnce());
}

TEST(PushOwnerTest, OwnersEndWithASourceThatNothingHasRead) {
  Buffers buffers = Large(3);
  auto host = PushSource::Make();
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(host->Push(buffers.record(i), buffers.Owner(i)).ok());
  }
  EXPECT_EQ(buffers.ends(0), 0);
  host.reset();
  EXPECT_TRUE(buffers.AllEndedOnce());
}

TEST(PushOwnerTest, ThePipelinesEndWaitsForOwnersThatAreEnding) {
  Buffers buffers = Large(1);
  const auto host = PushSource::Make();
  auto source = *OpenPushSource(*host);
  ASSERT_TRUE(host->Push(buffers.record(0), buffers.Owner(0)).ok());
  source->Release(std::vector<uint64_t>{0});
  auto released = std::make_unique<ReleasedRecords>(source->TakeReleased());
  std::atomic<bool> gone = false;
  std::thread end([&] {
    source.reset();
    EXPECT_EQ(buffers.ends(0), 1);
    gone = true;
  });
  EXPECT_FALSE(gone);
  released.reset();
  end.join();
  EXPECT_TRUE(gone);
}

Stream DrainLent(PhysicalPlan plan, Buffers& buffers, int threads, uint64_t max_bytes) {
  const auto push = MakePush(max_bytes);
  auto pipeline = OpenPushed(std::move(plan), push, FakeContext(threads));
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  std::thread feeder([&] {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!push->Push(buffers.record(i), buffers.Owner(i)).ok()) continue;
    }
    push->Finish();
  });
  Stream stream = Drain(**pipeline);
  pipeline->reset();
  feeder.join();
  return stream;
}

TEST(PushOwnerTest, TheStreamIsThatOfCopiesAndEveryOwnerEndsOnce) {
  const FakeData data = MakeFakeData(230);
  using Kind = OrderStep::Kind;
  const std::vector<std::function<PhysicalPlan()>> plans = {
      [] { return MakePlan(8, {Step(Kind::kShuffle, 20)}); },
      [] {
        return MakePlan(8, {Step(Kind::kSkip, 5), Step(Kind::kTake, 60)});
      },
      [] { return FilterPlan(16, 8); }, [] { return UnbatchPlan(1); },
      [] { return TokensPlan(BatchSpec::Kind::kBucket, 8); }};
  for (const auto& plan : plans) {
    const Stream expected = Drain(*OpenFake(plan(), data, FakeContext(1)));
    for (const int threads : {1, 2, 8}) {
      for (const uint64_t max_bytes : {0, 1024, 1 << 20}) {
        Buffers buffers(data.payloads);
        const Stream stream = DrainLent(plan(), buffers, threads, max_bytes);
        EXPECT_TRUE(stream.end.ok()) << stream.end;
        EXPECT_EQ(stream.digests, expected.digests) << threads << " threads, " << max_bytes;
        EXPECT_TRUE(buffers.AllEndedOnce());
      }
    }
  }
}

// A plan whose op keeps which records it has seen.
class PushOwnerOpTest : public ::testing::Test {
 protected:
  PushOwnerOpTest() {
    SampleOpSpec spec;
    spec.reads = spec.removes = {"record"};
    spec.writes = {{"size", DType::kI64, {}}};
    auto ops = std::make_shared<OpTable>();
    EXPECT_TRUE(ops->RegisterSample("size", 1, spec,
                                    [this](const Sample& sample, SampleOutput& output) {
                                      const auto size = output.Allocate(0);
                                      size->as<int64_t>()[0] =
                                          static_cast<int64_t>(sample.bytes(0).size());
                                      MutexLock lock(mu_);
                                      seen_.insert(sample.bytes(0));
                                      return absl::OkStatus();
                                    })
                    .ok());
    options_.ops = ops;
    options_.push = PushSource::Make();
    const auto plan = Plan::FromText(
        "stage { push {} } stage { custom { op: \"size\" version: 1 } } "
        "stage { batch { size: 2 } }",
        "plan");
    pipeline_ = *Pipeline::Open(*plan, *MakeContext(), options_);
  }

  OpenOptions options_;
  Mutex mu_;
  std::set<std::string_view> seen_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PushOwnerOpTest, AnOpSeesTheProgramsMemory) {
  Buffers buffers = Large(8);
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_TRUE(options_.push->Push(buffers.record(i), buffers.Owner(i)).ok());
  }
  options_.push->Finish();
  EXPECT_EQ(Drain(*pipeline_).digests.size(), 4u);
  EXPECT_TRUE(buffers.AllEndedOnce());  // with the batches
  MutexLock lock(mu_);
  EXPECT_EQ(seen_.size(), buffers.size());
  for (const std::string_view record : seen_) EXPECT_TRUE(buffers.Hold(record));
}

TEST_F(PushOwnerOpTest, OwnersEndUnderNoLock) {
  Buffers buffers = Large(4);
  std::atomic<bool> open = true;
  const auto look = [&] {  // it takes the locks of both
    options_.push->num_pushed();
    if (open) pipeline_->Save();
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_TRUE(options_.push->Push(buffers.record(i), buffers.Owner(i, look)).ok());
  }
  ASSERT_TRUE((*pipeline_->Next()).has_value());
  EXPECT_EQ(buffers.ends(0) + buffers.ends(1), 2);
  open = false;
  pipeline_.reset();
  EXPECT_TRUE(buffers.AllEndedOnce());
}

TEST_F(PushOwnerOpTest, OwnersEndWithAPipelineThatIsCancelled) {
  Buffers buffers = Large(3);
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_TRUE(options_.push->Push(buffers.record(i), buffers.Owner(i)).ok());
  }
  pipeline_->Cancel();
  EXPECT_EQ(pipeline_->Next().status().code(), Code::kCancelled);
  pipeline_.reset();
  EXPECT_TRUE(buffers.AllEndedOnce());
}

}  // namespace
}  // namespace millrace::pipeline
