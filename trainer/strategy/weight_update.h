#ifndef MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {

// Applies the optimizer to a reducer's sums, bucket by bucket, and reports the current bucket to
// the progress. Thread-compatible.
class WeightUpdate {
 public:
  // `model` and `progress` (null: none) must outlive it. If the optimizer's pieces are those of
  // this rank alone, `communicator` is the one of all ranks, and outlives it; null: whole
  // parameters. The arithmetic takes `threads` threads; its bits are those of one.
  WeightUpdate(const Model& model, Optimizer optimizer, collectives::Progress* progress,
               collectives::Communicator* communicator, int threads)
      : model_(&model),
        optimizer_(std::move(optimizer)),
        progress_(progress),
        communicator_(communicator),
        threads_(threads) {}

  // Makes `update` of the optimizer's pieces of `weights`, by `sums`. Collective if there is a
  // communicator.
  absl::Status Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                     TensorSet& weights);

  const std::vector<Piece>& pieces() const { return optimizer_.pieces(); }
  // The optimizer's state, by piece.
  const Slots& slots() const { return optimizer_.slots(); }

 private:
  // The sums of piece `p`, and its weights.
  std::span<const float> SumsOf(collectives::GradientReducer& sums, size_t p) const;
  std::span<float> WeightsOf(TensorSet& weights, size_t p) const;
  // Pieces of one bucket.
  struct BucketPieces {
    size_t bucket = 0;
    std::vector<size_t> pieces;
    int64_t elements = 0;
  };
  // The pieces for which `is_wanted`, by bucket.
  std::vector<BucketPieces> CutByBucket(const collectives::GradientReducer& sums,
                                        const std::function<bool(size_t p)>& is_wanted) const;
  // Calls `body(thread, p, from, to)` for elements [from, to) of pieces p, so that each thread has
  // an equal part of each bucket, one bucket after the other. `enter(bucket)` is called by one
  // thread, when it comes to a bucket. Both throw nothing.
  void OnThreads(const std::vector<BucketPieces>& buckets,
                 const std::function<void(size_t bucket)>& enter,
                 const std::function<void(int thread, size_t p, size_t from, size_t to)>& body);

  // Of the weights and of the gradient of a parameter.
  using Wanted = std::array<bool, 2>;
  struct Magnitudes {
    double largest[2] = {};
    double squares[4] = {};  // two each, as AddSquares

    void Add(const Magnitudes& other);
  };
  // Adds what is wanted of this rank's pieces to `found`; both are by parameter. Squares are
  // rounded by the guesses.
  void FindOwn(collectives::GradientReducer& sums, TensorSet& weights,
               std::span<const Wanted> wanted, std::span<Magnitudes> found);
  // Puts all ranks' numbers together. Collective if there is a communicator.
  absl::Status ShareLargest(std::span<Magnitudes> found) const;
  absl::Status ShareSquares(std::span<Magnitudes> found) const;
  absl::Status FindNorms(collectives::GradientReducer& sums, int64_t step, TensorSet& weights);

  const Model* model_;
  Optimizer optimizer_;
  collectives::Progress* progress_;
  collectives::Communicator* communicator_;
  int threads_;
  // The largest magnitudes of the update before, by parameter: the guesses for the next one.
  std::vector<std::array<double, 2>> guesses_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
