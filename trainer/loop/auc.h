#ifndef MILLRACE_TRAINER_LOOP_AUC_H_
#define MILLRACE_TRAINER_LOOP_AUC_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "trainer/backend/backend.h"
#include "trainer/model/loss.h"

// The area under the receiver operating characteristic: the probability that a sample of class 1
// has a larger score than one of class 0, where a tie counts half (Hanley and McNeil 1982). It is
// the quotient of two counts, so it has the same bits for every order and division of the samples.

namespace millrace::trainer {

// True if `loss` tells two classes apart: a sigmoid of one value, or a softmax of two.
bool IsBinary(const Loss& loss);

// The scores of samples, by class.
struct ClassScores {
  std::vector<double> ones;
  std::vector<double> zeros;

  // Adds the valid rows of a batch. `loss`, which is binary, is the model's first; `output` is the
  // value that it reads. The score is the logit of class 1, less that of class 0 if it has one.
  void Add(const Loss& loss, std::span<const float> output, const StepInput& input);
};

// The area for the samples; NaN if a class has none, or a score is NaN.
double AreaUnderCurve(ClassScores scores);

// The same for the samples of all ranks. Collective; every rank holds all scores meanwhile.
absl::StatusOr<double> AucOverRanks(collectives::Communicator& communicator, ClassScores scores);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_AUC_H_
