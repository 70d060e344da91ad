#ifndef MILLRACE_TESTS_PIPELINE_RANDOM_PLAN_MODEL_H_
#define MILLRACE_TESTS_PIPELINE_RANDOM_PLAN_MODEL_H_

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/pipeline/order/order_model.h"
#include "tests/pipeline/random/random_plan.h"

// The oracle of a whole plan: the order by iterators (order_model.h), dealt to lanes, then every
// stage over whole vectors, lane by lane. Nothing here looks at a record twice or knows of a ring.

namespace millrace::pipeline {

// One global batch.
struct ModelBatch {
  uint64_t epoch = 0;
  bool ends_epoch = false;
  std::map<int64_t, SampleId> rows;  // by row of the global batch
};

struct ModelStream {
  std::vector<ModelBatch> batches;
  bool ends = false;  // behind the last of them; otherwise there may be more
};

class PlanModel {
 public:
  // Borrows all of them.
  PlanModel(const RandomPlan& plan, const PhysicalPlan& physical, std::vector<OrderSource> sources)
      : plan_(plan), physical_(physical), sources_(std::move(sources)) {}

  ModelStream Stream(size_t max_batches) {
    ModelStream stream;
    if (!physical_.cut.has_value()) {
      for (const model::Rows& rows : Order().Batches(physical_, max_batches)) {
        ModelBatch& batch = stream.batches.emplace_back();
        for (size_t i = 0; i < rows.size(); ++i) {
          batch.rows[static_cast<int64_t>(i)] = rows[i];
        }
      }
      stream.ends = stream.batches.size() < max_batches;
      return stream;
    }
    states_.resize(physical_.batch_order.size());
    while (stream.batches.size() <= max_batches) {
      auto batch = Pull(states_.size());
      if (!batch.has_value()) break;
      stream.batches.push_back(*std::move(batch));
    }
    stream.ends = stream.batches.size() <= max_batches && !cut_short_;
    auto& batches = stream.batches;
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i].ends_epoch = i + 1 == batches.size() || batches[i + 1].epoch != batches[i].epoch;
    }
    if (!stream.ends && !batches.empty()) batches.pop_back();  // its ends_epoch is not known
    return stream;
  }

 private:
  // Elements of an endless input that are looked at.
  static constexpr size_t kMaxElements = 1500;
  using Group = std::pair<size_t, std::vector<MadeRow>>;  // bucket, rows
  struct LaneGroups {
    std::vector<Group> groups;
    bool ended = true;  // false: there may be more
  };
  struct StepState {
    uint64_t count = 0;
    bool gave = false;
  };

  model::Model Order() const { return {sources_, physical_.seed}; }
  uint64_t Lanes() const { return physical_.lanes; }
  bool Buckets() const { return physical_.batch.kind == BatchSpec::Kind::kBucket; }

  // The elements of a pass over what stands before the cut.
  model::Rows Pass(uint64_t pass) {
    if (plan_.endless) return Order().Elements(physical_.order, kMaxElements);
    OrderPlan repeated = physical_.order;
    OrderStep step;
    step.count = pass + 1;
    step.kind = OrderStep::Kind::kRepeat;
    repeated.steps.push_back(step);
    const model::Rows all = Order().Elements(repeated, ~size_t{0});
    const size_t size = all.size() / (pass + 1);
    return model::Rows(all.end() - static_cast<ptrdiff_t>(size), all.end());
  }

  // S-ORDER-14.
  std::vector<MadeRow> Deal(const model::Rows& elements, uint64_t lane) const {
    const uint64_t block = Buckets() ? 1 : physical_.batch.size / Lanes();
    std::vector<MadeRow> rows;
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i / block % Lanes() != lane) continue;
      rows.push_back({elements[i], &plan_.samples[elements[i].record]});
    }
    return rows;
  }

  // S-CUT-15, S-CUT-16. `ended`: whether the rows are all there are.
  std::vector<MadeRow> Apply(const RowStep& step, std::vector<MadeRow> rows, uint64_t lane,
                             uint64_t pass, bool* ended) const {
    const size_t share = step.count * (lane + 1) / Lanes() - step.count * lane / Lanes();
    std::vector<MadeRow> out;
    switch (step.kind) {
      case RowStep::Kind::kFilter:
        std::erase_if(rows, [&](const MadeRow& row) { return !step.keep(row); });
        return rows;
      case RowStep::Kind::kUnbatch:
        for (MadeRow& row : rows) {
          for (size_t i = 0; i < row.sample->tokens.size(); ++i) {
            row.id.sub_index = i;
            out.push_back(row);
          }
        }
        return out;
      case RowStep::Kind::kTake:
        if (rows.size() >= share) {
          *ended = true;
          rows.resize(share);
        }
        return rows;
      case RowStep::Kind::kSkip:
        rows.erase(rows.begin(),
                   rows.begin() + static_cast<ptrdiff_t>(std::min(share, rows.size())));
        return rows;
      case RowStep::Kind::kShuffle:
        return Shuffle(step, std::move(rows), lane, pass);
    }
    return rows;
  }

  // By a buffer that is drawn from, of max(1, n / L) rows.
  std::vector<MadeRow> Shuffle(const RowStep& step, std::vector<MadeRow> rows, uint64_t lane,
                               uint64_t pass) const {
    const uint64_t key = model::KeyOf(physical_.seed, HashName(step.stage), pass) ^ Mix64(lane);
    const size_t slots = std::max<size_t>(1, step.count / Lanes());
    std::vector<MadeRow> buffer, out;
    size_t next = 0;
    while (true) {
      const size_t width = std::min(slots, out.size() + 1);
      while (buffer.size() < width && next < rows.size()) buffer.push_back(rows[next++]);
      if (next == rows.size()) break;
      const unsigned __int128 draw = Mix64(key + out.size());
      out.push_back(std::exchange(buffer[static_cast<size_t>(draw * width >> 64)], rows[next++]));
    }
    for (size_t i = 0; i < buffer.size(); ++i) {
      out.push_back(buffer[Permutation(buffer.size(), Mix64(key - 1))(i)]);
    }
    return out;
  }

  // What a lane gives to the batches of a pass: one group each. S-BATCH-10, S-BATCH-11.
  LaneGroups GroupsOf(const model::Rows& elements, uint64_t lane, uint64_t pass) const {
    const BatchSpec& batch = physical_.batch;
    LaneGroups lane_groups;
    lane_groups.ended = !plan_.endless;
    std::vector<MadeRow> rows = Deal(elements, lane);
    for (const RowStep& step : plan_.steps) {
      rows = Apply(step, std::move(rows), lane, pass, &lane_groups.ended);
    }
    std::vector<std::vector<MadeRow>> open(Buckets() ? batch.bucket_sizes.size() : 1);
    for (const MadeRow& row : rows) {
      const size_t length = row.sample->tokens.size();
      const size_t b = !Buckets() ? 0
                                  : static_cast<size_t>(std::ranges::count_if(
                                        batch.boundaries, [&](uint64_t x) { return x <= length; }));
      open[b].push_back(row);
      if (open[b].size() < GroupSize(b)) continue;
      lane_groups.groups.emplace_back(b, std::exchange(open[b], {}));
    }
    for (size_t b = 0; b < open.size() && lane_groups.ended && !batch.drop_remainder; ++b) {
      if (!open[b].empty()) lane_groups.groups.emplace_back(b, open[b]);
    }
    return lane_groups;
  }

  uint64_t GroupSize(size_t bucket) const {
    const BatchSpec& batch = physical_.batch;
    return (Buckets() ? batch.bucket_sizes[bucket] : batch.size) / Lanes();
  }

  // S-CUT-12, S-BATCH-12.
  std::vector<ModelBatch> PassBatches(uint64_t pass) {
    const model::Rows elements = Pass(pass);
    std::vector<LaneGroups> lanes;
    for (uint64_t lane = 0; lane < Lanes(); ++lane) {
      lanes.push_back(GroupsOf(elements, lane, pass));
    }
    std::vector<ModelBatch> batches;
    for (size_t g = 0;; ++g) {
      ModelBatch batch;
      int64_t first = 0;
      bool short_of_rows = false;
      for (const LaneGroups& lane : lanes) {
        if (g >= lane.groups.size()) {
          short_of_rows = true;
          cut_short_ |= !lane.ended;
          if (!Buckets()) first += static_cast<int64_t>(GroupSize(0));
          continue;
        }
        const auto& [bucket, rows] = lane.groups[g];
        if (batch.rows.empty()) batch.epoch = rows[0].id.epoch;
        int64_t at = first;
        for (const MadeRow& row : rows) batch.rows[at++] = row.id;
        first += static_cast<int64_t>(GroupSize(bucket));
      }
      if (cut_short_ || batch.rows.empty()) break;
      if (short_of_rows && physical_.batch.drop_remainder) break;
      batches.push_back(std::move(batch));
    }
    return batches;
  }

  // Pulls through the first `steps` steps over batches. S-CUT-13, S-CUT-14.
  std::optional<ModelBatch> Pull(size_t steps) {
    if (steps == 0) {
      if (!begun_) batches_ = PassBatches(passes_++);
      if (!begun_) next_ = 0;
      begun_ = true;
      if (next_ == batches_.size()) return std::nullopt;
      return batches_[next_++];
    }
    const OrderStep& step = physical_.batch_order[steps - 1];
    StepState& state = states_[steps - 1];
    if (step.kind == OrderStep::Kind::kTake) {
      return state.count++ < step.count ? Pull(steps - 1) : std::nullopt;
    }
    if (step.kind == OrderStep::Kind::kSkip) {
      for (; state.count < step.count; ++state.count) {
        if (!Pull(steps - 1).has_value()) return std::nullopt;
      }
      return Pull(steps - 1);
    }
    while (true) {
      if (auto batch = Pull(steps - 1)) {
        state.gave = true;
        return batch;
      }
      if (!std::exchange(state.gave, false) || ++state.count == step.count) return std::nullopt;
      begun_ = false;
      std::fill_n(states_.begin(), steps - 1, StepState());
    }
  }

  const RandomPlan& plan_;
  const PhysicalPlan& physical_;
  const std::vector<OrderSource> sources_;
  bool cut_short_ = false;
  // Of Pull.
  std::vector<StepState> states_;
  std::vector<ModelBatch> batches_;
  size_t next_ = 0;
  uint64_t passes_ = 0;
  bool begun_ = false;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_RANDOM_PLAN_MODEL_H_
