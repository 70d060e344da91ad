#include "trainer/loop/auc.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/status.h"
#include "trainer/backend/loss.h"

namespace millrace::trainer {
namespace {

using collectives::Communicator;

// True if a row's target is class 1: its label, or of float32 the class that counts as correct.
bool IsOne(const Loss& loss, const ConstTensorView& target, int64_t row) {
  if (target.dtype != DType::kF32) return LabelAt(target, row) == 1;
  const std::span<const float> values = target.as<float>();
  if (loss.kind == LossKind::kSigmoidCrossEntropy) return values[row] > 0.5f;
  return values[2 * row + 1] > values[2 * row];
}

bool HasNan(const std::vector<double>& scores) {
  return std::ranges::any_of(scores, [](double score) { return std::isnan(score); });
}

// The scores of all ranks, in the order of the ranks.
absl::Status Gather(Communicator& communicator, std::vector<double>& scores) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const auto own = static_cast<int64_t>(scores.size());
  std::vector<int64_t> counts(ranks);
  MILLRACE_RETURN_IF_ERROR(communicator.AllGather(
      {&own, DType::kI64, Shape{1}}, {counts.data(), DType::kI64, Shape{communicator.size()}}));
  const int64_t most = *std::ranges::max_element(counts);
  if (most == 0) return absl::OkStatus();
  scores.resize(most);
  std::vector<double> blocks(ranks * static_cast<size_t>(most));
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllGather({scores.data(), DType::kF64, Shape{most}},
                             {blocks.data(), DType::kF64, Shape{std::ssize(blocks)}}));
  scores.clear();
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto block = blocks.begin() + static_cast<int64_t>(rank) * most;
    scores.insert(scores.end(), block, block + counts[rank]);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsBinary(const Loss& loss) {
  if (loss.kind == LossKind::kSigmoidCrossEntropy) return loss.shape.num_elements() == 1;
  return loss.kind == LossKind::kSoftmaxCrossEntropy && loss.classes() == 2;
}

void ClassScores::Add(const Loss& loss, std::span<const float> output, const StepInput& input) {
  const bool is_softmax = loss.kind == LossKind::kSoftmaxCrossEntropy;
  for (size_t row = 0; row < input.valid.size(); ++row) {
    if (input.valid[row] == 0) continue;
    const double score =
        is_softmax ? double{output[2 * row + 1]} - double{output[2 * row]} : double{output[row]};
    const bool is_one = IsOne(loss, input.targets[0], static_cast<int64_t>(row));
    (is_one ? ones : zeros).push_back(score);
  }
}

double AreaUnderCurve(ClassScores scores) {
  auto& [ones, zeros] = scores;
  if (ones.empty() || zeros.empty() || HasNan(ones) || HasNan(zeros)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::ranges::sort(zeros);
  uint64_t halves = 0;  // a pair in order counts two, a tie one
  for (const double score : ones) {
    const auto [first, last] = std::ranges::equal_range(zeros, score);
    halves += static_cast<uint64_t>((first - zeros.begin()) + (last - zeros.begin()));
  }
  const double pairs = static_cast<double>(ones.size()) * static_cast<double>(zeros.size());
  return static_cast<double>(halves) / (2 * pairs);
}

absl::StatusOr<double> AucOverRanks(Communicator& communicator, ClassScores scores) {
  MILLRACE_RETURN_IF_ERROR(Gather(communicator, scores.ones));
  MILLRACE_RETURN_IF_ERROR(Gather(communicator, scores.zeros));
  return AreaUnderCurve(std::move(scores));
}

}  // namespace millrace::trainer
