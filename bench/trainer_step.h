#ifndef MILLRACE_BENCH_TRAINER_STEP_H_
#define MILLRACE_BENCH_TRAINER_STEP_H_

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/philox.h"
#include "pipeline/text_proto.h"
#include "trainer/backend/backend.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/model/model.pb.h"
#include "trainer/model/parameters.h"
#include "trainer/models.h"
#include "trainer/optimizer/optimizer.h"

// Training steps of a network on one batch, for the trainer's benches.

namespace millrace::bench {

inline double Seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Milliseconds by the clock, and of processor time over the threads.
struct Times {
  double wall = 0;
  double cpu = 0;
};

inline double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Medians of `repeats` times, after a first one.
inline Times Measure(int repeats, int threads, const std::function<void()>& work) {
  std::vector<double> wall;
  std::vector<double> cpu;
  work();
  for (int i = 0; i < repeats; ++i) {
    const double wall_before = Seconds(CLOCK_MONOTONIC);
    const double cpu_before = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    work();
    wall.push_back(1e3 * (Seconds(CLOCK_MONOTONIC) - wall_before));
    cpu.push_back(1e3 * (Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before) / threads);
  }
  return {Median(wall), Median(cpu)};
}

// Ends the program with what went wrong.
inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

// A network that WriteModel knows.
inline trainer::Model ModelOf(const std::string& network) {
  const std::string text = Value(trainer::WriteModel(network, {}));
  trainer::ModelSpec spec;
  Check(pipeline::ParseTextProto(text, network, {}, &spec).status());
  return Value(trainer::BuildModel(spec, [&](int) { return network; }));
}

// Drawn values.
struct Batch {
  Batch(const trainer::Model& model, int64_t rows)
      : shape(model.input_shape(0).Prepend(rows)),
        images(shape.num_elements()),
        labels(rows),
        valid(rows, 1) {
    RandomStream random(RandomKey{});
    for (float& value : images) value = 2 * random.NextFloat() - 1;
    for (int64_t& label : labels) label = static_cast<int64_t>(random.Below(10));
  }
  trainer::StepInput Input() const {
    trainer::StepInput input;
    input.inputs = {{images.data(), DType::kF32, shape}};
    input.targets = {{labels.data(), DType::kI64, Shape{shape[0]}}};
    input.valid = valid;
    input.global_valid_rows = shape[0];
    return input;
  }

  Shape shape;
  std::vector<float> images;
  std::vector<int64_t> labels;
  std::vector<uint8_t> valid;
};

// The tensors of a model, and its updates by SGD.
struct Training {
  explicit Training(const trainer::Model& model)
      : weights(trainer::MakeInitialWeights(model, 1)),
        buffers(trainer::MakeInitialBuffers(model)),
        gradients(trainer::MakeZeros(model)) {
    trainer::OptimizerSpec spec;
    spec.mutable_sgd()->set_momentum(0.9);
    optimizer = std::make_unique<trainer::Optimizer>(spec, model, trainer::MakeSlots(spec, model),
                                                     trainer::WholeParameters(model));
  }
  void Update() {
    ++update.step;
    update.rate = 1e-6;
    for (size_t i = 0; i < weights.size(); ++i) {
      optimizer->Apply(i, update, 1, gradients[i], weights[i]);
    }
  }

  trainer::TensorSet weights;
  trainer::TensorSet buffers;
  trainer::TensorSet gradients;
  std::unique_ptr<trainer::Optimizer> optimizer;
  trainer::UpdateStep update;
};

// Forward, backward and update.
inline void RunStep(trainer::Network& network, const Batch& batch, Training& training) {
  Check(network.Forward(batch.Input()));
  Check(network.Backward([](size_t) { return absl::OkStatus(); }));
  training.Update();
}

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_TRAINER_STEP_H_
