#include <algorithm>
#include <filesystem>
#include <random>

#include "tests/pipeline/audit/audit_fixture.h"
#include "tests/pipeline/random/plan_model.h"
#include "tests/pipeline/random/plan_worlds.h"

// Stopping anywhere and going on, over drawn plans: the stitched stream is the whole one.
// MILLRACE_RANDOM_PLANS says how many plans, MILLRACE_RANDOM_SEED from which on. The rules cited
// are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxBatches = 8;

// A plan, what one rank delivers of it, and the largest world that it may go on at.
struct Whole {
  SeenStream seen;
  size_t max_batches = kMaxBatches;
  uint64_t max_world = 1;
};

bool MakeWhole(const OpenablePlan& plan, const std::shared_ptr<Context>& context, Whole& whole) {
  const RandomPlan& made = plan.made();
  const auto opened = plan.Open(context);
  if (!opened.ok() || (made.in_blocks && made.endless && made.has_cut)) return false;
  const PhysicalPlan physical = plan.Physical();
  if (made.endless && made.has_cut) {
    const ModelStream model = PlanModel(made, physical, plan.Facts(physical)).Stream(kMaxBatches);
    if (!model.ends) whole.max_batches = model.batches.size();
  }
  whole.max_world = MostRanks(physical, made.endless);
  DrainRank(made, **opened, 0, whole.max_batches, 0, whole.seen);
  EXPECT_TRUE(whole.seen.end.ok()) << whole.seen.end;
  return !whole.seen.batches.empty();
}

template <typename Check>
void ForEachPlan(uint64_t plans, const Check& check) {
  const auto context = FakeContext(2);
  const auto [first, end] = SeedsFromEnvironment(1'000'000, plans);
  for (uint64_t seed = first; seed < end && !testing::Test::HasFailure(); ++seed) {
    const OpenablePlan plan(seed);
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     absl::StrCat("seed ", seed, "\n", plan.made().text));
    Whole whole;
    std::mt19937_64 random(seed);
    if (MakeWhole(plan, context, whole)) check(plan, context, whole, random);
  }
}

// A rank of an endless input holds the places of its own lanes only, so it goes on at its world.
bool GoesOnAtAnyWorld(const RandomPlan& plan) { return !plan.endless || !plan.has_cut; }

void ExpectTail(const SeenStream& tail, const SeenStream& whole, size_t from) {
  const std::vector<uint64_t> digests = whole.digests();
  ASSERT_EQ(tail.digests(),
            std::vector<uint64_t>(digests.begin() + static_cast<ptrdiff_t>(from), digests.end()))
      << "from batch " << from;
  for (size_t b = 0; b < tail.batches.size(); ++b) {
    EXPECT_EQ(tail.batches[b].rows, whole.batches[from + b].rows);
    EXPECT_EQ(tail.batches[b].epoch, whole.batches[from + b].epoch);
    EXPECT_EQ(tail.batches[b].ends_epoch, whole.batches[from + b].ends_epoch);
  }
}

// S-STATE-1, S-STATE-10.
TEST(RandomResumeTest, EveryTokenGoesOnAtAnotherWorldWithTheSameBits) {
  ForEachPlan(
      50, [](const OpenablePlan& plan, const auto& context, const Whole& whole, auto& random) {
        if (!GoesOnAtAnyWorld(plan.made())) return;
        for (size_t b = 0; b < whole.seen.batches.size(); ++b) {
          const int world = 1 + static_cast<int>(random() % std::min<uint64_t>(whole.max_world, 4));
          const SeenStream tail = RunWorld(plan, context, world, whole.max_batches - b - 1,
                                           whole.seen.batches[b].tokens, b + 1);
          ExpectTail(tail, whole.seen, b + 1);
          for (size_t i = 0; i < tail.batches.size(); ++i) {
            for (const std::string& token : tail.batches[i].tokens) {
              EXPECT_EQ(token, whole.seen.batches[b + 1 + i].tokens[0]);
            }
          }
        }
      });
}

// S-STATE-1: one batch at each world, all the way.
TEST(RandomResumeTest, AnEpochStitchedBatchByBatchOverChangingWorldsIsTheWholeOne) {
  ForEachPlan(
      50, [](const OpenablePlan& plan, const auto& context, const Whole& whole, auto& random) {
        if (!GoesOnAtAnyWorld(plan.made())) return;
        SeenStream stitched;
        std::vector<std::string> tokens;
        for (size_t b = 0; b < whole.seen.batches.size(); ++b) {
          const int world = 1 + static_cast<int>(random() % std::min<uint64_t>(whole.max_world, 8));
          SeenStream one = RunWorld(plan, context, world, 1, tokens, b);
          ASSERT_EQ(one.batches.size(), 1u);
          tokens = one.batches[0].tokens;
          stitched.batches.push_back(std::move(one.batches[0]));
        }
        ExpectTail(stitched, whole.seen, 0);
        if (!whole.seen.ended) return;
        EXPECT_TRUE(RunWorld(plan, context, 1, 1, tokens).batches.empty());
      });
}

// S-STATE-11.
TEST(RandomResumeTest, RanksOfAnEndlessInputGoOnAtTheirWorld) {
  ForEachPlan(
      100, [](const OpenablePlan& plan, const auto& context, const Whole& whole, auto& random) {
        if (GoesOnAtAnyWorld(plan.made())) return;
        const int world = 1 + static_cast<int>(random() % std::min<uint64_t>(whole.max_world, 4));
        const SeenStream first = RunWorld(plan, context, world, whole.max_batches);
        ASSERT_EQ(first.digests(), whole.seen.digests());
        for (size_t b = 0; b < first.batches.size(); ++b) {
          const SeenStream tail = RunWorld(plan, context, world, whole.max_batches - b - 1,
                                           first.batches[b].tokens, b + 1);
          ExpectTail(tail, first, b + 1);
        }
      });
}

// S-STATE-1, S-STATE-2: in one pipeline, jumping about.
TEST(RandomResumeTest, SaveRestoreAndSeekAtRandomMomentsChangeNothing) {
  ForEachPlan(60,
              [](const OpenablePlan& plan, const auto& context, const Whole& whole, auto& random) {
                const bool any = GoesOnAtAnyWorld(plan.made());
                const int world = any ? 1 + static_cast<int>(random() % whole.max_world) : 1;
                const int rank = static_cast<int>(random() % static_cast<uint64_t>(world));
                const auto opened = plan.Open(context, OfRank(rank, world));
                ASSERT_TRUE(opened.ok()) << opened.status();
                Pipeline& pipeline = **opened;
                std::vector<std::string> tokens = {pipeline.Save()};  // before batch i
                for (const SeenBatch& batch : whole.seen.batches) tokens.push_back(batch.tokens[0]);
                size_t next = 0;
                const size_t end = whole.seen.batches.size();
                for (int move = 0; move < 12; ++move) {
                  const size_t target = random() % (end + 1);
                  if (random() % 2 == 0) {
                    ASSERT_TRUE(pipeline.Restore(tokens[target]).ok());
                    next = target;
                  } else if (plan.made().has_cut) {
                    const absl::Status status = pipeline.Seek(target);
                    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
                    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("token"));
                  } else {
                    ASSERT_TRUE(pipeline.Seek(target).ok());
                    next = target;
                  }
                  for (uint64_t n = random() % 4; n > 0 && next < end; --n, ++next) {
                    const auto batch = pipeline.Next();
                    ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
                    SeenBatch seen;
                    Join(plan.made(), **batch, seen);
                    const SeenBatch& expected = whole.seen.batches[next];
                    if (world == 1) {
                      ASSERT_EQ(seen.digest, expected.digest) << "batch " << next;
                    }
                    for (const auto& [row, id] : seen.rows) ASSERT_EQ(id, expected.rows.at(row));
                    ASSERT_EQ((*batch)->index(), next);
                    ASSERT_EQ(seen.tokens[0], tokens[next + 1]);
                  }
                  EXPECT_EQ(pipeline.Save(), tokens[next]);
                }
              });
}

// Runs a plan in starts that stop anywhere, at worlds that change, and logs what is delivered.
class RestartedRun {
 public:
  RestartedRun(const OpenablePlan& plan, std::shared_ptr<Context> context, std::mt19937_64& random)
      : plan_(plan), context_(std::move(context)), random_(random) {}

  // The logs of a run to the end of the stream.
  std::vector<std::string> LogsToTheEnd(uint64_t max_world) {
    for (bool ended = false; !ended && !testing::Test::HasFailure();) {
      const int world = 1 + static_cast<int>(random_() % max_world);
      const uint64_t saved = random_() % 4;  // batches behind the start
      std::string token = token_;
      ended = true;
      for (int rank = 0; rank < world; ++rank) {
        // What a rank takes behind the saved token is delivered again.
        ended &= RunRank(rank, world, saved, saved + random_() % 3, token);
      }
      token_ = std::move(token);
      start_ += saved;
    }
    std::vector<std::string> files;
    for (uint64_t rank = 0; rank < max_world; ++rank) {
      if (std::filesystem::exists(FileOf(rank))) files.push_back(FileOf(rank));
    }
    return files;
  }

 private:
  std::string FileOf(uint64_t rank) const { return folder_ / absl::StrCat("rank-", rank); }

  // Takes up to `takes` batches; true at the end of the stream. `token` becomes that of batch
  // number `saved`, counted from 1.
  bool RunRank(int rank, int world, uint64_t saved, uint64_t takes, std::string& token) {
    const OpenOptions options = OfRank(rank, world, token_);
    const auto pipeline = plan_.Open(context_, options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return true;
    auto header = *MakeAuditHeader(plan_.logical(), **pipeline, options);
    EXPECT_EQ(header.start_batch, start_);
    header.started_ns = ++clock_;
    const auto log = AuditLog::Open(FileOf(static_cast<uint64_t>(rank)), header);
    EXPECT_TRUE(log.ok()) << log.status();
    for (uint64_t taken = 1; taken <= takes; ++taken) {
      const auto batch = (*pipeline)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok()) return true;
      if (!batch->has_value()) {
        EXPECT_TRUE((*log)->Finish(start_ + taken - 1, /*end_of_stream=*/true).ok());
        return true;
      }
      EXPECT_TRUE((*log)->Add(**batch).ok());
      if (taken == saved) token = (*batch)->resume_token();
    }
    return false;
  }

  const OpenablePlan& plan_;
  const std::shared_ptr<Context> context_;
  std::mt19937_64& random_;
  const TempFolder folder_;
  std::string token_;
  uint64_t start_ = 0;  // the batch behind the token
  uint64_t clock_ = 0;
};

bool HasFilter(const RandomPlan& plan) {
  return std::ranges::any_of(
      plan.steps, [](const RowStep& step) { return step.kind == RowStep::Kind::kFilter; });
}

// S-VISIT-1, S-VISIT-2, S-STATE-10: what is expected are the rows of the oracle.
TEST(RandomResumeTest, BehindAFilterEverySampleIsVisitedOnceOverAllRestarts) {
  int checked = 0;
  const uint64_t plans = SampleStride() == 1 ? 120 : 600;  // few have a filter
  ForEachPlan(plans, [&](const OpenablePlan& plan, const auto& context, const Whole& whole,
                         auto& random) {
    if (!HasFilter(plan.made()) || plan.made().in_blocks) return;
    const PhysicalPlan physical = plan.Physical();
    const ModelStream model = PlanModel(plan.made(), physical, plan.Facts(physical)).Stream(100);
    if (!model.ends) return;
    AuditOptions options;
    options.expected = [&](uint64_t epoch, const auto& expect) {
      for (const ModelBatch& batch : model.batches) {
        for (const auto& [row, id] : batch.rows) {
          if (id.epoch == epoch) expect(id);
        }
      }
    };
    RestartedRun run(plan, context, random);
    const auto report =
        CheckAudit(run.LogsToTheEnd(std::min<uint64_t>(whole.max_world, 4)), options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->exactly_once()) << Words(*report);
    EXPECT_EQ(report->batches, model.batches.size());
    ++checked;
  });
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace millrace::pipeline
