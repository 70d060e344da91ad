// bench_optimizer_rows OPTIMIZER THREADS TURNS: the update of ResNet-50's parameters by an
// optimizer, as the training loop makes it, beside a loop over arrays of the same sizes that reads
// and writes as many bytes. OPTIMIZER is a text of job.proto's OptimizerSpec. Prints one JSON
// object with the median rates and the median of the turns' own ratios.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "trainer/compute/threads.h"
#include "trainer/job/job.pb.h"
#include "trainer/job/optimizer_fields.h"
#include "trainer/job/reduction.h"
#include "trainer/model/model.h"
#include "trainer/model/model.pb.h"
#include "trainer/models.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/strategy/strategy.h"

namespace millrace::bench {
namespace {

using trainer::Job;
using trainer::Model;
using trainer::TensorSet;

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double SpreadOf(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax_element(values);
  return (*most - *least) / Median(values);
}

absl::StatusOr<Model> MakeResNet50() {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, trainer::WriteModel("resnet50", {}));
  trainer::ModelSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(text, &spec)) {
    return absl::InternalError("the text of resnet50 does not parse");
  }
  return trainer::BuildModel(spec, [](int) { return std::string("resnet50"); });
}

absl::StatusOr<Job> MakeJob(const std::string& optimizer) {
  Job job;
  if (!google::protobuf::TextFormat::ParseFromString(optimizer, job.mutable_optimizer())) {
    return absl::InvalidArgumentError("the optimizer does not parse: " + optimizer);
  }
  trainer::FillDefaults(*job.mutable_optimizer());
  trainer::FillDefaults(*job.mutable_reduction());
  return job;
}

// Arrays as long as all parameters together, and the loop that the update is compared with.
class Limit {
 public:
  // `slots` arrays are read and written besides the weights; with `norms` there is a pass before
  // that reads the weights and the gradients.
  Limit(size_t count, size_t slots, bool norms, int threads)
      : norms_(norms), threads_(threads), gradient_(count, 1e-6f), written_(slots + 1) {
    for (std::vector<float>& array : written_) array.assign(count, 0.5f);
  }

  double bytes() const {
    const size_t streams = (norms_ ? 2 : 0) + 1 + 2 * written_.size();
    return static_cast<double>(sizeof(float) * gradient_.size() * streams);
  }

  void Run() {
    const auto count = static_cast<int64_t>(gradient_.size());
    trainer::RunOnThreads(threads_, [&](int thread, int of) {
      const auto [begin, end] = trainer::PartOf(count, thread, of);
      if (norms_) Read(begin, end);
      if (written_.size() == 2) {
        Write<2>(begin, end);
      } else {
        Write<3>(begin, end);
      }
    });
  }

 private:
  void Read(int64_t begin, int64_t end) {
    const float* const __restrict a = gradient_.data();
    const float* const __restrict b = written_[0].data();
    constexpr int64_t kLanes = 64;
    float sums[kLanes] = {};
    for (int64_t k = begin; k + kLanes <= end; k += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[k + lane] + b[k + lane];
    }
    read_ = read_ + std::accumulate(sums, sums + kLanes, 0.0f);
  }

  template <int kArrays>
  void Write(int64_t begin, int64_t end) {
    const float* const __restrict g = gradient_.data();
    float* const __restrict a = written_[0].data();
    float* const __restrict b = written_[1].data();
    float* const __restrict c = written_[kArrays - 1].data();
    for (int64_t k = begin; k < end; ++k) {
      a[k] += g[k];
      b[k] += g[k];
      if constexpr (kArrays == 3) c[k] += g[k];
    }
  }

  const bool norms_;
  const int threads_;
  const std::vector<float> gradient_;
  std::vector<std::vector<float>> written_;
  std::atomic<float> read_ = 0;  // so that the pass is not left out
};

// Gradients grow and shrink from turn to turn, as those of a training do.
absl::Status FillGradients(trainer::Strategy& strategy, int turn) {
  strategy.SetRows(1);
  const std::vector<std::span<float>> gradients = strategy.gradients();
  for (size_t i = gradients.size(); i-- > 0;) {
    const auto scale = static_cast<float>(1e-3 * (1 + 0.1 * std::sin(turn * 1.7 + i)));
    for (size_t k = 0; k < gradients[i].size(); ++k) {
      gradients[i][k] = scale * (static_cast<float>(k % 17) - 8);
    }
    MILLRACE_RETURN_IF_ERROR(strategy.MarkReady(i));
  }
  return strategy.Finish();
}

absl::Status Measure(const std::string& optimizer, int threads, int turns) {
  MILLRACE_ASSIGN_OR_RETURN(const Model model, MakeResNet50());
  MILLRACE_ASSIGN_OR_RETURN(const Job job, MakeJob(optimizer));
  const auto communicator = collectives::MakeSingle();
  trainer::StrategyOptions options;
  options.compute_threads = threads;
  trainer::Slots slots = trainer::MakeSlots(job.optimizer(), model);
  Limit limit(static_cast<size_t>(model.num_parameters()), slots.size(), job.optimizer().has_lars(),
              threads);
  MILLRACE_ASSIGN_OR_RETURN(const auto strategy,
                            trainer::MakeStrategy(*communicator, model, job.reduction(),
                                                  job.optimizer(), std::move(slots), options));
  TensorSet weights = trainer::MakeInitialWeights(model, 1);
  std::vector<double> updates;
  std::vector<double> limits;
  std::vector<double> ratios;
  for (int turn = -1; turn < turns; ++turn) {  // the first is not counted
    MILLRACE_RETURN_IF_ERROR(FillGradients(*strategy, turn));
    absl::Status status;
    const double update = SecondsOf([&] {
      const auto count = static_cast<uint64_t>(turn + 2);
      status = strategy->Apply(0, {turn + 1, count, 1e-3}, weights).status();
    });
    MILLRACE_RETURN_IF_ERROR(status);
    const double loop = SecondsOf([&] { limit.Run(); });
    if (turn < 0) continue;
    updates.push_back(limit.bytes() / update);
    limits.push_back(limit.bytes() / loop);
    ratios.push_back(loop / update);
  }
  const auto [least, most] = std::ranges::minmax_element(ratios);
  absl::PrintF(
      "{\"update\": %.4g, \"limit\": %.4g, \"ratio\": %.4f, \"least\": %.4f, \"most\": %.4f, "
      "\"update_spread\": %.4f, \"limit_spread\": %.4f, \"turns\": %d}\n",
      Median(updates), Median(limits), Median(ratios), *least, *most, SpreadOf(updates),
      SpreadOf(limits), turns);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_optimizer_rows OPTIMIZER THREADS TURNS\n");
    return 2;
  }
  const absl::Status status = Measure(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
