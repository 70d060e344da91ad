#include "trainer/backend/cuda/network.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes_text.h"
#include "base/status.h"
#include "trainer/backend/cuda/host_values.h"
#include "trainer/backend/cuda/layer_compiler.h"

namespace millrace::trainer::cuda {
namespace {

std::string UseText(NetworkUse use) {
  if (IsTraining(use)) return "training";
  return use == NetworkUse::kEvaluation ? "evaluation" : "prediction";
}

// No memory for a network.
absl::Status NoMemory(const absl::Status& status, const NetworkParts& parts) {
  if (!absl::IsResourceExhausted(status)) return status;
  const size_t all = parts.buffers.arena_bytes();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a network of ", parts.compiled.rows, " rows for ", UseText(parts.compiled.use), " needs ",
      BytesText(static_cast<double>(all)), " of the device's memory (",
      BytesText(static_cast<double>(parts.buffers.kept_bytes())),
      " for scratch and workspaces, the rest for values between layers and their gradients): ",
      status.message()));
}

bool RunsIn(const Operation& operation, When most) { return operation.when <= most; }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceNetwork>> DeviceNetwork::Make(
    Device& device, SharedProducts& products, const Compiled& compiled,
    const DeviceTensors& tensors, const BackendOptions& options, const NetworkOptions& more) {
  MILLRACE_RETURN_IF_ERROR(products.Foresee([&] {
    NetworkParts draft(device, products, compiled, tensors, options);
    return CompileProgram(draft);
  }));
  auto parts = std::make_unique<NetworkParts>(device, products, compiled, tensors, options);
  MILLRACE_RETURN_IF_ERROR(CompileProgram(*parts));
  std::unique_ptr<DeviceNetwork> network(new DeviceNetwork(std::move(parts), more));
  MILLRACE_RETURN_IF_ERROR(network->Allocate());
  return network;
}

DeviceNetwork::DeviceNetwork(std::unique_ptr<NetworkParts> parts, const NetworkOptions& more)
    : parts_(std::move(parts)),
      more_(more),
      statistics_(MakeInitialBuffers(parts_->compiled.model)),
      outputs_(model().losses.size()),
      given_(model().losses.size()),
      input_gradients_(model().inputs.size()) {}

absl::Status DeviceNetwork::Allocate() {
  parts_->buffers.Plan(more_.recycles);
  absl::StatusOr<Memory> arena = device().Allocate(parts_->buffers.arena_bytes());
  if (!arena.ok()) return NoMemory(arena.status(), *parts_);
  arena_ = *std::move(arena);
  parts_->buffers.Place(arena_.get());
  program_ = parts_->program.Bind();
  forward_ = Group(program_.forward);
  backward_ = Group(program_.backward);
  MILLRACE_RETURN_IF_ERROR(AllocateHost());
  return WriteScales();
}

bool DeviceNetwork::EndsGraph(const Segment& segment) const {
  if (segment.exchange || more_.graph_ends.empty()) return true;
  return std::ranges::any_of(segment.gradients, [&](int parameter) {
    return std::ranges::find(more_.graph_ends, parameter) != more_.graph_ends.end();
  });
}

std::vector<DeviceNetwork::Runnable> DeviceNetwork::Group(
    const std::vector<Segment>& segments) const {
  std::vector<Runnable> groups;
  bool is_ended = true;
  for (const Segment& segment : segments) {
    if (is_ended) groups.emplace_back();
    groups.back().segments.push_back(&segment);
    is_ended = EndsGraph(segment);
  }
  return groups;
}

absl::Status DeviceNetwork::AllocateHost() {
  int64_t channels = 0;
  for (const auto* const phase : {&program_.forward, &program_.backward}) {
    for (const Segment& segment : *phase) {
      if (segment.exchange) channels = std::max(channels, segment.exchange->channels);
    }
  }
  const size_t sums = (1 + 2 * static_cast<size_t>(channels)) * sizeof(double);
  MILLRACE_ASSIGN_OR_RETURN(parts_->batch.host, device().AllocateHost(parts_->batch.whole.bytes));
  MILLRACE_ASSIGN_OR_RETURN(parts_->results.host, device().AllocateHost(std::max<size_t>(
                                                      1, parts_->results.whole.bytes)));
  MILLRACE_ASSIGN_OR_RETURN(sums_, device().AllocateHost(sums));
  MILLRACE_ASSIGN_OR_RETURN(batch_copied_, device().MakeMark());
  MILLRACE_ASSIGN_OR_RETURN(results_copied_, device().MakeMark());
  MILLRACE_ASSIGN_OR_RETURN(sums_copied_, device().MakeMark());
  return absl::OkStatus();
}

absl::Status DeviceNetwork::WriteScales() {
  for (size_t i = 0; i < model().inputs.size(); ++i) {
    const Part& place = parts_->input_scales[i];
    if (!place) continue;
    const std::vector<float> scales = ScalesOf(model().inputs[i]);
    MILLRACE_RETURN_IF_ERROR(device().Copy(parts_->buffers.At(place), scales.data(), place.bytes));
    MILLRACE_RETURN_IF_ERROR(device().Synchronize());
  }
  return absl::OkStatus();
}

absl::Status DeviceNetwork::Forward(const StepInput& input) {
  return device().OnDevice([&] { return DoForward(input); });
}

absl::Status DeviceNetwork::Backward(const GradientReady& ready) {
  return device().OnDevice([&] { return DoBackward(ready); });
}

absl::Status DeviceNetwork::DoForward(const StepInput& input) {
  MILLRACE_RETURN_IF_ERROR(CheckStepInput(model(), input, parts_->compiled.use));
  if (static_cast<int64_t>(input.valid.size()) != parts_->compiled.rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", input.valid.size(), " rows for a network of ", parts_->compiled.rows));
  }
  parts_->step = input;
  for (auto& output : outputs_) output.reset();
  for (auto& gradient : given_) gradient.reset();
  MILLRACE_RETURN_IF_ERROR(WriteBatch());
  MILLRACE_RETURN_IF_ERROR(RunOperations(program_.inputs, When::kAlways));
  MILLRACE_RETURN_IF_ERROR(device().Record(*batch_copied_));
  if (more_.captures) MILLRACE_RETURN_IF_ERROR(CaptureAll(forward_, When::kAlways));
  for (Runnable& runnable : forward_) {
    MILLRACE_RETURN_IF_ERROR(Run(runnable, When::kAlways));
  }
  MILLRACE_RETURN_IF_ERROR(RunOperations(program_.losses, When::kAlways));
  const ResultParts& results = parts_->results;
  if (results.whole.bytes > 0) {
    MILLRACE_RETURN_IF_ERROR(
        device().Copy(results.host.get(), parts_->buffers.At(results.whole), results.whole.bytes));
  }
  return device().Record(*results_copied_);
}

// The copy of the step before reads the same memory.
absl::Status DeviceNetwork::WriteBatch() {
  MILLRACE_RETURN_IF_ERROR(device().Wait(*batch_copied_));
  WriteStep(parts_->step, parts_->batch.host.get());
  return absl::OkStatus();
}

absl::StatusOr<StepResult> DeviceNetwork::Result() {
  MILLRACE_RETURN_IF_ERROR(device().Wait(*results_copied_));
  const ResultParts& results = parts_->results;
  const std::byte* const host = results.host.get();
  for (size_t i = 0; i < results.statistics.size(); ++i) {
    const Part& place = results.statistics[i];
    std::memcpy(statistics_[i].data(), host + place.begin, place.bytes);
  }
  return ReadResult(host, results.losses.size());
}

absl::Status DeviceNetwork::RunOperations(const Segment& segment, When most) {
  for (const Operation& operation : segment.operations) {
    if (!RunsIn(operation, most)) continue;
    if (more_.on_operation) more_.on_operation(operation);
    MILLRACE_RETURN_IF_ERROR(operation.run(device()));
  }
  return absl::OkStatus();
}

absl::Status DeviceNetwork::RunOperations(const Runnable& runnable, When most) {
  for (const Segment* const segment : runnable.segments) {
    MILLRACE_RETURN_IF_ERROR(RunOperations(*segment, most));
  }
  return absl::OkStatus();
}

// The first time, work is not captured, so that libraries load their code.
absl::Status DeviceNetwork::Run(Runnable& runnable, When most) {
  const auto kind = static_cast<size_t>(most);
  if (runnable.graphs[kind] != nullptr) {
    MILLRACE_RETURN_IF_ERROR(device().Launch(*runnable.graphs[kind]));
  } else {
    MILLRACE_RETURN_IF_ERROR(RunOperations(runnable, most));
    runnable.has_run[kind] = true;
  }
  const std::optional<RankSums>& sums = runnable.segments.back()->exchange;
  return sums ? Exchange(*sums) : absl::OkStatus();
}

// Before the pass begins: amid a backward pass sums over ranks are under way, whose kernels wait
// for other ranks, while a driver that makes a graph may wait for the device.
absl::Status DeviceNetwork::CaptureAll(std::vector<Runnable>& pass, When most) {
  const auto kind = static_cast<size_t>(most);
  for (Runnable& runnable : pass) {
    if (!runnable.has_run[kind] || runnable.graphs[kind] != nullptr) continue;
    MILLRACE_RETURN_IF_ERROR(Capture(runnable, most));
  }
  return absl::OkStatus();
}

absl::Status DeviceNetwork::Capture(Runnable& runnable, When most) {
  MILLRACE_RETURN_IF_ERROR(device().BeginCapture());
  const absl::Status status = RunOperations(runnable, most);
  absl::StatusOr<std::unique_ptr<Graph>> graph = device().EndCapture();
  MILLRACE_RETURN_IF_ERROR(status);
  MILLRACE_RETURN_IF_ERROR(graph.status());
  runnable.graphs[static_cast<size_t>(most)] = *std::move(graph);
  return absl::OkStatus();
}

absl::Status DeviceNetwork::Exchange(const RankSums& sums) {
  auto* const host = reinterpret_cast<double*>(sums_.get());
  const std::span<double> values(host, static_cast<size_t>(1 + 2 * sums.channels));
  void* const place = const_cast<void*>(sums.sums.memory);
  MILLRACE_RETURN_IF_ERROR(device().Copy(host, place, values.size_bytes()));
  MILLRACE_RETURN_IF_ERROR(device().Record(*sums_copied_));
  MILLRACE_RETURN_IF_ERROR(device().Wait(*sums_copied_));
  if (sums.is_forward) MomentsToSums(values);
  MILLRACE_RETURN_IF_ERROR(parts_->options.sum_over_ranks(parts_->step.step, values));
  if (sums.is_forward) SumsToMoments(values);
  return device().Copy(place, host, values.size_bytes());
}

absl::StatusOr<std::vector<float>> DeviceNetwork::Fetch(const Tensor& tensor,
                                                        const Channels& channels) {
  std::vector<std::byte> bytes(tensor.bytes);
  MILLRACE_RETURN_IF_ERROR(device().Copy(bytes.data(), parts_->buffers.At(tensor), bytes.size()));
  MILLRACE_RETURN_IF_ERROR(device().Synchronize());
  return ToFloats(bytes, tensor.type, channels);
}

absl::StatusOr<std::vector<float>> DeviceNetwork::FetchValue(const Tensor& tensor, int value) {
  const Shape& shape = model().values[value].shape;
  return Fetch(tensor, {static_cast<size_t>(parts_->values.channels(value)),
                        static_cast<size_t>(shape[shape.rank() - 1])});
}

absl::StatusOr<std::span<const float>> DeviceNetwork::output(size_t i) {
  if (!outputs_[i].has_value()) {
    const int value = model().losses[i].input;
    MILLRACE_ASSIGN_OR_RETURN(outputs_[i], FetchValue(parts_->values.data(value), value));
  }
  return std::span<const float>(*outputs_[i]);
}

// Work that was given may read the values that were set before.
absl::Status DeviceNetwork::SetOutputGradient(size_t i, std::span<const float> values) {
  if (given_[i].has_value()) MILLRACE_RETURN_IF_ERROR(device().Synchronize());
  const Tensor& gradient = parts_->loss_gradients[i];
  if (!gradient) return absl::OkStatus();
  std::vector<std::byte> bytes = FromFloats(values, gradient.type);
  if (bytes.size() != gradient.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a gradient of ", values.size(), " values for '",
                                                   model().losses[i].name, "'"));
  }
  given_[i] = std::move(bytes);
  return absl::OkStatus();
}

absl::Status DeviceNetwork::WriteOutputGradients() {
  for (size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i].has_value()) continue;
    MILLRACE_RETURN_IF_ERROR(device().Copy(parts_->buffers.At(parts_->loss_gradients[i]),
                                           given_[i]->data(), given_[i]->size()));
  }
  return absl::OkStatus();
}

absl::Status DeviceNetwork::DoBackward(const GradientReady& ready) {
  for (auto& gradient : input_gradients_) gradient.reset();
  MILLRACE_RETURN_IF_ERROR(WriteOutputGradients());
  When most = When::kAlways;
  if (ready) most = parts_->step.loss_scale == 1 ? When::kParameters : When::kScaledParameters;
  if (more_.captures) MILLRACE_RETURN_IF_ERROR(CaptureAll(backward_, most));
  for (Runnable& runnable : backward_) {
    MILLRACE_RETURN_IF_ERROR(Run(runnable, most));
    for (const Segment* const segment : runnable.segments) {
      MILLRACE_RETURN_IF_ERROR(Report(*segment, ready));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceNetwork::Report(const Segment& segment, const GradientReady& ready) {
  for (const int parameter : segment.gradients) {
    if (ready) MILLRACE_RETURN_IF_ERROR(ready(static_cast<size_t>(parameter)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const float>> DeviceNetwork::input_gradient(size_t i) {
  MILLRACE_RETURN_IF_ERROR(FetchInputGradient(i));
  return std::span<const float>(*input_gradients_[i]);
}

absl::Status DeviceNetwork::FetchInputGradient(size_t i) {
  if (input_gradients_[i].has_value()) return absl::OkStatus();
  const int value = model().inputs[i].value;
  const Tensor& gradient = parts_->values.gradient(value);
  if (!gradient) {
    input_gradients_[i].emplace();
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(input_gradients_[i], FetchValue(gradient, value));
  return absl::OkStatus();
}

std::string DeviceNetwork::FirstNonFinite() {
  std::string first;
  const absl::Status status = device().OnDevice([&]() -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(first, FindNonFinite());
    return absl::OkStatus();
  });
  return status.ok() ? first : "";
}

// Values share memory, so the layers run again: all of them, because a Backward may follow. They
// keep what they have measured, for the other ranks do not measure again.
absl::StatusOr<std::string> DeviceNetwork::FindNonFinite() {
  for (size_t i = 0; i < input_gradients_.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(FetchInputGradient(i));
  }
  std::string first;
  const auto look_at = [&](const Segment& segment) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const std::string found, FindIn(segment));
    if (first.empty()) first = found;
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(look_at(program_.inputs));
  for (const Segment& segment : program_.forward) MILLRACE_RETURN_IF_ERROR(look_at(segment));
  MILLRACE_RETURN_IF_ERROR(look_at(program_.losses));
  return first;
}

absl::StatusOr<std::string> DeviceNetwork::FindIn(const Segment& segment) {
  std::string first;
  for (const Operation& operation : segment.operations) {
    if (operation.measures) continue;
    MILLRACE_RETURN_IF_ERROR(operation.run(device()));
    if (operation.value < 0 || !first.empty()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const bool has, HasNonFinite(operation.value));
    if (has) first = model().values[operation.value].name;
  }
  return first;
}

// Padded channels are zeros.
absl::StatusOr<bool> DeviceNetwork::HasNonFinite(int value) {
  const Tensor& data = parts_->values.data(value);
  const Tensor& tensor = data ? data : parts_->values.folded(value);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<float> values, Fetch(tensor, Channels()));
  return !std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

}  // namespace millrace::trainer::cuda
