#include "tests/trainer/backend/cuda/order/recorded_steps.h"

#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "collectives/factory.h"
#include "pipeline/device/handoff.h"
#include "tests/trainer/backend/cuda/order/recording_device.h"
#include "tests/trainer/backend/cuda/order/recording_feed.h"
#include "tests/trainer/backend/cuda/order/recording_nccl.h"
#include "trainer/backend/cuda/backend.h"
#include "trainer/backend/cuda/network.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/job/job.pb.h"
#include "trainer/job/optimizer_fields.h"
#include "trainer/job/reduction.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/strategy/strategy.h"

namespace millrace::trainer::cuda::order {
namespace {

using collectives::Communicator;

DType TypeOf(Precision precision) {
  if (precision == Precision::kFloat32) return DType::kF32;
  return precision == Precision::kFloat16 ? DType::kF16 : DType::kBF16;
}

Schema SchemaOf(const Model& model) {
  std::vector<Field> fields;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    fields.push_back({model.inputs[i].field, model.inputs[i].dtype, model.input_shape(i)});
  }
  for (const Loss& loss : model.losses) fields.push_back({loss.target, DType::kI64, Shape{}});
  return Schema(std::move(fields));
}

std::vector<Use> ToUses(const std::vector<MemoryRange>& ranges) {
  std::vector<Use> uses;
  for (const MemoryRange& range : ranges) {
    uses.push_back({range.memory, range.bytes, range.value});
  }
  return uses;
}

// One rank.
class RankSteps {
 public:
  RankSteps(const Model& model, const StepOptions& options, Communicator& bootstrap)
      : model_(model),
        options_(options),
        nccl_(bootstrap, recording_, device_.stream(),
              2 * static_cast<int>(model.parameters.size())) {}

  absl::Status Open();
  absl::Status Step(uint64_t number);
  RecordedRank Done() { return {recording_.log(), recording_.undeclared()}; }

 private:
  absl::Status OpenStrategy();
  absl::Status OpenNetwork();
  absl::Status OpenFeed();

  void Enter(const Operation& operation);
  void ForgetStep();
  StepInput InputOf(const pipeline::DeviceBatch& batch, uint64_t number) const;
  absl::Status MarkReady(size_t parameter);

  const Model& model_;
  const StepOptions& options_;
  Recording recording_;
  RecordingDevice device_{recording_};
  const int stream_ = Recording::ToStream(device_.stream())->number;
  RecordingCommunicator nccl_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Backend> backend_;
  Network* network_ = nullptr;
  std::unique_ptr<pipeline::DeviceFeed> feed_;
  std::optional<pipeline::DeviceBatch> batch_;                       // of the running forward pass
  std::vector<std::unique_ptr<void, decltype(&std::free)>> fields_;  // on the host: zeros
  TensorSet weights_;                                                // those of the device count
};

absl::Status RankSteps::Open() {
  MILLRACE_RETURN_IF_ERROR(OpenStrategy());
  MILLRACE_RETURN_IF_ERROR(OpenNetwork());
  return OpenFeed();
}

absl::Status RankSteps::OpenStrategy() {
  Job job;
  if (!google::protobuf::TextFormat::ParseFromString(options_.job, &job) ||
      CheckReduction(job.reduction()) || CheckOptimizer(job.optimizer())) {
    return absl::InvalidArgumentError(options_.job);
  }
  FillDefaults(*job.mutable_reduction());
  FillDefaults(*job.mutable_optimizer());
  StrategyOptions options;
  options.steps = static_cast<uint64_t>(options_.steps);
  options.compute_threads = 0;
  options.device = &device_;
  options.compute = TypeOf(options_.precision);
  MILLRACE_ASSIGN_OR_RETURN(strategy_, MakeStrategy(nccl_, model_, job.reduction(), job.optimizer(),
                                                    MakeSlots(job.optimizer(), model_), options));
  return absl::OkStatus();
}

absl::Status RankSteps::OpenNetwork() {
  BackendOptions options(1);
  options.precision = options_.precision;
  NetworkOptions more = options_.network;
  more.on_operation = [this](const Operation& operation) { Enter(operation); };
  MILLRACE_ASSIGN_OR_RETURN(
      backend_, MakeDeviceBackend(device_, model_, strategy_->store()->tensors(), options, more));
  MILLRACE_ASSIGN_OR_RETURN(network_, backend_->Compile(options_.rows, NetworkUse::kTraining));
  return absl::OkStatus();
}

absl::Status RankSteps::OpenFeed() {
  const Schema schema = SchemaOf(model_);
  for (const Field& field : schema.fields()) {
    const auto row = static_cast<size_t>(field.shape.num_elements()) * SizeOf(field.dtype);
    fields_.emplace_back(std::calloc(static_cast<size_t>(options_.rows), row), &std::free);
  }
  MILLRACE_ASSIGN_OR_RETURN(
      auto handoff,
      pipeline::Handoff::Make(std::make_shared<RecordingFeedDevice>(recording_),
                              std::make_unique<RecordedPipeline>(recording_, schema, options_.rows),
                              {.ring = options_.ring}));
  feed_ = std::make_unique<pipeline::DeviceFeed>(std::move(handoff));
  return absl::OkStatus();
}

// Fields of the batch are not among what an operation declares.
void RankSteps::Enter(const Operation& operation) {
  Uses declared = {ToUses(operation.reads), ToUses(operation.writes)};
  for (size_t i = 0; batch_.has_value() && i < batch_->names().size(); ++i) {
    declared.reads.push_back({batch_->tensor(i).data, batch_->tensor(i).size_bytes(), "batch"});
  }
  recording_.Enter(operation.name, declared);
}

void RankSteps::ForgetStep() {
  const Program& program = static_cast<DeviceNetwork*>(network_)->program();
  const auto forget = [this](const Segment& segment) {
    for (const Operation& operation : segment.operations) {
      for (const MemoryRange& range : operation.writes)
        recording_.Forget(range.memory, range.bytes);
    }
  };
  forget(program.inputs);
  for (const Segment& segment : program.forward) forget(segment);
  forget(program.losses);
  for (const Segment& segment : program.backward) forget(segment);
}

StepInput RankSteps::InputOf(const pipeline::DeviceBatch& batch, uint64_t number) const {
  StepInput input;
  for (size_t i = 0; i < batch.names().size(); ++i) {
    const pipeline::DeviceTensorView& field = batch.tensor(i);
    const bool is_input = i < model_.inputs.size();
    (is_input ? input.inputs : input.targets)
        .push_back({fields_[i].get(), field.dtype, field.shape});
    (is_input ? input.device_inputs : input.device_targets).push_back(field.data);
  }
  input.valid = batch.valid();
  input.ids = batch.ids();
  input.global_valid_rows = 1;
  input.step = number;
  return input;
}

absl::Status RankSteps::MarkReady(size_t parameter) {
  const std::span<float> gradient = strategy_->gradients()[parameter];
  recording_.Enter("", {});
  recording_.MarkReady(model_.parameters[parameter].name, gradient.data(), gradient.size_bytes(),
                       stream_);
  return strategy_->MarkReady(parameter);
}

// As the loop does it.
absl::Status RankSteps::Step(uint64_t number) {
  recording_.Enter("", {});
  ForgetStep();
  strategy_->SetRows(options_.rows);
  MILLRACE_ASSIGN_OR_RETURN(batch_, feed_->Next());
  MILLRACE_RETURN_IF_ERROR(batch_->WaitOn(device_.stream()));
  MILLRACE_RETURN_IF_ERROR(network_->Forward(InputOf(*batch_, number)));
  MILLRACE_RETURN_IF_ERROR(batch_->RecordUse(device_.stream()));
  batch_.reset();
  MILLRACE_RETURN_IF_ERROR(
      network_->Backward([this](size_t parameter) { return MarkReady(parameter); }));
  recording_.Enter("", {});
  MILLRACE_RETURN_IF_ERROR(network_->Result().status());
  device_.ReadByHost();
  MILLRACE_RETURN_IF_ERROR(strategy_->Finish());
  for (size_t i = 0; i < strategy_->num_ready(); ++i) {
    const UpdateStep update = {static_cast<int64_t>(number), number + 1, 0.1};
    MILLRACE_RETURN_IF_ERROR(strategy_->Apply(i, update, weights_).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordedRank> RecordRank(const Model& model, const StepOptions& options,
                                        Communicator& bootstrap) {
  RankSteps rank(model, options, bootstrap);
  MILLRACE_RETURN_IF_ERROR(rank.Open());
  for (int step = 0; step < options.steps; ++step) {
    MILLRACE_RETURN_IF_ERROR(rank.Step(static_cast<uint64_t>(step)));
  }
  return rank.Done();
}

}  // namespace

absl::StatusOr<std::vector<RecordedRank>> RecordSteps(const Model& model,
                                                      const StepOptions& options) {
  std::vector<RecordedRank> ranks(static_cast<size_t>(options.ranks));
  const absl::Status status = collectives::RunRanks(options.ranks, [&](Communicator& bootstrap) {
    absl::StatusOr<RecordedRank> recorded = RecordRank(model, options, bootstrap);
    if (recorded.ok()) ranks[static_cast<size_t>(bootstrap.rank())] = *std::move(recorded);
    return recorded.status();
  });
  MILLRACE_RETURN_IF_ERROR(status);
  return ranks;
}

}  // namespace millrace::trainer::cuda::order
