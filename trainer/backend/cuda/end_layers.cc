// The ends of a network: fields of the batch that become values, and losses.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "trainer/backend/cuda/layer_compiler.h"

namespace millrace::trainer::cuda {
namespace {

Draft CopyOf(const std::string& what) {
  Draft draft;
  draft.name = absl::StrCat("copy ", what);
  return draft;
}

void AddBatchCopy(NetworkParts& parts) {
  Draft draft = CopyOf("step");
  draft.bind = [&parts](Access& memory) -> Draft::Run {
    return [&parts, to = memory.Write(parts.batch.whole)](Device& device) {
      return device.Copy(to, parts.batch.host.get(), parts.batch.whole.bytes);
    };
  };
  parts.program.Add(std::move(draft));
}

void AddZeroSums(NetworkParts& parts) {
  if (parts.results.losses.empty()) return;
  Draft draft;
  draft.name = "zero sums of losses";
  const Part sums = parts.results.whole.Cut(0, parts.results.losses.size() * sizeof(LossSums));
  draft.bind = [sums](Access& memory) -> Draft::Run {
    return [to = memory.Write(sums), bytes = sums.bytes](Device& device) {
      return device.Zero(to, bytes);
    };
  };
  parts.program.Add(std::move(draft));
}

// A field of the step, on the device or on the host; null: it is not there.
const void* OnDevice(const std::vector<const void*>& fields, size_t i) {
  return i < fields.size() ? fields[i] : nullptr;
}

// Copies input `i`, unless it is on the device and `to` is not the value itself.
void AddInputCopy(NetworkParts& parts, size_t i, const Part& to, bool is_value) {
  Draft draft = CopyOf(parts.compiled.model.inputs[i].field);
  if (is_value) draft.value = parts.compiled.model.inputs[i].value;
  draft.bind = [&parts, i, to, is_value](Access& memory) -> Draft::Run {
    return [&parts, i, is_value, place = memory.Write(to)](Device& device) -> absl::Status {
      const void* const there = OnDevice(parts.step.device_inputs, i);
      if (there != nullptr && !is_value) return absl::OkStatus();
      const ConstTensorView& field = parts.step.inputs[i];
      return device.Copy(place, there != nullptr ? there : field.data, field.size_bytes());
    };
  };
  parts.program.Add(std::move(draft));
}

// A kernel that reads the field of an input: the copy, or where it is on the device.
struct InputKernel {
  size_t input = 0;
  Part copy;
  Tensor to;
  std::string name;
  int value = -1;  // that it completes; -1: none
};

// `args` are what the kernel is told beside its memory.
template <typename Args>
void AddInputKernel(NetworkParts& parts, const InputKernel& made, Kernel<Args> Kernels::*kernel,
                    Args args) {
  const Part scales = parts.input_scales[made.input];
  Draft draft;
  draft.name = made.name;
  draft.value = made.value;
  draft.bind = [=, &parts](Access& memory) mutable -> Draft::Run {
    args.from = memory.Read(made.copy);
    args.to = memory.Write(made.to);
    if (scales) {
      args.scale = memory.Read<float>(scales.Cut(0, scales.bytes / 2));
      args.shift = memory.Read<float>(scales.Cut(scales.bytes / 2, scales.bytes / 2));
    }
    return [&parts, i = made.input, kernel, args](Device& device) {
      Args now = args;
      const void* const there = OnDevice(parts.step.device_inputs, i);
      if (there != nullptr) now.from = there;
      return (device.kernels().*kernel)(device.stream(), now);
    };
  };
  parts.program.Add(std::move(draft));
}

// Converts input `i` to its value.
void AddInputConversion(NetworkParts& parts, size_t i, const Part& copy) {
  const ModelInput& input = parts.compiled.model.inputs[i];
  const Shape& shape = parts.compiled.model.input_shape(i);
  const Tensor& to = parts.values.data(input.value);
  ConvertArgs args;
  args.from_type = input.dtype;
  args.from_channels = shape[shape.rank() - 1];
  args.to_type = to.type;
  args.to_channels = parts.values.channels(input.value);
  args.pixels = parts.values.pixels(input.value);
  const std::string& name = parts.compiled.model.values[input.value].name;
  AddInputKernel(parts, {i, copy, to, absl::StrCat(name, ": convert"), input.value},
                 &Kernels::convert, args);
}

// Makes the folded copy of input `i`.
void AddInputFold(NetworkParts& parts, size_t i, const Part& copy) {
  const ModelInput& input = parts.compiled.model.inputs[i];
  const Shape& shape = parts.compiled.model.input_shape(i);
  const Tensor& to = parts.values.folded(input.value);
  FoldArgs args;
  args.from_type = input.dtype;
  args.to_type = to.type;
  args.rows = parts.compiled.rows;
  args.height = shape[0];
  args.width = shape[1];
  args.channels = shape[2];
  const std::string& name = parts.compiled.model.values[input.value].name;
  const int value = parts.values.data(input.value) ? -1 : input.value;
  AddInputKernel(parts, {i, copy, to, absl::StrCat(name, ": fold"), value}, &Kernels::fold, args);
}

void CompileInput(NetworkParts& parts, size_t i) {
  const ModelInput& input = parts.compiled.model.inputs[i];
  const Shape& shape = parts.compiled.model.input_shape(i);
  const size_t channels = static_cast<size_t>(shape[shape.rank() - 1]);
  const Tensor& value = parts.values.data(input.value);
  const bool is_folded = static_cast<bool>(parts.values.folded(input.value));
  const bool is_same = !is_folded && input.dtype == value.type && input.dtype != DType::kU8 &&
                       parts.values.channels(input.value) == static_cast<int64_t>(channels);
  parts.input_scales.emplace_back();
  if (is_same) return AddInputCopy(parts, i, value, /*is_value=*/true);
  const std::string name = absl::StrCat("field ", input.field);
  if (!input.mean.empty()) {
    parts.input_scales.back() = parts.buffers.AddKept(absl::StrCat("scales of ", input.field),
                                                      2 * channels * sizeof(float));
  }
  const auto values = static_cast<size_t>(parts.compiled.rows * shape.num_elements());
  const Part copy = parts.buffers.Add(name, values * SizeOf(input.dtype));
  AddInputCopy(parts, i, copy, /*is_value=*/false);
  if (value) AddInputConversion(parts, i, copy);
  if (is_folded) AddInputFold(parts, i, copy);
}

// Labels, or float32 values: whichever takes more bytes.
size_t TargetBytes(const Loss& loss, int64_t rows) {
  return static_cast<size_t>(rows) *
         std::max(sizeof(int64_t), static_cast<size_t>(loss.shape.num_elements()) * sizeof(float));
}

void AddTargetCopy(NetworkParts& parts, size_t i, const Part& to) {
  Draft draft = CopyOf(parts.compiled.model.losses[i].target);
  draft.bind = [&parts, i, to](Access& memory) -> Draft::Run {
    return [&parts, i, place = memory.Write(to)](Device& device) -> absl::Status {
      if (OnDevice(parts.step.device_targets, i) != nullptr) return absl::OkStatus();
      const ConstTensorView& field = parts.step.targets[i];
      return device.Copy(place, field.data, field.size_bytes());
    };
  };
  parts.program.Add(std::move(draft));
}

LossArgs SettingsOf(const NetworkParts& parts, size_t i) {
  const Loss& loss = parts.compiled.model.losses[i];
  LossArgs args;
  args.kind = loss.kind;
  args.weight = loss.weight;
  args.smoothing = loss.smoothing;
  args.values = loss.shape.num_elements();
  args.type = parts.values.data(loss.input).type;
  return args;
}

// `target` may be none.
void AddLoss(NetworkParts& parts, size_t i, const Part& target) {
  const Loss& loss = parts.compiled.model.losses[i];
  Draft draft;
  draft.name = absl::StrCat(loss.name, ": loss");
  draft.bind = [&parts, i, target, input = loss.input](Access& memory) -> Draft::Run {
    LossArgs args = SettingsOf(parts, i);
    args.batch = parts.Rows(memory, /*reads_valid=*/true, /*reads_step=*/true);
    args.output = memory.Read(parts.values.data(input));
    args.target = memory.Read(target);
    args.gradient = memory.Write(parts.loss_gradients[i]);
    args.sums = memory.Update<LossSums>(parts.results.losses[i]);
    args.scratch = memory.Write(parts.scratch);
    return [&parts, i, args](Device& device) {
      LossArgs now = args;
      const void* const there = OnDevice(parts.step.device_targets, i);
      if (there != nullptr) now.target = there;
      if (now.target != nullptr) now.target_type = parts.step.targets[i].dtype;
      return device.kernels().loss(device.stream(), now);
    };
  };
  parts.program.Add(std::move(draft));
}

}  // namespace

void CompileInputs(NetworkParts& parts) {
  AddBatchCopy(parts);
  AddZeroSums(parts);
  for (size_t i = 0; i < parts.compiled.model.inputs.size(); ++i) CompileInput(parts, i);
}

void CompileLosses(NetworkParts& parts) {
  const Model& model = parts.compiled.model;
  for (size_t i = 0; i < parts.results.losses.size(); ++i) {
    const Loss& loss = model.losses[i];
    parts.loss_gradients.emplace_back();
    if (parts.values.gradient(loss.input)) {
      const Tensor& output = parts.values.data(loss.input);
      parts.loss_gradients.back() = {
          parts.buffers.Add(absl::StrCat("gradient of ", loss.name), output.bytes), output.type};
    }
    Part target;
    if (loss.kind != LossKind::kGivenGradient) {
      target = parts.buffers.Add(absl::StrCat("field ", loss.target),
                                 TargetBytes(loss, parts.compiled.rows));
      AddTargetCopy(parts, i, target);
    }
    AddLoss(parts, i, target);
  }
}

// The gradient of a value that several losses read is their sum.
void CompileLossGradients(NetworkParts& parts) {
  const Model& model = parts.compiled.model;
  for (size_t i = 0; i < model.losses.size(); ++i) {
    const int value = model.losses[i].input;
    const Tensor& gradient = parts.values.gradient(value);
    if (!gradient) continue;
    Draft draft;
    draft.name = absl::StrCat(model.losses[i].name, ": gradient");
    AddCopy(parts, draft, parts.loss_gradients[i], {gradient, parts.is_written[value]},
            parts.values.count(value));
    parts.is_written[value] = true;
  }
}

}  // namespace millrace::trainer::cuda
