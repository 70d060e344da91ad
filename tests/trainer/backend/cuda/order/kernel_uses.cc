#include "tests/trainer/backend/cuda/order/kernel_uses.h"

#include <utility>

#include "trainer/backend/cuda/folding.h"

namespace millrace::trainer::cuda::order {
namespace {

// Collects the uses of an item.
class Collector {
 public:
  Collector& Reads(const void* memory, int64_t count, DType type) {
    uses_.reads.push_back({memory, BytesOf(count, type)});
    return *this;
  }
  Collector& Writes(const void* memory, int64_t count, DType type) {
    uses_.writes.push_back({memory, BytesOf(count, type)});
    return *this;
  }
  Collector& ReadsFloats(const float* memory, int64_t count) {
    return Reads(memory, count, DType::kF32);
  }
  Collector& WritesFloats(const float* memory, int64_t count) {
    return Writes(memory, count, DType::kF32);
  }
  // Writes `count` values, or adds to them.
  Collector& Makes(const void* memory, int64_t count, DType type, bool accumulates) {
    if (accumulates) Reads(memory, count, type);
    return Writes(memory, count, type);
  }
  Collector& WritesScratch(void* scratch, int64_t rows, int64_t channels) {
    uses_.writes.push_back({scratch, RecordedScratchBytes(rows, channels)});
    return *this;
  }
  Collector& ReadsValid(const BatchRows& batch) {
    return Reads(batch.valid, batch.rows, DType::kU8);
  }
  Collector& ReadsIds(const BatchRows& batch) {
    uses_.reads.push_back({batch.ids, static_cast<size_t>(batch.rows) * sizeof(SampleId)});
    return *this;
  }
  Collector& ReadsStep(const BatchRows& batch) {
    uses_.reads.push_back({batch.step, sizeof(StepValues)});
    return *this;
  }
  Uses Done() { return std::move(uses_); }

 private:
  static size_t BytesOf(int64_t count, DType type) {
    return static_cast<size_t>(count) * SizeOf(type);
  }
  Uses uses_;
};

// Elements from the first that a slice uses to the last.
int64_t Hull(int64_t rows, int64_t row_width, int64_t width) {
  return rows == 0 ? 0 : (rows - 1) * row_width + width;
}

const void* At(const void* memory, int64_t element, DType type) {
  return static_cast<const std::byte*>(memory) + static_cast<size_t>(element) * SizeOf(type);
}

int64_t Values(const NormArgs& args) { return args.batch.rows * args.row_pixels * args.channels; }

int64_t In(const PoolArgs& args) { return args.rows * args.height * args.width * args.channels; }
int64_t Out(const PoolArgs& args) {
  return args.rows * args.out_height * args.out_width * args.channels;
}

int64_t Weights(const FoldWeightsArgs& args) {
  return args.filters * args.window.kernel[0] * args.window.kernel[1] * args.channels;
}
int64_t FoldedWeights(const FoldWeightsArgs& args) {
  return args.filters * FoldedTaps(args.window, 0) * FoldedTaps(args.window, 1) * kFoldedChannels;
}

// A norm's numbers, between its kernels.
constexpr int64_t kMoments = 3;  // of each channel, that are in use
int64_t Sums(const NormArgs& args) { return 1 + 2 * args.channels; }

// What both kernels of the backward pass read: the mask of the ReLU comes from y, or again from x.
Collector NormBackward(const NormArgs& args) {
  Collector uses;
  uses.Reads(args.x, Values(args), args.type).Reads(args.dy, Values(args), args.type);
  if (args.has_relu) uses.Reads(args.y, Values(args), args.type);
  uses.ReadsFloats(args.moments, kMoments * args.channels)
      .ReadsFloats(args.weights, args.channels)
      .ReadsFloats(args.bias, args.channels)
      .ReadsValid(args.batch);
  return uses;
}

// What both kernels that do a pool too read in the backward pass.
Collector NormPoolBackward(const NormPoolArgs& args) {
  return Collector()
      .Reads(args.x, Values(args), args.type)
      .Reads(args.pool.from, Out(args.pool), args.type)
      .Reads(args.pool.places, Out(args.pool), DType::kU8)
      .ReadsFloats(args.moments, kMoments * args.channels)
      .ReadsFloats(args.weights, args.channels)
      .ReadsFloats(args.bias, args.channels)
      .ReadsValid(args.batch);
}

}  // namespace

size_t RecordedScratchBytes(int64_t /*rows*/, int64_t channels) {
  return static_cast<size_t>(channels) * 1024;
}

Uses UsesOf(const ConvertArgs& args) {
  return Collector()
      .Reads(args.from, args.pixels * args.from_channels, args.from_type)
      .ReadsFloats(args.scale, args.from_channels)
      .ReadsFloats(args.shift, args.from_channels)
      .ReadsFloats(args.factor, 1)
      .Writes(args.to, args.pixels * args.to_channels, args.to_type)
      .Done();
}

Uses UsesOf(const FoldArgs& args) {
  const int64_t pixels = args.rows * args.height * args.width;
  return Collector()
      .Reads(args.from, pixels * args.channels, args.from_type)
      .ReadsFloats(args.scale, args.channels)
      .ReadsFloats(args.shift, args.channels)
      .Writes(args.to, pixels / 4 * kFoldedChannels, args.to_type)
      .Done();
}

Uses UsesOfFoldWeights(const FoldWeightsArgs& args) {
  return Collector()
      .Reads(args.from, Weights(args), args.from_type)
      .Writes(args.to, FoldedWeights(args), args.to_type)
      .Done();
}

Uses UsesOfUnfoldWeights(const FoldWeightsArgs& args) {
  return Collector()
      .Reads(args.from, FoldedWeights(args), args.from_type)
      .ReadsFloats(args.factor, 1)
      .Writes(args.to, Weights(args), args.to_type)
      .Done();
}

Uses UsesOf(const ActivationArgs& args) {
  const int64_t count = args.pixels * args.channels;
  return Collector()
      .Reads(args.from, count, args.type)
      .ReadsFloats(args.bias, args.channels)
      .Writes(args.to, count, args.type)
      .Done();
}

Uses UsesOf(const ActivationBackwardArgs& args) {
  return Collector()
      .Reads(args.input, args.count, args.type)
      .Reads(args.output, args.count, args.type)
      .Reads(args.gradient, args.count, args.type)
      .Makes(args.to, args.count, args.type, args.accumulates)
      .Done();
}

Uses UsesOf(const BinaryArgs& args) {
  return Collector()
      .Reads(args.a, args.count, args.type)
      .Reads(args.b, args.count, args.type)
      .Makes(args.to, args.count, args.type, args.accumulates)
      .Done();
}

Uses UsesOf(const SliceArgs& args) {
  const int64_t from = Hull(args.rows, args.from_width, args.width);
  const int64_t to = Hull(args.rows, args.to_width, args.width);
  return Collector()
      .Reads(At(args.from, args.from_begin, args.type), from, args.type)
      .Makes(At(args.to, args.to_begin, args.type), to, args.type, args.accumulates)
      .Done();
}

Uses UsesOf(const ColumnSumsArgs& args) {
  return Collector()
      .Reads(args.from, args.pixels * args.channels, args.type)
      .ReadsFloats(args.factor, 1)
      .WritesFloats(args.sums, args.channels)
      .WritesScratch(args.scratch, args.pixels, args.channels)
      .Done();
}

Uses UsesOfPool(const PoolArgs& args) {
  return Collector()
      .Reads(args.from, In(args), args.type)
      .Writes(args.to, Out(args), args.type)
      .Writes(args.places, Out(args), DType::kU8)
      .Done();
}

Uses UsesOfPoolBackward(const PoolArgs& args) {
  return Collector()
      .Reads(args.from, Out(args), args.type)
      .Reads(args.places, Out(args), DType::kU8)
      .Makes(args.to, In(args), args.type, args.accumulates)
      .Done();
}

Uses UsesOfNormMeasure(const NormArgs& args) {
  return Collector()
      .Reads(args.x, Values(args), args.type)
      .ReadsValid(args.batch)
      .Writes(args.sums, Sums(args), DType::kF64)
      .WritesFloats(args.moments, kMoments * args.channels)
      .WritesFloats(args.mean, args.channels)
      .WritesFloats(args.variance, args.channels)
      .WritesScratch(args.scratch, args.batch.rows, args.channels)
      .Done();
}

Uses UsesOfNormMoments(const NormArgs& args) {
  return Collector()
      .Reads(args.sums, Sums(args), DType::kF64)
      .WritesFloats(args.moments, kMoments * args.channels)
      .WritesFloats(args.mean, args.channels)
      .WritesFloats(args.variance, args.channels)
      .Done();
}

Uses UsesOfNormMomentsOfRunning(const NormArgs& args) {
  return Collector()
      .ReadsFloats(args.mean, args.channels)
      .ReadsFloats(args.variance, args.channels)
      .WritesFloats(args.moments, kMoments * args.channels)
      .Done();
}

Uses UsesOfNormApply(const NormArgs& args) {
  return Collector()
      .Reads(args.x, Values(args), args.type)
      .Reads(args.addend, Values(args), args.type)
      .ReadsFloats(args.moments, kMoments * args.channels)
      .ReadsFloats(args.weights, args.channels)
      .ReadsFloats(args.bias, args.channels)
      .Writes(args.y, Values(args), args.type)
      .Done();
}

Uses UsesOfNormBackwardSums(const NormArgs& args) {
  return NormBackward(args)
      .ReadsFloats(args.factor, 1)
      .Writes(args.sums, Sums(args), DType::kF64)
      .WritesFloats(args.weights_gradient, args.channels)
      .WritesFloats(args.bias_gradient, args.channels)
      .Makes(args.dz, args.dz == nullptr ? 0 : Values(args), args.type, args.accumulates_dz)
      .WritesScratch(args.scratch, args.batch.rows, args.channels)
      .Done();
}

Uses UsesOfNormBackwardCombine(const NormArgs& args) {
  return NormBackward(args)
      .Reads(args.sums, Sums(args), DType::kF64)
      .Makes(args.dx, args.dx == nullptr ? 0 : Values(args), args.type, args.accumulates_dx)
      .Done();
}

Uses UsesOfNormPool(const NormPoolArgs& args) {
  return Collector()
      .Reads(args.x, Values(args), args.type)
      .ReadsFloats(args.moments, kMoments * args.channels)
      .ReadsFloats(args.weights, args.channels)
      .ReadsFloats(args.bias, args.channels)
      .Writes(args.pool.to, Out(args.pool), args.type)
      .Writes(args.pool.places, Out(args.pool), DType::kU8)
      .Done();
}

Uses UsesOfNormPoolBackwardSums(const NormPoolArgs& args) {
  return NormPoolBackward(args)
      .ReadsFloats(args.factor, 1)
      .Writes(args.sums, Sums(args), DType::kF64)
      .WritesFloats(args.weights_gradient, args.channels)
      .WritesFloats(args.bias_gradient, args.channels)
      .WritesScratch(args.scratch, args.batch.rows, args.channels)
      .Done();
}

Uses UsesOfNormPoolBackwardCombine(const NormPoolArgs& args) {
  return NormPoolBackward(args)
      .Reads(args.sums, Sums(args), DType::kF64)
      .Makes(args.dx, args.dx == nullptr ? 0 : Values(args), args.type, args.accumulates_dx)
      .Done();
}

Uses UsesOf(const DropoutArgs& args) {
  const int64_t count = args.batch.rows * args.row_values;
  return Collector()
      .Reads(args.from, count, args.type)
      .ReadsIds(args.batch)
      .ReadsStep(args.batch)
      .Makes(args.to, count, args.type, args.accumulates)
      .Done();
}

Uses UsesOf(const LossArgs& args) {
  const int64_t count = args.batch.rows * args.values;
  const bool has_labels = args.target_type != DType::kF32;
  Uses uses = Collector()
                  .Reads(args.output, count, args.type)
                  .Reads(args.target, has_labels ? args.batch.rows : count, args.target_type)
                  .ReadsValid(args.batch)
                  .ReadsStep(args.batch)
                  .Makes(args.gradient, count, args.type, args.accumulates)
                  .WritesScratch(args.scratch, args.batch.rows, args.values)
                  .Done();
  uses.reads.push_back({args.sums, sizeof(LossSums)});
  uses.writes.push_back({args.sums, sizeof(LossSums)});
  return uses;
}

Uses UsesOf(const ProductSpec& spec, const ProductTensors& tensors) {
  const int64_t x = spec.rows * spec.height * spec.width * spec.channels;
  const int64_t w = spec.filters * spec.window.kernel[0] * spec.window.kernel[1] *
                    (spec.channels / spec.window.groups);
  const int64_t y = spec.rows * spec.out_height * spec.out_width * spec.filters;
  Collector uses;
  switch (spec.pass) {
    case ProductPass::kForward:
      uses.Reads(tensors.x, x, spec.type).Reads(tensors.w, w, spec.type);
      if (spec.has_bias) uses.ReadsFloats(tensors.bias, spec.filters);
      return uses.Writes(tensors.y, y, spec.result).Done();
    case ProductPass::kDataGradient:
      uses.Reads(tensors.y, y, spec.type).Reads(tensors.w, w, spec.type);
      if (spec.has_addend) uses.Reads(tensors.addend, x, spec.result);
      return uses.Writes(tensors.x, x, spec.result).Done();
    case ProductPass::kWeightGradient:
      uses.Reads(tensors.x, x, spec.type).Reads(tensors.y, y, spec.type);
      return uses.Writes(tensors.w, w, spec.result).Done();
  }
  return {};
}

}  // namespace millrace::trainer::cuda::order
