#ifndef MILLRACE_TESTS_PIPELINE_CUT_SETTLER_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_CUT_SETTLER_FIXTURE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "base/philox.h"
#include "pipeline/cut/settler.h"
#include "pipeline/order/order.h"

// A cut with made-up records, its settler run rank by rank with blocks of random sizes, and the
// same cut done plainly: every lane as a vector, every step over whole vectors, batches by pulling.

namespace millrace::pipeline {

struct CutCase {
  PhysicalPlan plan;
  std::vector<uint64_t> lane_sizes;
  uint64_t data = 0;    // seed of what the records are
  bool splits = false;  // records are 0 to 3 rows
  bool endless = false;
  bool has_errors = false;
  uint64_t keep_percent = 70;  // of each filter
};

inline uint64_t Draw(const CutCase& cut, uint64_t lane, uint64_t q, uint64_t sub, uint64_t what) {
  return Mix64(Mix64(Mix64(Mix64(cut.data) + lane) + q) + 16 * sub + what) >> 8;
}

inline size_t ExtentsPerRow(const CutCase& cut) { return cut.plan.cut->extents_of.empty() ? 0 : 2; }

// What pass 1 would say of one record, appended to `found`.
inline void Examine(const CutCase& cut, uint64_t lane, uint64_t position, Examined* found) {
  const uint64_t size = cut.lane_sizes[lane];
  const uint64_t pass = size == kInfinite ? 0 : position / size;
  const uint64_t q = position - pass * (size == kInfinite ? 0 : size);
  const uint64_t half = size == kInfinite ? 13 : (size + 1) / 2;
  const uint64_t epoch = size == kInfinite ? q / half : 2 * pass + (q >= half ? 1 : 0);
  const uint64_t rows = cut.splits ? Draw(cut, lane, q, 0, 1) % 4 : 1;
  for (uint64_t sub = 0; sub < rows; ++sub) {
    Examined::Row row;
    row.origin = {{epoch, lane * 1000 + q % half, sub}, position};
    while (row.passed_filters < cut.plan.cut->num_filters &&
           Draw(cut, lane, q, sub, 3 + row.passed_filters) % 100 < cut.keep_percent) {
      ++row.passed_filters;
    }
    const bool steps_first = !cut.plan.cut->settle.empty();
    if (row.passed_filters == 0 && cut.plan.cut->num_filters > 0 && !steps_first) continue;
    if (cut.has_errors && Draw(cut, lane, q, sub, 2) % 10 == 0) {
      row.error = static_cast<int32_t>(found->errors.size());
      row.passed_filters = 0;
      found->errors.push_back(absl::DataLossError(std::to_string(position)));
    }
    found->rows.push_back(row);
    if (ExtentsPerRow(cut) == 0) continue;
    found->extents.push_back(7);
    found->extents.push_back(static_cast<int64_t>(Draw(cut, lane, q, sub, 9) % 20));
  }
}

inline Examined ExamineBlock(const CutCase& cut, uint64_t lane, uint64_t first, uint64_t end) {
  Examined block;
  block.lane = lane;
  block.first = first;
  block.end = end;
  for (uint64_t position = first; position < end; ++position) {
    Examine(cut, lane, position, &block);
  }
  return block;
}

// One batch, over all ranks.
struct PlainBatch {
  uint64_t pass = 0;
  uint64_t epoch = 0;
  bool ends_epoch = false;
  std::vector<std::pair<int64_t, RowOrigin>> rows;  // by row of the global batch
  std::vector<int64_t> error_rows;
  friend bool operator==(const PlainBatch&, const PlainBatch&) = default;
};

// The plain way.
class PlainCut {
 public:
  PlainCut(const CutCase& cut, uint64_t max_position) : cut_(cut), max_position_(max_position) {}

  // The first `max_batches` of the stream.
  std::vector<PlainBatch> Batches(size_t max_batches) {
    std::vector<PlainBatch> batches;
    while (batches.size() <= max_batches) {
      auto batch = Pull(cut_.plan.batch_order.size());
      if (!batch.has_value()) break;
      batches.push_back(*std::move(batch));
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i].ends_epoch = i + 1 == batches.size() || batches[i + 1].epoch != batches[i].epoch;
    }
    if (batches.size() > max_batches) batches.resize(max_batches);
    return batches;
  }

 private:
  struct Row {
    RowOrigin origin;
    int passed = 0;
    bool error = false;
    int64_t length = 0;
  };
  struct StepState {
    uint64_t count = 0;
    bool gave = false;
  };
  using Kind = SettleStep::Kind;
  uint64_t Lanes() const { return cut_.plan.lanes; }

  std::vector<Row> LaneRows(uint64_t lane, uint64_t pass) const {
    const uint64_t size = cut_.lane_sizes[lane];
    const uint64_t first = size == kInfinite ? 0 : pass * size;
    const uint64_t end = size == kInfinite ? max_position_ : first + size;
    const Examined found = ExamineBlock(cut_, lane, first, end);
    std::vector<Row> rows;
    for (size_t i = 0; i < found.rows.size(); ++i) {
      const Examined::Row& row = found.rows[i];
      const bool error = row.error >= 0;
      rows.push_back({row.origin, error ? cut_.plan.cut->num_filters : row.passed_filters, error,
                      found.extents.empty() ? 0 : found.extents[2 * i + 1]});
    }
    for (const SettleStep& step : cut_.plan.cut->settle) {
      std::erase_if(rows, [&](const Row& row) { return row.passed < step.after_filters; });
      const uint64_t share = step.count * (lane + 1) / Lanes() - step.count * lane / Lanes();
      if (step.kind == Kind::kTake) rows.resize(std::min<size_t>(rows.size(), share));
      if (step.kind == Kind::kSkip) {
        rows.erase(rows.begin(),
                   rows.begin() + static_cast<ptrdiff_t>(std::min<size_t>(rows.size(), share)));
      }
      if (step.kind == Kind::kShuffle) rows = Shuffled(rows, step, lane, pass);
    }
    std::erase_if(rows, [&](const Row& row) { return row.passed < cut_.plan.cut->num_filters; });
    return rows;
  }

  std::vector<Row> Shuffled(const std::vector<Row>& rows, const SettleStep& step, uint64_t lane,
                            uint64_t pass) const {
    const uint64_t key = Mix64(Mix64(Mix64(cut_.plan.seed) + step.key) + pass) ^ Mix64(lane);
    const size_t capacity = std::max<size_t>(1, step.count / Lanes());
    std::vector<Row> buffer, out;
    size_t next = 0;
    while (true) {
      const size_t width = std::min(capacity, out.size() + 1);
      while (buffer.size() < width && next < rows.size()) buffer.push_back(rows[next++]);
      if (next == rows.size()) break;
      const auto slot = static_cast<size_t>(
          (static_cast<unsigned __int128>(Mix64(key + out.size())) * width) >> 64);
      out.push_back(std::exchange(buffer[slot], rows[next++]));
    }
    for (size_t i = 0; i < buffer.size(); ++i) {
      out.push_back(buffer[Permutation(buffer.size(), Mix64(key - 1))(i)]);
    }
    return out;
  }

  // Closed groups of rows of a lane in a pass: (bucket, rows).
  std::vector<std::pair<size_t, std::vector<Row>>> Groups(uint64_t lane, uint64_t pass) const {
    const BatchSpec& batch = cut_.plan.batch;
    const bool buckets = batch.kind == BatchSpec::Kind::kBucket;
    std::vector<std::vector<Row>> open(buckets ? batch.bucket_sizes.size() : 1);
    std::vector<std::pair<size_t, std::vector<Row>>> groups;
    for (const Row& row : LaneRows(lane, pass)) {
      size_t b = 0;
      while (buckets && !row.error && b < batch.boundaries.size() &&
             static_cast<uint64_t>(row.length) >= batch.boundaries[b]) {
        ++b;
      }
      open[b].push_back(row);
      if (open[b].size() < (buckets ? batch.bucket_sizes[b] : batch.size) / Lanes()) continue;
      groups.emplace_back(b, std::exchange(open[b], {}));
    }
    for (size_t b = 0; b < open.size() && !batch.drop_remainder; ++b) {
      if (!open[b].empty()) groups.emplace_back(b, open[b]);
    }
    return groups;
  }

  std::vector<PlainBatch> PassBatches(uint64_t pass) const {
    const BatchSpec& spec = cut_.plan.batch;
    const bool buckets = spec.kind == BatchSpec::Kind::kBucket;
    std::vector<std::vector<std::pair<size_t, std::vector<Row>>>> groups;
    for (uint64_t lane = 0; lane < Lanes(); ++lane) groups.push_back(Groups(lane, pass));
    std::vector<PlainBatch> batches;
    for (size_t g = 0;; ++g) {
      PlainBatch batch{.pass = pass, .rows = {}, .error_rows = {}};
      int64_t base = 0;
      bool any = false, all = true;
      for (const auto& lane : groups) {
        if (g < lane.size()) {
          if (!any) batch.epoch = lane[g].second[0].origin.id.epoch;
          any = true;
          for (size_t i = 0; i < lane[g].second.size(); ++i) {
            const int64_t at = base + static_cast<int64_t>(i);
            batch.rows.emplace_back(at, lane[g].second[i].origin);
            if (lane[g].second[i].error) batch.error_rows.push_back(at);
          }
          base += static_cast<int64_t>((buckets ? spec.bucket_sizes[lane[g].first] : spec.size) /
                                       Lanes());
        } else {
          all = false;
          if (!buckets) base += static_cast<int64_t>(spec.size / Lanes());
        }
      }
      if (!any || (spec.drop_remainder && !all)) break;
      batches.push_back(std::move(batch));
    }
    return batches;
  }

  // Pulls from the first `steps` steps over batches.
  std::optional<PlainBatch> Pull(size_t steps) {
    if (steps == 0) {
      if (!begun_) {
        begun_ = true;
        next_ = 0;
        pass_batches_ = PassBatches(passes_++);
      }
      if (next_ == pass_batches_.size()) return std::nullopt;
      return pass_batches_[next_++];
    }
    const OrderStep& step = cut_.plan.batch_order[steps - 1];
    states_.resize(cut_.plan.batch_order.size());
    StepState& state = states_[steps - 1];
    if (step.kind == OrderStep::Kind::kTake) {
      if (state.count++ >= step.count) return std::nullopt;
      return Pull(steps - 1);
    }
    if (step.kind == OrderStep::Kind::kSkip) {
      for (; state.count < step.count; ++state.count) {
        if (!Pull(steps - 1).has_value()) return std::nullopt;
      }
      return Pull(steps - 1);
    }
    while (true) {
      auto batch = Pull(steps - 1);
      if (batch.has_value()) {
        state.gave = true;
        return batch;
      }
      if (!state.gave || (step.count != 0 && state.count + 1 >= step.count)) return std::nullopt;
      ++state.count;
      state.gave = false;
      begun_ = false;
      for (size_t i = 0; i + 1 < steps; ++i) states_[i] = {};
    }
  }

  const CutCase& cut_;
  const uint64_t max_position_;
  std::vector<StepState> states_;
  bool begun_ = false;
  uint64_t passes_ = 0;
  std::vector<PlainBatch> pass_batches_;
  size_t next_ = 0;
};

inline absl::StatusOr<std::unique_ptr<Settler>> MakeSettler(const CutCase& cut, int rank,
                                                            int world) {
  return Settler::Make(cut.plan, {.rank = rank,
                                  .world = world,
                                  .num_lanes = cut.plan.lanes,
                                  .seed = cut.plan.seed,
                                  .extents_per_row = ExtentsPerRow(cut),
                                  .lane_sizes = cut.lane_sizes,
                                  .endless = cut.endless});
}

// Examines again what the settler asks for.
inline absl::Status ReopenAll(const CutCase& cut, Settler& settler) {
  for (const uint64_t lane : settler.lanes()) {
    const std::vector<RowOrigin> open = settler.OpenRows(lane);
    if (open.empty()) continue;
    Examined found;
    found.lane = lane;
    for (const RowOrigin& origin : open) Examine(cut, lane, origin.position, &found);
    if (absl::Status status = settler.Reopen(lane, found); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Feeds a settler as an executor does: blocks of random sizes, several of a lane under way.
class Feeder {
 public:
  Feeder(const CutCase& cut, Settler& settler, uint64_t seed)
      : cut_(cut), settler_(settler), random_(seed), lanes_(settler.lanes()) {
    for (const uint64_t lane : lanes_) ways_.push_back({lane, settler.NextPosition(lane), {}});
  }

  // The next batch; nullopt at the end, or when the settler asks for nothing and gives nothing.
  std::optional<ClosedBatch> Next() {
    for (int idle = 0; idle < 1000;) {
      if (random_() % 3 != 0 || idle > 0) {
        if (auto batch = settler_.Take()) return batch;
        if (settler_.ended()) return std::nullopt;
      }
      idle = Feed() ? 0 : idle + 1;
    }
    ADD_FAILURE() << "the settler is stuck";
    return std::nullopt;
  }
  uint64_t max_pending() const { return max_pending_; }

 private:
  struct Way {
    uint64_t lane;
    uint64_t next;  // to be examined
    std::vector<std::pair<uint64_t, uint64_t>> under_way;
  };

  bool Feed() {
    Way& way = ways_[random_() % ways_.size()];
    way.next = std::max(way.next, settler_.NextPosition(way.lane));
    if (settler_.WantsMore(way.lane) && way.under_way.size() < 4) {
      const uint64_t end = way.next + 1 + random_() % 12;
      way.under_way.emplace_back(way.next, end);
      way.next = end;
      if (random_() % 2 == 0) return true;
    }
    if (way.under_way.empty()) return false;
    const auto [first, end] = way.under_way.front();
    way.under_way.erase(way.under_way.begin());
    settler_.Settle(ExamineBlock(cut_, way.lane, first, end));
    return true;
  }

  const CutCase& cut_;
  Settler& settler_;
  std::mt19937_64 random_;
  std::vector<uint64_t> lanes_;
  std::vector<Way> ways_;
  uint64_t max_pending_ = 0;
};

// Adds what one rank fills to the whole batch, checking the rules of slots.
inline void Join(const ClosedBatch& batch, PlainBatch& whole) {
  whole.pass = batch.pass;
  whole.epoch = batch.epoch;
  whole.ends_epoch = batch.ends_epoch;
  int64_t last_slot = -1;
  for (const ClosedBatch::Row& row : batch.rows) {
    EXPECT_GT(row.slot, last_slot);
    EXPECT_LT(row.slot, batch.num_slots);
    last_slot = row.slot;
    whole.rows.emplace_back(batch.first_global_row + row.slot, row.origin);
    if (row.error >= 0) {
      EXPECT_LT(static_cast<size_t>(row.error), batch.errors.size());
      whole.error_rows.push_back(batch.first_global_row + row.slot);
    }
  }
}

// A run of all ranks of a world, together.
struct WorldRun {
  std::vector<PlainBatch> batches;
  std::vector<std::vector<std::string>> states;  // per batch and rank
};

// `states`: of each rank, to go on from; empty: from the start.
inline WorldRun RunWorld(const CutCase& cut, int world, size_t max_batches, uint64_t seed,
                         const std::vector<std::string>& states = {}, uint64_t first_index = 0) {
  std::vector<std::unique_ptr<Settler>> settlers;
  std::vector<std::unique_ptr<Feeder>> feeders;
  WorldRun run;
  for (int rank = 0; rank < world; ++rank) {
    auto settler = MakeSettler(cut, rank, world);
    EXPECT_TRUE(settler.ok()) << settler.status();
    if (!settler.ok()) return run;
    settlers.push_back(*std::move(settler));
    if (!states.empty()) {
      const absl::Status restored = settlers.back()->Restore(states[rank % states.size()]);
      EXPECT_TRUE(restored.ok()) << restored;
      if (!restored.ok()) return run;
      EXPECT_TRUE(ReopenAll(cut, *settlers.back()).ok());
    }
    feeders.push_back(std::make_unique<Feeder>(cut, *settlers.back(), seed + 1000 * rank));
  }
  while (run.batches.size() < max_batches) {
    PlainBatch whole;
    std::vector<std::string> states_of_batch;
    int64_t global_valid = 0, num_slots = 0;
    for (int rank = 0; rank < world; ++rank) {
      const std::optional<ClosedBatch> batch = feeders[rank]->Next();
      if (!batch.has_value()) {
        EXPECT_EQ(rank, 0) << "ranks disagree about the end";
        return run;
      }
      EXPECT_EQ(batch->index, first_index + run.batches.size());
      if (rank > 0) {
        EXPECT_EQ(global_valid, batch->num_global_valid_rows);
        EXPECT_EQ(num_slots, batch->num_slots);
      }
      global_valid = batch->num_global_valid_rows;
      num_slots = batch->num_slots;
      const PlainBatch before = whole;
      Join(*batch, whole);
      if (rank > 0 && !cut.endless) {
        EXPECT_EQ(before.epoch, whole.epoch);
        EXPECT_EQ(before.ends_epoch, whole.ends_epoch);
      }
      if (rank > 0) {  // an endless rank's epoch is that of its own first row
        whole.epoch = before.epoch;
        whole.ends_epoch = before.ends_epoch;
      }
      states_of_batch.push_back(batch->state);
    }
    EXPECT_EQ(global_valid, static_cast<int64_t>(whole.rows.size()));
    run.batches.push_back(std::move(whole));
    run.states.push_back(std::move(states_of_batch));
  }
  return run;
}

// A random cut whose lanes are divided by `lanes`.
inline CutCase RandomCut(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  CutCase cut;
  cut.data = seed;
  cut.plan.seed = below(1000);
  const uint64_t lane_choices[] = {1, 2, 3, 4, 6, 8};
  cut.plan.lanes = lane_choices[below(6)];
  cut.splits = below(3) == 0;
  cut.has_errors = below(4) == 0;
  cut.keep_percent = 40 + below(60);
  CutPlan plan;
  plan.num_filters = static_cast<int>(below(3));
  if (cut.splits) {
    plan.examine.emplace_back();
    plan.examine.back().kind = ExamineStep::Kind::kUnbatch;
  }
  int after = 0;
  for (uint64_t n = below(4); n > 0; --n) {
    after = std::min<int>(plan.num_filters, after + static_cast<int>(below(2)));
    const SettleStep::Kind kinds[] = {SettleStep::Kind::kTake, SettleStep::Kind::kSkip,
                                      SettleStep::Kind::kShuffle};
    const SettleStep::Kind kind = kinds[below(3)];
    const uint64_t count = kind == SettleStep::Kind::kTake ? 20 + below(100) : below(30);
    plan.settle.push_back({kind, count, after, below(100), "step"});
  }
  BatchSpec& batch = cut.plan.batch;
  batch.drop_remainder = below(2) == 0;
  batch.size = cut.plan.lanes * (1 + below(5));
  if (below(3) == 0) {
    batch.kind = BatchSpec::Kind::kBucket;
    batch.length_field = "tokens";
    plan.extents_of = {"image", "tokens"};
    cut.plan.batch_schema.Set({"image", DType::kU8, Shape{Shape::kUnknown}});
    cut.plan.batch_schema.Set({"tokens", DType::kI64, Shape{Shape::kUnknown}});
    batch.boundaries = {5, 12};
    for (int b = 0; b < 3; ++b) batch.bucket_sizes.push_back(cut.plan.lanes * (1 + below(4)));
    batch.size = *std::ranges::max_element(batch.bucket_sizes);
  }
  cut.plan.cut = std::move(plan);
  for (uint64_t n = below(4); n > 0; --n) {
    OrderStep step;
    const OrderStep::Kind kinds[] = {OrderStep::Kind::kRepeat, OrderStep::Kind::kTake,
                                     OrderStep::Kind::kSkip};
    step.kind = kinds[below(3)];
    step.count = step.kind == OrderStep::Kind::kSkip ? below(4) : below(6);
    cut.plan.batch_order.push_back(step);
  }
  const uint64_t total = below(200);
  for (uint64_t lane = 0; lane < cut.plan.lanes; ++lane) {
    cut.lane_sizes.push_back(total / cut.plan.lanes + (lane < total % cut.plan.lanes ? 1 : 0));
  }
  return cut;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_CUT_SETTLER_FIXTURE_H_
