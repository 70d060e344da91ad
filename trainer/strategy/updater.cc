// Three ways from gradients to weights:
//   plain   backward writes into the reducer's buckets; all ranks update everything with the same
//           sums
//   shards  the same, but each rank updates the shards that it has the sums of, and has momentum
//           for them alone; new weights go round in the buckets' memory, and so does the momentum
//           before it is saved, so a checkpoint is whole and any number of ranks continues it
//   late    sums come steps later, each step with memory of its own, while the compute library
//           wants one place for good: gradients are copied once

#include "trainer/strategy/updater.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/job/reduction.h"
#include "trainer/strategy/agree.h"
#include "trainer/strategy/waiting.h"

namespace millrace::trainer {

using collectives::GradientReducer;
using collectives::StaleReducer;

absl::StatusOr<std::unique_ptr<Updater>> Updater::Make(collectives::Communicator& communicator,
                                                       const Model& model, const Job& job,
                                                       TensorSet velocity, const Options& options) {
  const Reduction& reduction = job.reduction();
  std::unique_ptr<Updater> updater(
      new Updater(communicator, model, options.progress, reduction.shard_optimizer()));
  std::vector<collectives::GradientSpec> gradients;
  for (size_t i = model.parameters.size(); i-- > 0;) {
    gradients.push_back({model.parameters[i].name, model.parameters[i].shape});
  }
  collectives::ReducerOptions reducer = ReducerOptionsOf(reduction);
  reducer.progress = options.progress;
  reducer.first_step = static_cast<int64_t>(options.first_step);
  reducer.compute_threads = options.compute_threads;
  if (reduction.stale_steps() > 0) {
    MILLRACE_ASSIGN_OR_RETURN(updater->stale_,
                              StaleReducer::Make(communicator, gradients, reducer,
                                                 StaleOptionsOf(reduction, options.steps)));
    updater->own_gradients_ = MakeZeros(model);
  } else {
    MILLRACE_ASSIGN_OR_RETURN(updater->reducer_,
                              GradientReducer::Make(communicator, gradients, reducer));
  }
  absl::StatusOr<Sgd> sgd =
      Sgd::Make(job.optimizer(), model, std::move(velocity), updater->OwnPieces());
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, sgd.status()));
  updater->sgd_ = *std::move(sgd);
  return updater;
}

std::vector<Piece> Updater::OwnPieces() const {
  if (!is_sharded_) return WholeParameters(model_);
  std::vector<Piece> pieces;
  for (const collectives::GradientShard& shard : reducer_->shards()) {
    pieces.push_back({ReducerIndex(shard.gradient), shard.begin, shard.end});
  }
  return pieces;
}

std::vector<std::span<float>> Updater::gradients() {
  std::vector<std::span<float>> spans;
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    spans.push_back(stale_ != nullptr ? std::span<float>(own_gradients_[i])
                                      : reducer_->gradient(ReducerIndex(i)).as<float>());
  }
  return spans;
}

void Updater::SetRows(int64_t rows) {
  gathered_.clear();
  if (stale_ != nullptr) {
    stale_->SetRows(rows);
  } else {
    reducer_->SetRows(rows);
  }
}

absl::Status Updater::MarkReady(size_t i) {
  const size_t index = ReducerIndex(i);
  if (stale_ == nullptr) return reducer_->MarkReady(index);
  std::ranges::copy(own_gradients_[i], stale_->gradient(index).as<float>().begin());
  return stale_->MarkReady(index);
}

absl::Status Updater::Finish() {
  if (stale_ != nullptr) return stale_->Finish();
  MILLRACE_RETURN_IF_ERROR(reducer_->Finish());
  finished_ = reducer_.get();
  return absl::OkStatus();
}

absl::Status Updater::FinishEmptyBatch() {
  SetRows(0);
  const std::vector<std::span<float>> spans = gradients();
  for (size_t i = spans.size(); i-- > 0;) {
    std::ranges::fill(spans[i], 0.0f);
    MILLRACE_RETURN_IF_ERROR(MarkReady(i));
  }
  return Finish();
}

void Updater::Leave(const absl::Status& why) {
  if (stale_ != nullptr) return stale_->Leave(why);
  reducer_->Leave(why);
}

std::span<GradientReducer* const> Updater::ready() const {
  if (stale_ != nullptr) return stale_->ready();
  const bool has_sums = finished_ != nullptr && finished_->outcome().complete;
  return {&finished_, has_sums ? size_t{1} : size_t{0}};
}

absl::Status Updater::Apply(GradientReducer& sums, int64_t step, double rate, TensorSet& weights) {
  if (sums.outcome().skip) return absl::OkStatus();
  if (is_sharded_) return ApplyToShards(sums, step, rate, weights);
  std::optional<size_t> bucket;
  for (size_t i = 0; i < weights.size(); ++i) {
    EnterBucket(step, sums.bucket_of(ReducerIndex(i)), bucket);
    sgd_->Apply(i, rate, sums.outcome().clip_factor, sums.gradient(ReducerIndex(i)).as<float>(),
                weights[i]);
  }
  return absl::OkStatus();
}

void Updater::EnterBucket(int64_t step, size_t next, std::optional<size_t>& bucket) {
  if (progress_ != nullptr && next != bucket) {
    progress_->Enter(step, static_cast<int>(next), collectives::Phase::kUpdating);
  }
  bucket = next;
}

absl::Status Updater::ApplyToShards(GradientReducer& sums, int64_t step, double rate,
                                    TensorSet& weights) {
  std::optional<size_t> bucket;
  for (size_t p = 0; p < sgd_->pieces().size(); ++p) {
    const Piece& piece = sgd_->pieces()[p];
    EnterBucket(step, sums.bucket_of(ReducerIndex(piece.parameter)), bucket);
    const size_t count = piece.end - piece.begin;
    const auto gradient =
        sums.gradient(ReducerIndex(piece.parameter)).as<float>().subspan(piece.begin, count);
    const auto own = std::span(weights[piece.parameter]).subspan(piece.begin, count);
    sgd_->Apply(p, rate, sums.outcome().clip_factor, gradient, own);
    std::ranges::copy(own, gradient.begin());
  }
  const double gathered_before = sums.counters().gather_seconds;
  {
    const Waiting waiting(progress_, step);
    MILLRACE_RETURN_IF_ERROR(sums.GatherShards());
  }
  gather_seconds_ += sums.counters().gather_seconds - gathered_before;
  for (size_t i = 0; i < weights.size(); ++i) {
    std::ranges::copy(sums.gradient(ReducerIndex(i)).as<float>(), weights[i].begin());
  }
  return absl::OkStatus();
}

// Others write to this rank's copy of the buckets as soon as they gather, so all have to be done
// with theirs before: AgreeOnStatus is that meeting.
absl::StatusOr<const TensorSet*> Updater::GatherVelocity() {
  if (!is_sharded_) return &sgd_->velocity();
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, absl::OkStatus()));
  for (size_t p = 0; p < sgd_->pieces().size(); ++p) {
    const Piece& piece = sgd_->pieces()[p];
    std::ranges::copy(sgd_->velocity()[p],
                      reducer_->gradient(ReducerIndex(piece.parameter)).as<float>().begin() +
                          static_cast<ptrdiff_t>(piece.begin));
  }
  MILLRACE_RETURN_IF_ERROR(reducer_->GatherShards());
  if (communicator_.rank() == 0 && gathered_.empty()) {
    for (size_t i = 0; i < model_.parameters.size(); ++i) {
      const auto whole = reducer_->gradient(ReducerIndex(i)).as<float>();
      gathered_.emplace_back(whole.begin(), whole.end());
    }
  }
  return &gathered_;
}

collectives::ReducerCounters Updater::counters() const {
  collectives::ReducerCounters counters =
      stale_ != nullptr ? stale_->counters() : reducer_->counters();
  counters.gather_seconds = gather_seconds_;
  return counters;
}

std::string Updater::Summary() const {
  return stale_ != nullptr ? stale_->Summary() : reducer_->Summary();
}

}  // namespace millrace::trainer
