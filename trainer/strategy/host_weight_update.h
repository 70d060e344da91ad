#ifndef MILLRACE_TRAINER_STRATEGY_HOST_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_HOST_WEIGHT_UPDATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/strategy/weight_update.h"

namespace millrace::trainer {

// The update of weights in the host's memory.
class HostWeightUpdate final : public WeightUpdate {
 public:
  // `model` and `progress` (null: none) must outlive it. If the optimizer's pieces are those of
  // this rank alone, `communicator` is the one of all ranks, and outlives it; null: whole
  // parameters. The arithmetic takes `threads` threads; its bits are those of one.
  HostWeightUpdate(const Model& model, Optimizer optimizer, collectives::Progress* progress,
                   collectives::Communicator* communicator, int threads)
      : model_(&model),
        optimizer_(std::move(optimizer)),
        progress_(progress),
        communicator_(communicator),
        threads_(threads) {}

  absl::Status Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                     TensorSet& weights) override;
  std::vector<std::string> slot_names() const override;
  absl::StatusOr<const Slots*> FetchSlots() override { return &optimizer_.slots(); }
  absl::Status PutWeights(const TensorSet& weights,
                          collectives::GradientReducer& gradients) override;
  absl::Status PutSlot(size_t s, collectives::GradientReducer& gradients) override;
  absl::Status TakeWeights(collectives::GradientReducer& gradients, TensorSet& weights) override;
  absl::StatusOr<TensorSet> TakeTensors(collectives::GradientReducer& gradients) override;

 private:
  const std::vector<Piece>& pieces() const { return optimizer_.pieces(); }
  // The memory of the gradient of parameter `i`.
  std::span<float> GradientOf(collectives::GradientReducer& gradients, size_t i) const;
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

#endif  // MILLRACE_TRAINER_STRATEGY_HOST_WEIGHT_UPDATE_H_
