#ifndef MILLRACE_TRAINER_LOOP_BATCH_STATISTICS_H_
#define MILLRACE_TRAINER_LOOP_BATCH_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// The statistics of the batches of one step, which the model's buffers follow. Since buffers follow
// the means over all ranks, they have the same bits everywhere. A value type.
class BatchStatistics {
 public:
  // Takes the statistics of the next batch: those of this rank's `rows` valid rows.
  void Add(const TensorSet& statistics, int64_t rows);

  // Replaces the statistics of each batch by their mean over all ranks, by valid rows, unless an
  // earlier call has. Collective, unless there is no statistic; every rank has added as many
  // batches.
  absl::Status AverageOverRanks(collectives::Communicator& communicator);

  // The sums of the only batch, for Merge; empty if there is no statistic.
  std::vector<double> sums() const { return sums_.empty() ? std::vector<double>() : sums_[0]; }
  // Adds the sums of another rank to those of the only batch; Average makes means of them all.
  void Merge(const std::vector<double>& sums);
  void Average();

  // Lets `buffers` follow each batch.
  void Update(const Model& model, TensorSet& buffers) const;

 private:
  // Of each batch: the valid rows, and the statistics times the rows, one after the other; of the
  // first few, which are averaged, the statistics themselves.
  std::vector<std::vector<double>> sums_;
  size_t averaged_ = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_BATCH_STATISTICS_H_
