#include "trainer/loop/batch_statistics.h"

#include "base/status.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {

void BatchStatistics::Add(const TensorSet& statistics, int64_t rows) {
  if (statistics.empty()) return;
  std::vector<double>& sums = sums_.emplace_back();
  const auto weight = static_cast<double>(rows);
  sums.push_back(weight);
  for (const std::vector<float>& statistic : statistics) {
    for (const float value : statistic) sums.push_back(rows > 0 ? value * weight : 0);
  }
}

absl::Status BatchStatistics::AverageOverRanks(collectives::Communicator& communicator) {
  for (size_t batch = averaged_; batch < sums_.size(); ++batch) {
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<double>(sums_[batch])));
  }
  Average();
  return absl::OkStatus();
}

void BatchStatistics::Merge(const std::vector<double>& sums) {
  if (sums_.empty()) {
    sums_.push_back(sums);
    return;
  }
  for (size_t i = 0; i < sums.size(); ++i) sums_[0][i] += sums[i];
}

void BatchStatistics::Average() {
  for (; averaged_ < sums_.size(); ++averaged_) {
    std::vector<double>& sums = sums_[averaged_];
    for (size_t i = 1; i < sums.size() && sums[0] > 0; ++i) sums[i] /= sums[0];
  }
}

void BatchStatistics::Update(const Model& model, TensorSet& buffers) const {
  for (const std::vector<double>& means : sums_) {
    if (means[0] == 0) continue;  // a batch of padding
    size_t next = 1;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const double momentum = model.buffers[i].momentum;
      for (float& value : buffers[i]) {
        value = static_cast<float>((1 - momentum) * value + momentum * means[next++]);
      }
    }
  }
}

}  // namespace millrace::trainer
