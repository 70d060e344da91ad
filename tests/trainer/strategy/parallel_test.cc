// Ranks as threads train as one rank does.

#include <gmock/gmock.h>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

const char kNet[] = R"(layer { input_layer { shape: [10, 10, 1] } }
  layer { convolution { filters: 8 kernel: 3 } } layer { relu {} } layer { pool { kernel: 2 } }
  layer { fully_connected { outputs: 16 } } layer { relu {} }
  layer { fully_connected { outputs: 4 } } layer { softmax_cross_entropy {} })";

struct Trained {
  std::vector<double> losses;
  TensorSet weights;
};

// Ten steps of plain SGD on batches whose last one is ragged; rank k takes rows
// [k * rows / world, (k + 1) * rows / world).
absl::Status TrainRank(collectives::Communicator& communicator, const Model& model,
                       Trained& trained) {
  std::vector<collectives::GradientSpec> specs;
  for (size_t i = model.parameters.size(); i-- > 0;) {
    specs.push_back({model.parameters[i].name, model.parameters[i].shape});
  }
  collectives::ReducerOptions options;
  options.bucket_bytes = 4096;
  options.edge_bucket_bytes = 256;
  MILLRACE_ASSIGN_OR_RETURN(auto reducer,
                            collectives::GradientReducer::Make(communicator, specs, options));
  const size_t count = specs.size();
  std::vector<std::span<float>> gradients;
  for (size_t i = 0; i < count; ++i)
    gradients.push_back(reducer->gradient(count - 1 - i).as<float>());
  trained.weights = MakeInitialWeights(model, 11);
  MILLRACE_ASSIGN_OR_RETURN(auto backend,
                            MakeOneDnnBackend(model, trained.weights, kNoBuffers, gradients, 1));
  for (int step = 0; step < 10; ++step) {
    const Samples samples(model, 16, step == 9 ? 9 : 0, 100 + step);
    const int64_t begin = communicator.rank() * 16 / communicator.size();
    const int64_t end = (communicator.rank() + 1) * 16 / communicator.size();
    MILLRACE_ASSIGN_OR_RETURN(
        const StepResult result,
        TrainStep(*backend, samples.Slice(begin, end, samples.num_valid()),
                  [&](size_t i) { return reducer->MarkReady(count - 1 - i); }));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    double loss = result.loss_sum / static_cast<double>(samples.num_valid());
    MILLRACE_RETURN_IF_ERROR(
        communicator.AllReduce({&loss, DType::kF64, Shape{1}}, collectives::ReduceOp::kSum));
    trained.losses.push_back(loss);
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < gradients[i].size(); ++k) {
        trained.weights[i][k] -= 0.1f * gradients[i][k];
      }
    }
  }
  return absl::OkStatus();
}

std::vector<Trained> TrainWith(int world, const Model& model) {
  std::vector<Trained> trained(world);
  const absl::Status status =
      collectives::RunRanks(world, [&](collectives::Communicator& communicator) {
        return TrainRank(communicator, model, trained[communicator.rank()]);
      });
  EXPECT_TRUE(status.ok()) << status;
  return trained;
}

// Sums over rows are split differently, so float32 rounds differently: about 1e-7 relative per
// step, over ten steps at a rate that amplifies little.
// S-TRAIN-2.
TEST(ParallelTest, TwoAndThreeRanksTrainAsOneDoes) {
  const Model model = MakeModel(kNet);
  const std::vector<Trained> one = TrainWith(1, model);
  for (const int world : {2, 3}) {
    const std::vector<Trained> many = TrainWith(world, model);
    ASSERT_EQ(many[0].losses.size(), one[0].losses.size());
    for (size_t step = 0; step < one[0].losses.size(); ++step) {
      EXPECT_NEAR(many[0].losses[step], one[0].losses[step], 2e-6) << step;
    }
    for (size_t i = 0; i < model.parameters.size(); ++i) {
      for (size_t k = 0; k < one[0].weights[i].size(); ++k) {
        ASSERT_NEAR(many[0].weights[i][k], one[0].weights[i][k], 2e-6)
            << model.parameters[i].name << "[" << k << "]";
      }
    }
  }
}

// S-TRAIN-2.
TEST(ParallelTest, AllRanksHoldTheSameBits) {
  const Model model = MakeModel(kNet);
  const std::vector<Trained> trained = TrainWith(3, model);
  EXPECT_EQ(Digest(trained[1].weights), Digest(trained[0].weights));
  EXPECT_EQ(Digest(trained[2].weights), Digest(trained[0].weights));
}

TEST(ParallelTest, TheLossFalls) {
  const Model model = MakeModel(kNet);
  const Samples samples(model, 32, 0, 1);
  TensorSet weights = MakeInitialWeights(model, 1);
  TensorSet gradients = MakeZeros(model);
  auto backend = MakeOneDnnBackend(model, weights, kNoBuffers, Spans(gradients), 2);
  ASSERT_TRUE(backend.ok());
  double first = 0;
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    const auto result =
        TrainStep(**backend, samples.All(), [](size_t) { return absl::OkStatus(); });
    ASSERT_TRUE(result.ok());
    if (step == 0) first = result->loss_sum;
    last = result->loss_sum;
    for (size_t i = 0; i < weights.size(); ++i) {
      for (size_t k = 0; k < weights[i].size(); ++k) weights[i][k] -= 0.1f * gradients[i][k];
    }
  }
  EXPECT_LT(last, first / 10) << "it can learn 32 samples by heart";
}

}  // namespace
}  // namespace millrace::trainer
