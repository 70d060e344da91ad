#ifndef MILLRACE_TESTS_PIPELINE_RANDOM_PLAN_WORLDS_H_
#define MILLRACE_TESTS_PIPELINE_RANDOM_PLAN_WORLDS_H_

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/optimize/optimizer.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/pipeline/random/random_plan.h"

// Runs drawn plans, all ranks of a world, and puts together what they deliver.

namespace millrace::pipeline {

// A plan, parsed; opened as often as one likes.
class OpenablePlan {
 public:
  explicit OpenablePlan(RandomPlan made)
      : made_(std::move(made)), logical_(Plan::FromText(made_.text, "drawn")) {
    EXPECT_TRUE(logical_.ok()) << logical_.status() << "\n" << made_.text;
  }
  explicit OpenablePlan(uint64_t seed) : OpenablePlan(RandomPlanMaker(seed).Make()) {}

  const RandomPlan& made() const { return made_; }
  const Plan& logical() const { return *logical_; }

  PhysicalPlan Physical(const OptimizerOptions& optimizer = {}) const {
    auto physical = BuildPhysicalPlan(*logical_, optimizer);
    EXPECT_TRUE(physical.ok()) << physical.status() << "\n" << made_.text;
    return physical.ok() ? *std::move(physical) : PhysicalPlan();
  }
  OpenedSources Sources(const PhysicalPlan& physical) const {
    std::vector<std::unique_ptr<readers::RecordSource>> sources;
    for (const FakeData& data : made_.files) sources.push_back(std::make_unique<FakeSource>(data));
    for (const uint64_t count : made_.ranges) sources.push_back(MakeRangeSource(count));
    return JoinSources(physical, std::move(sources));
  }
  // Of what the order takes for sources.
  std::vector<OrderSource> Facts(const PhysicalPlan& physical) const {
    if (physical.zip.has_value()) return {{made_.samples.size(), 0, {}}};
    return Sources(physical).facts;
  }
  absl::StatusOr<std::unique_ptr<Pipeline>> Open(std::shared_ptr<Context> context,
                                                 const OpenOptions& options = {},
                                                 const OptimizerOptions& optimizer = {}) const {
    return Open(Physical(optimizer), std::move(context), options);
  }
  // `rows_per_run`: of the executor's parts.
  absl::StatusOr<std::unique_ptr<Pipeline>> Open(PhysicalPlan physical,
                                                 std::shared_ptr<Context> context,
                                                 const OpenOptions& options = {},
                                                 int64_t rows_per_run = 0) const {
    OpenedSources sources = Sources(physical);
    MILLRACE_ASSIGN_OR_RETURN(
        ExecutorParts parts,
        MakeExecutorParts(std::move(physical), std::move(sources), std::move(context), options));
    parts.rows_per_run = rows_per_run;
    return OpenParts(std::move(parts), options);
  }

 private:
  RandomPlan made_;
  absl::StatusOr<Plan> logical_;
};

inline OpenOptions OfRank(int rank, int world, std::string token = "") {
  OpenOptions options;
  options.rank = rank;
  options.world = world;
  options.resume_token = std::move(token);
  return options;
}

// The most ranks that a plan runs on: S-RANK-1, S-CUT-11, S-CUT-20, S-CUT-21.
inline uint64_t MostRanks(const PhysicalPlan& physical, bool endless) {
  const bool by_lanes =
      physical.cut.has_value() && !LanesAreFree(physical) && !RanksKnowBatches(physical, endless);
  return by_lanes ? physical.lanes : SmallestBatch(physical);
}

// One global batch as its ranks delivered it.
struct SeenBatch {
  uint64_t epoch = 0;  // of rank 0
  bool ends_epoch = false;
  uint64_t digest = 0;               // of all ranks
  std::map<int64_t, SampleId> rows;  // by row of the global batch
  std::vector<std::string> tokens;   // of each rank
};

struct SeenStream {
  std::vector<SeenBatch> batches;
  absl::Status end;    // of rank 0; OK at its end, or where it was stopped
  bool ended = false;  // not stopped by `max_batches`

  std::vector<uint64_t> digests() const {
    std::vector<uint64_t> digests;
    for (const SeenBatch& batch : batches) digests.push_back(batch.digest);
    return digests;
  }
};

// The fields that Examples and ranges say must be in the batch, row by row.
inline void CheckValues(const RandomPlan& plan, const Batch& batch) {
  const std::string number = plan.features[0];
  const auto numbers = batch.Find(number).as<int64_t>();
  const auto names = batch.names();
  const size_t field =
      static_cast<size_t>(std::ranges::find(names, std::string("tokens")) - names.begin());
  const ConstTensorView splits = batch.Find("tokens/row_splits");
  const ConstTensorView beside = batch.Find("beside");
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (batch.valid()[row] == 0) {
      ASSERT_EQ(numbers[row], 0);
      ASSERT_EQ(batch.ids()[row], SampleId());
      continue;
    }
    const SampleId id = batch.ids()[row];
    const MadeSample& sample = plan.samples.at(id.record);
    ASSERT_EQ(numbers[row], sample.number);
    if (beside.data != nullptr) {
      ASSERT_EQ(beside.as<int64_t>()[row], sample.beside);
    }
    if (field == names.size()) continue;
    const ConstTensorView tokens = batch.tensor(field);
    const auto values = tokens.as<int64_t>();
    if (tokens.shape.rank() == 1 && splits.data == nullptr) {
      ASSERT_EQ(values[row], sample.tokens.at(id.sub_index));
      continue;
    }
    const auto count = static_cast<int64_t>(sample.tokens.size());
    ASSERT_EQ(batch.row_shape(field, row), Shape{count});
    const bool ragged = splits.data != nullptr;
    const int64_t first = ragged ? splits.as<int64_t>()[row] : row * tokens.shape[1];
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(values[first + i], sample.tokens[i]);
  }
}

// Adds a rank's slice of a batch.
inline void Join(const RandomPlan& plan, const Batch& batch, SeenBatch& seen) {
  CheckValues(plan, batch);
  StreamDigest digest;
  digest.Add(batch);
  seen.digest += digest.value();
  seen.tokens.push_back(batch.resume_token());
  int64_t valid = 0;
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (batch.valid()[row] == 0) continue;
    ++valid;
    EXPECT_TRUE(seen.rows.emplace(batch.first_global_row() + row, batch.ids()[row]).second);
  }
  EXPECT_EQ(valid, batch.num_valid_rows());
}

// Drains what a pipeline still has, as rank `rank` of the stream.
inline void DrainRank(const RandomPlan& plan, Pipeline& pipeline, int rank, size_t max_batches,
                      uint64_t first_index, SeenStream& seen) {
  std::vector<int64_t> global_valid;
  size_t next = 0;
  for (; next < max_batches; ++next) {
    const auto batch = pipeline.Next();
    if (!batch.ok()) {
      if (rank == 0) seen.end = batch.status();
      EXPECT_EQ(batch.status().code(), seen.end.code()) << batch.status();
      break;
    }
    if (!batch->has_value()) break;
    ASSERT_EQ((*batch)->index(), first_index + next);
    if (rank == 0) seen.batches.emplace_back();
    ASSERT_LT(next, seen.batches.size()) << "rank " << rank << " has more batches";
    SeenBatch& whole = seen.batches[next];
    if (rank == 0) {
      whole.epoch = (*batch)->epoch();
      whole.ends_epoch = (*batch)->ends_epoch();
    } else if (!plan.endless || !plan.has_cut) {
      EXPECT_EQ(whole.epoch, (*batch)->epoch());
      EXPECT_EQ(whole.ends_epoch, (*batch)->ends_epoch());
    }
    Join(plan, **batch, whole);
    global_valid.push_back((*batch)->num_global_valid_rows());
  }
  EXPECT_EQ(next, seen.batches.size()) << "rank " << rank;
  seen.ended = next < max_batches;
}

// All ranks, one after the other. `tokens`: of each rank, to go on from; none: from the start.
inline SeenStream RunWorld(const OpenablePlan& plan, const std::shared_ptr<Context>& context,
                           int world, size_t max_batches,
                           const std::vector<std::string>& tokens = {}, uint64_t first_index = 0) {
  SeenStream seen;
  for (int rank = 0; rank < world; ++rank) {
    const std::string token =
        tokens.empty() ? "" : tokens[static_cast<size_t>(rank) % tokens.size()];
    auto pipeline = plan.Open(context, OfRank(rank, world, token));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return seen;
    DrainRank(plan.made(), **pipeline, rank, max_batches, first_index, seen);
  }
  return seen;
}

// Draws plans whose every lane gets rows and that can be opened, from seed `first` on (or as
// SeedsFromEnvironment says), and calls `check(plan, context, pipeline, random)` for each until one
// fails.
template <typename Check>
void ForEachOpenedPlan(uint64_t first, uint64_t plans, const Check& check) {
  const auto context = FakeContext(2);
  const auto [begin, end] = SeedsFromEnvironment(first, plans);
  for (uint64_t seed = begin; seed < end && !testing::Test::HasFailure(); ++seed) {
    const OpenablePlan plan(seed);
    if (plan.made().endless && plan.made().has_cut) continue;
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     absl::StrCat("seed ", seed, "\n", plan.made().text));
    const auto opened = plan.Open(context);
    if (!opened.ok()) continue;
    std::mt19937_64 random(seed);
    check(plan, context, **opened, random);
  }
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_RANDOM_PLAN_WORLDS_H_
