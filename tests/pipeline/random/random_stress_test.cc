#include <random>
#include <thread>

#include "tests/pipeline/executor/delaying_ops.h"
#include "tests/pipeline/random/plan_worlds.h"

// Drawn plans whose ops and reads take their time at random moments (delaying_ops.h), under many
// threads, tight budgets and several pipelines at once. MILLRACE_RANDOM_PLANS says how many plans,
// MILLRACE_RANDOM_SEED from which on. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxBatches = 8;

// A pipeline whose ops and reads are delayed, its context its own.
std::unique_ptr<Pipeline> OpenDelayed(const OpenablePlan& plan,
                                      const std::shared_ptr<Delays>& delays,
                                      std::shared_ptr<Context> context, int ring) {
  OpenOptions options;
  options.prefetch_batches = ring;
  auto opened = plan.Open(WithDelays(plan.Physical(), delays), std::move(context), options);
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

// Calls `check(plan, whole, random, delays)` with the stream of a quiet run.
template <typename Check>
void ForEachPlan(uint64_t plans, const Check& check) {
  ForEachOpenedPlan(3'000'000, plans,
                    [&](const OpenablePlan& plan, const auto&, Pipeline& quiet, auto& random) {
                      SeenStream whole;
                      DrainRank(plan.made(), quiet, 0, kMaxBatches, 0, whole);
                      ASSERT_TRUE(whole.end.ok()) << whole.end;
                      check(plan, whole, random, std::make_shared<Delays>(random()));
                    });
}

int64_t Budget(std::mt19937_64& random) {
  const int64_t budgets[] = {1, 3000, 60'000, int64_t{1} << 30};
  return budgets[random() % 4];
}

void ExpectWhole(const OpenablePlan& plan, Pipeline& pipeline, const SeenStream& whole) {
  SeenStream seen;
  DrainRank(plan.made(), pipeline, 0, kMaxBatches, 0, seen);
  EXPECT_TRUE(seen.end.ok()) << seen.end;
  ASSERT_EQ(seen.digests(), whole.digests());
  for (size_t b = 0; b < seen.batches.size(); ++b) {
    EXPECT_EQ(seen.batches[b].tokens, whole.batches[b].tokens);
  }
}

// S-RANDOM-2.
TEST(RandomStressTest, BitsDoNotDependOnWhenOpsAndReadsEnd) {
  ForEachPlan(
      60, [](const OpenablePlan& plan, const SeenStream& whole, auto& random, const auto& delays) {
        for (const int threads : {8, 32}) {
          const auto context = DelayingContext(threads, delays, Budget(random));
          const int ring = 1 + static_cast<int>(random() % 4);
          const auto pipeline = OpenDelayed(plan, delays, context, ring);
          ASSERT_NE(pipeline, nullptr);
          ExpectWhole(plan, *pipeline, whole);
        }
      });
}

// S-STATE-1: work that is under way is stopped at any moment.
TEST(RandomStressTest, RestoreStopsWorkAtAnyMoment) {
  ForEachPlan(40, [](const OpenablePlan& plan, const SeenStream& whole, auto& random,
                     const auto& delays) {
    const auto context = DelayingContext(8, delays, Budget(random));
    const auto pipeline = OpenDelayed(plan, delays, context, 3);
    ASSERT_NE(pipeline, nullptr);
    const std::string start = pipeline->Save();
    for (int i = 0; i < 5; ++i) {
      size_t next = random() % (whole.batches.size() + 1);
      ASSERT_TRUE(pipeline->Restore(next == 0 ? start : whole.batches[next - 1].tokens[0]).ok());
      for (uint64_t n = random() % 3; n > 0 && next < whole.batches.size(); --n, ++next) {
        const auto batch = pipeline->Next();
        ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
        EXPECT_EQ((*batch)->resume_token(), whole.batches[next].tokens[0]);
      }
    }
    ASSERT_TRUE(pipeline->Restore(start).ok());
    ExpectWhole(plan, *pipeline, whole);
  });
}

TEST(RandomStressTest, DroppedAndCancelledAtAnyMomentNothingIsLeft) {
  ForEachPlan(
      60, [](const OpenablePlan& plan, const SeenStream& whole, auto& random, const auto& delays) {
        const auto context = DelayingContext(8, delays, Budget(random));
        for (int i = 0; i < 4; ++i) {
          const auto pipeline = OpenDelayed(plan, delays, context, 1 + i);
          ASSERT_NE(pipeline, nullptr);
          std::thread other;
          if (i % 2 == 1) {
            other = std::thread([&] {
              delays->Delay(static_cast<uint64_t>(i));
              pipeline->Cancel();
            });
          }
          for (uint64_t n = random() % (whole.batches.size() + 1); n > 0; --n) {
            const auto batch = pipeline->Next();
            if (!batch.ok()) {
              EXPECT_EQ(batch.status().code(), absl::StatusCode::kCancelled) << batch.status();
              break;
            }
            ASSERT_TRUE(batch->has_value());
          }
          if (other.joinable()) other.join();
        }
        EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
        EXPECT_EQ(context->memory_budget()->held_bytes(), 0);
      });
}

// The next batch; S-ERROR-4: waits while other consumers hold what the budget has.
absl::StatusOr<std::optional<Batch>> NextWhenThereIsRoom(Pipeline& pipeline) {
  while (true) {
    auto batch = pipeline.Next();
    if (!IsRetryable(batch.status())) return batch;
    std::this_thread::yield();
  }
}

// S-RANDOM-2: pipelines that share workers and a budget, each consumed by a thread of its own.
TEST(RandomStressTest, PipelinesThatShareAContextDoNotChangeEachOther) {
  ForEachPlan(
      40, [](const OpenablePlan& plan, const SeenStream& whole, auto& random, const auto& delays) {
        const auto context = DelayingContext(8, delays, Budget(random));
        std::vector<std::thread> consumers;
        for (int i = 0; i < 3; ++i) {
          consumers.emplace_back([&, i] {
            const auto pipeline = OpenDelayed(plan, delays, context, 1 + i);
            for (size_t b = 0; pipeline != nullptr && b < whole.batches.size(); ++b) {
              const auto batch = NextWhenThereIsRoom(*pipeline);
              ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
              SeenBatch seen;
              Join(plan.made(), **batch, seen);
              ASSERT_EQ(seen.digest, whole.batches[b].digest) << "batch " << b;
            }
          });
        }
        for (std::thread& consumer : consumers) consumer.join();
      });
}

// S-ERROR-1.
TEST(RandomStressTest, TheLowestErrorWinsWhicheverCameFirst) {
  ForEachPlan(60,
              [](const OpenablePlan& plan, const SeenStream&, auto& random, const auto& delays) {
                RandomPlan made = plan.made();
                for (FakeData& data : made.files) {
                  for (int i = 0; i < 3; ++i) data.bad_crc.insert(random() % data.payloads.size());
                  data.io_errors.insert(random() % data.payloads.size());
                }
                const OpenablePlan damaged(made);
                const auto quiet = damaged.Open(FakeContext(1));
                ASSERT_TRUE(quiet.ok()) << quiet.status();
                const Stream expected = Drain(**quiet, kMaxBatches);
                for (const int threads : {8, 32}) {
                  const auto context = DelayingContext(threads, delays, Budget(random));
                  const auto pipeline = OpenDelayed(damaged, delays, context, 4);
                  ASSERT_NE(pipeline, nullptr);
                  const Stream stream = Drain(*pipeline, kMaxBatches);
                  EXPECT_EQ(stream.digests, expected.digests);
                  EXPECT_EQ(stream.end, expected.end);
                }
              });
}

}  // namespace
}  // namespace millrace::pipeline
