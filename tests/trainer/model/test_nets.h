#ifndef MILLRACE_TESTS_TRAINER_MODEL_TEST_NETS_H_
#define MILLRACE_TESTS_TRAINER_MODEL_TEST_NETS_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/status.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/loss.h"
#include "trainer/model/model.h"
#include "trainer/model/model.pb.h"

// Small models and samples for the trainer's tests.

namespace millrace::trainer {

inline Model MakeModel(const std::string& text, ModelEnd end = ModelEnd::kLosses) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  absl::StatusOr<Model> model = BuildModel(
      spec, [](int) { return std::string("test"); }, end);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : Model();
}

// Samples of a model with their own memory; the last ones may be padding.
struct Samples {
  Samples(const Model& model, int64_t rows, int64_t padding, uint64_t seed)
      : num_losses(model.losses.size()),
        shape(model.input_shape(0).Prepend(rows)),
        images(shape.num_elements()),
        labels(rows),
        valid(rows, 1) {
    RandomKey key;
    key.seed = seed;
    RandomStream random(key);
    for (float& value : images) value = 2 * random.NextFloat() - 1;
    for (int64_t& label : labels)
      label =
          static_cast<int64_t>(random.Below(std::max<int64_t>(1, model.losses[0].num_labels())));
    for (int64_t i = 0; i < padding; ++i) valid[rows - 1 - i] = 0;
  }

  int64_t num_valid() const {
    int64_t count = 0;
    for (uint8_t one : valid) count += one;
    return count;
  }
  // Rows [begin, end) as one rank's part of a batch with `global_valid` rows.
  StepInput Slice(int64_t begin, int64_t end, int64_t global_valid) const {
    const int64_t row = shape.num_elements() / shape[0];
    std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
    extents[0] = end - begin;
    StepInput input;
    input.inputs = {{images.data() + begin * row, DType::kF32, Shape(extents)}};
    input.targets.assign(num_losses, {labels.data() + begin, DType::kI64, Shape{end - begin}});
    input.valid = std::span(valid).subspan(begin, end - begin);
    input.global_valid_rows = global_valid;
    return input;
  }
  StepInput All() const { return Slice(0, shape[0], num_valid()); }

  size_t num_losses;
  Shape shape;
  std::vector<float> images;
  std::vector<int64_t> labels;
  std::vector<uint8_t> valid;
};

// The buffers of models without a batch norm.
inline const TensorSet kNoBuffers;

inline std::vector<std::span<float>> Spans(TensorSet& tensors) {
  return {tensors.begin(), tensors.end()};
}

// A Network::GradientReady that does nothing.
inline absl::Status Ignore(size_t) { return absl::OkStatus(); }

// The results of a forward pass.
inline absl::StatusOr<StepResult> ForwardResult(Network& network, const StepInput& input) {
  MILLRACE_RETURN_IF_ERROR(network.Forward(input));
  return network.Result();
}

// The gradient of output `i` of the last forward pass, of `input`, by its loss.
inline std::vector<float> LossGradient(const Model& model, Network& network, size_t i,
                                       const StepInput& input) {
  const auto output = network.output(i);
  if (!output.ok()) return {};
  std::vector<float> gradient(output->size());
  ComputeLoss(model.losses[i], *output, input.targets[i], input, gradient);
  return gradient;
}

// One forward and backward pass.
inline absl::StatusOr<StepResult> TrainStep(Backend& backend, const StepInput& input,
                                            const Network::GradientReady& ready) {
  const auto rows = static_cast<int64_t>(input.valid.size());
  MILLRACE_ASSIGN_OR_RETURN(Network* const network, backend.Compile(rows, NetworkUse::kTraining));
  MILLRACE_RETURN_IF_ERROR(network->Forward(input));
  MILLRACE_RETURN_IF_ERROR(network->Backward(ready));
  return network->Result();
}

inline absl::StatusOr<StepResult> EvaluateStep(Backend& backend, const StepInput& input) {
  const auto rows = static_cast<int64_t>(input.valid.size());
  MILLRACE_ASSIGN_OR_RETURN(Network* const network, backend.Compile(rows, NetworkUse::kEvaluation));
  return ForwardResult(*network, input);
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_MODEL_TEST_NETS_H_
