#include "tests/trainer/backend/cuda/kernel_cases.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/fold_cases.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/norm_pool_cases.h"
#include "tests/trainer/backend/cuda/update_cases.h"

namespace millrace::trainer::cuda {
namespace {

using Places = std::span<void* const>;

template <typename T>
KernelTensor BytesOf(const std::vector<T>& values) {
  KernelTensor tensor(DType::kU8, values.size() * sizeof(T));
  std::memcpy(tensor.data(), values.data(), tensor.count());
  return tensor;
}

// The sizes of a case: odd ones, and ones with vectors.
struct CaseSizes {
  DType type;
  int64_t rows;
  int64_t pixels;
  int64_t channels;

  size_t count() const { return static_cast<size_t>(rows * pixels * channels); }
  KernelTensor Drawn(unsigned seed) const { return {type, DrawnValues(count(), seed)}; }
  std::string Text() const {
    return absl::StrCat(ToAbsl(Name(type)), " ", rows, " x ", pixels, " x ", channels);
  }
};

std::vector<CaseSizes> AllSizes() {
  std::vector<CaseSizes> all;
  for (const DType type : kFloatTypes) {
    all.push_back({type, 1, 3, 1});
    all.push_back({type, 3, 49, 5});
    all.push_back({type, 5, 21, 64});
    all.push_back({type, 2, 900, 24});
  }
  return all;
}

// Memory that all kernels of a batch read: valid rows, ids, and the step's numbers.
enum Batch : size_t { kValid, kIds, kStep, kBehindBatch };
std::vector<KernelTensor> BatchMemory(const CaseSizes& sizes) {
  std::vector<uint8_t> valid;
  std::vector<SampleId> ids;
  for (int64_t row = 0; row < sizes.rows; ++row) {
    valid.push_back(row == 1 ? 0 : 1);
    ids.push_back({1, static_cast<uint64_t>(row * 77), 3});
  }
  const StepValues step = {
      .gradient_scale = 0.125, .inverse_loss_scale = 0.25, .seed = 12, .step = 34};
  return {BytesOf(valid), BytesOf(ids), BytesOf(std::vector<StepValues>{step})};
}
BatchRows BatchOf(const CaseSizes& sizes, Places at) {
  return {.rows = sizes.rows,
          .valid = static_cast<const uint8_t*>(at[kValid]),
          .ids = static_cast<const SampleId*>(at[kIds]),
          .step = static_cast<const StepValues*>(at[kStep])};
}

template <typename Args>
absl::Status RunInOrder(const std::vector<Kernel<Args>>& kernels, void* stream, const Args& args) {
  for (const Kernel<Args> kernel : kernels) {
    MILLRACE_RETURN_IF_ERROR(kernel(stream, args));
  }
  return absl::OkStatus();
}

KernelTensor Scratch(const CaseSizes& sizes) {
  return {DType::kU8, HostKernels().scratch_bytes(sizes.rows * sizes.pixels, sizes.channels)};
}

void AddConversions(std::vector<KernelCase>& cases) {
  for (const DType from :
       {DType::kU8, DType::kI32, DType::kI64, DType::kF16, DType::kBF16, DType::kF32}) {
    for (const DType to : kFloatTypes) {
      for (const auto& [from_channels, to_channels] :
           std::vector<std::pair<int64_t, int64_t>>{{3, 4}, {5, 5}, {16, 16}, {8, 3}}) {
        const auto channels = static_cast<size_t>(from_channels);
        KernelCase made = {.name = absl::StrCat("convert ", ToAbsl(Name(from)), " ", from_channels,
                                                " to ", ToAbsl(Name(to)), " ", to_channels),
                           .memory = {{from, DrawnValues(50 * channels, 1, 0, 200)},
                                      {to, static_cast<size_t>(50 * to_channels)},
                                      {DType::kF32, DrawnValues(channels, 2)},
                                      {DType::kF32, DrawnValues(channels, 3)},
                                      {DType::kF32, std::vector<double>{0.7}}},
                           .run = [=](const Kernels& kernels, void* stream, Places at) {
                             return kernels.convert(stream,
                                                    {.from = at[0],
                                                     .from_type = from,
                                                     .from_channels = from_channels,
                                                     .to = at[1],
                                                     .to_type = to,
                                                     .to_channels = to_channels,
                                                     .pixels = 50,
                                                     .scale = static_cast<const float*>(at[2]),
                                                     .shift = static_cast<const float*>(at[3]),
                                                     .factor = static_cast<const float*>(at[4])});
                           }};
        cases.push_back(std::move(made));
      }
    }
  }
}

void AddActivations(const CaseSizes& sizes, std::vector<KernelCase>& cases) {
  for (const LayerKind kind :
       {LayerKind::kRelu, LayerKind::kRelu6, LayerKind::kLeakyRelu, LayerKind::kSigmoid,
        LayerKind::kTanh, LayerKind::kSilu, LayerKind::kAdd}) {
    KernelCase made = {
        .name = absl::StrCat(kind == LayerKind::kAdd ? "bias" : KindName(kind), " ", sizes.Text()),
        .memory = {{sizes.type, DrawnValues(sizes.count(), 1, -9, 9)},
                   {sizes.type, sizes.count()},
                   {DType::kF32, DrawnValues(static_cast<size_t>(sizes.channels), 2)},
                   sizes.Drawn(3),
                   sizes.Drawn(4)},
        .run = [=](const Kernels& kernels, void* stream, Places at) {
          MILLRACE_RETURN_IF_ERROR(
              kernels.activate(stream, {.kind = kind,
                                        .slope = 0.1f,
                                        .type = sizes.type,
                                        .from = at[0],
                                        .bias = static_cast<const float*>(at[2]),
                                        .to = at[1],
                                        .pixels = sizes.rows * sizes.pixels,
                                        .channels = sizes.channels}));
          return kernels.activate_backward(stream, {.kind = kind,
                                                    .slope = 0.1f,
                                                    .type = sizes.type,
                                                    .input = at[0],
                                                    .output = at[1],
                                                    .gradient = at[3],
                                                    .to = at[4],
                                                    .count = static_cast<int64_t>(sizes.count()),
                                                    .accumulates = true});
        }};
    cases.push_back(std::move(made));
  }
}

void AddSumsAndSlices(const CaseSizes& sizes, std::vector<KernelCase>& cases) {
  for (const bool accumulates : {false, true}) {
    KernelCase binary = {
        .name = absl::StrCat("binary ", sizes.Text(), accumulates ? " +" : ""),
        .memory = {sizes.Drawn(1), sizes.Drawn(2), sizes.Drawn(3), sizes.Drawn(4), sizes.Drawn(5)},
        .run = [=](const Kernels& kernels, void* stream, Places at) {
          BinaryArgs args = {.type = sizes.type,
                             .a = at[0],
                             .b = at[1],
                             .to = at[2],
                             .count = static_cast<int64_t>(sizes.count()),
                             .accumulates = accumulates};
          MILLRACE_RETURN_IF_ERROR(kernels.binary(stream, args));
          args.multiplies = true;
          args.to = at[3];
          MILLRACE_RETURN_IF_ERROR(kernels.binary(stream, args));
          args.b = nullptr;
          args.to = at[4];
          return kernels.binary(stream, args);
        }};
    cases.push_back(std::move(binary));
    const int64_t width = sizes.pixels * sizes.channels;
    KernelCase slice = {.name = absl::StrCat("slice ", sizes.Text(), accumulates ? " +" : ""),
                        .memory = {sizes.Drawn(1), {sizes.type, DrawnValues(2 * sizes.count(), 2)}},
                        .run = [=](const Kernels& kernels, void* stream, Places at) {
                          return kernels.slice(stream, {.type = sizes.type,
                                                        .from = at[0],
                                                        .from_width = width,
                                                        .to = at[1],
                                                        .to_width = 2 * width,
                                                        .to_begin = width,
                                                        .width = width,
                                                        .rows = sizes.rows,
                                                        .accumulates = accumulates});
                        }};
    cases.push_back(std::move(slice));
  }
  KernelCase sums = {.name = absl::StrCat("column_sums ", sizes.Text()),
                     .memory = {sizes.Drawn(1),
                                {DType::kF32, static_cast<size_t>(sizes.channels)},
                                {DType::kF32, std::vector<double>{0.7}},
                                Scratch(sizes)},
                     .run = [=](const Kernels& kernels, void* stream, Places at) {
                       return kernels.column_sums(stream,
                                                  {.type = sizes.type,
                                                   .from = at[0],
                                                   .pixels = sizes.rows * sizes.pixels,
                                                   .channels = sizes.channels,
                                                   .sums = static_cast<float*>(at[1]),
                                                   .factor = static_cast<const float*>(at[2]),
                                                   .scratch = at[3]});
                     }};
  cases.push_back(std::move(sums));
}

void AddPools(DType type, int64_t channels, std::vector<KernelCase>& cases) {
  for (const bool is_average : {false, true}) {
    for (const bool is_global : {false, true}) {
      PoolArgs args = {.is_average = is_average,
                       .type = type,
                       .rows = 3,
                       .height = 9,
                       .width = 11,
                       .out_height = is_global ? 1 : 5,
                       .out_width = is_global ? 1 : 6,
                       .channels = channels,
                       .window = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}}};
      if (is_global) args.window = {.kernel = {9, 11}};
      const auto in = static_cast<size_t>(3 * 9 * 11 * channels);
      const auto out = static_cast<size_t>(3 * args.out_height * args.out_width * channels);
      KernelCase made = {
          .name = absl::StrCat(is_average ? "average" : "max", is_global ? ", global" : "", " ",
                               ToAbsl(Name(type)), " ", channels),
          .memory = {{type, DrawnValues(in, 1)},
                     {type, out},
                     {DType::kU8, out},
                     {type, DrawnValues(out, 2)},
                     {type, DrawnValues(in, 3)}},
          .run = [=](const Kernels& kernels, void* stream, Places at) {
            PoolArgs pool = args;
            pool.from = at[0];
            pool.to = at[1];
            pool.places = static_cast<uint8_t*>(at[2]);
            MILLRACE_RETURN_IF_ERROR(kernels.pool(stream, pool));
            pool.from = at[3];
            pool.to = at[4];
            pool.accumulates = true;
            return kernels.pool_backward(stream, pool);
          }};
      cases.push_back(std::move(made));
    }
  }
}

void AddNorms(const CaseSizes& sizes, std::vector<KernelCase>& cases) {
  enum Norm : size_t {
    kX = kBehindBatch,
    kAddend,
    kY,
    kDy,
    kDz,
    kDx,
    kWeights,
    kBias,
    kSums,
    kMoments,
    kMean,
    kVariance,
    kWeightsGradient,
    kBiasGradient,
    kScratch
  };
  const auto channels = static_cast<size_t>(sizes.channels);
  for (const int setting : {0, 1, 2}) {
    KernelCase made = {.name = absl::StrCat("norm ", setting, " ", sizes.Text()),
                       .memory = BatchMemory(sizes),
                       .run = {}};
    for (const unsigned seed : {1u, 2u, 3u, 4u, 5u, 6u}) made.memory.push_back(sizes.Drawn(seed));
    made.memory.emplace_back(DType::kF32, DrawnValues(channels, 7));
    made.memory.emplace_back(DType::kF32, DrawnValues(channels, 8));
    made.memory.emplace_back(DType::kF64, 1 + 2 * channels);
    made.memory.emplace_back(DType::kF32, 4 * channels);
    for (int i = 0; i < 4; ++i) made.memory.emplace_back(DType::kF32, channels);
    made.memory.push_back(Scratch(sizes));
    made.run = [=](const Kernels& kernels, void* stream, Places at) {
      const auto floats = [&](size_t i) { return static_cast<float*>(at[i]); };
      NormArgs args = {.type = sizes.type,
                       .batch = BatchOf(sizes, at),
                       .row_pixels = sizes.pixels,
                       .channels = sizes.channels,
                       .epsilon = 1e-5,
                       .weights = floats(kWeights),
                       .bias = floats(kBias),
                       .sums = static_cast<double*>(at[kSums]),
                       .moments = floats(kMoments),
                       .scratch = at[kScratch],
                       .x = at[kX],
                       .addend = setting == 0 ? at[kAddend] : nullptr,
                       .has_relu = setting != 2,
                       .y = at[kY],
                       .mean = floats(kMean),
                       .variance = floats(kVariance),
                       .dy = at[kDy],
                       .dz = setting == 1 ? nullptr : at[kDz],
                       .accumulates_dz = setting == 0,
                       .dx = at[kDx],
                       .accumulates_dx = setting == 1,
                       .weights_gradient = floats(kWeightsGradient),
                       .bias_gradient = floats(kBiasGradient)};
      MILLRACE_RETURN_IF_ERROR(RunInOrder<NormArgs>(
          {kernels.norm_measure, kernels.norm_moments, kernels.norm_apply}, stream, args));
      if (setting == 1) args.y = nullptr;
      MILLRACE_RETURN_IF_ERROR(RunInOrder<NormArgs>(
          {kernels.norm_backward_sums, kernels.norm_backward_combine}, stream, args));
      if (setting != 2) return absl::OkStatus();
      args.y = at[kY];
      return RunInOrder<NormArgs>({kernels.norm_moments_of_running, kernels.norm_apply}, stream,
                                  args);
    };
    cases.push_back(std::move(made));
  }
}

void AddDropouts(const CaseSizes& sizes, std::vector<KernelCase>& cases) {
  for (const bool accumulates : {false, true}) {
    KernelCase made = {.name = absl::StrCat("dropout ", sizes.Text(), accumulates ? " +" : ""),
                       .memory = BatchMemory(sizes),
                       .run = {}};
    made.memory.push_back(sizes.Drawn(1));
    made.memory.push_back(sizes.Drawn(2));
    made.run = [=](const Kernels& kernels, void* stream, Places at) {
      return kernels.dropout(stream, {.type = sizes.type,
                                      .batch = BatchOf(sizes, at),
                                      .row_values = sizes.pixels * sizes.channels,
                                      .rate = 0.3,
                                      .layer = HashName("drop"),
                                      .from = at[kBehindBatch],
                                      .to = at[kBehindBatch + 1],
                                      .accumulates = accumulates});
    };
    cases.push_back(std::move(made));
  }
}

void AddLosses(const CaseSizes& sizes, std::vector<KernelCase>& cases) {
  for (const LossKind kind :
       {LossKind::kSoftmaxCrossEntropy, LossKind::kSigmoidCrossEntropy, LossKind::kMeanSquaredError,
        LossKind::kMeanAbsoluteError, LossKind::kGivenGradient}) {
    for (const bool has_labels : {false, true}) {
      KernelCase made = {
          .name = absl::StrCat(KindName(kind), has_labels ? " of labels " : " ", sizes.Text()),
          .memory = BatchMemory(sizes),
          .run = {}};
      made.memory.emplace_back(sizes.type, DrawnValues(sizes.count(), 1, -4, 4));
      if (has_labels) {
        made.memory.emplace_back(DType::kI64,
                                 std::vector<double>(static_cast<size_t>(sizes.rows), 0));
      } else {
        made.memory.emplace_back(DType::kF32, DrawnValues(sizes.count(), 2, 0, 1));
      }
      made.memory.push_back(sizes.Drawn(3));
      made.memory.push_back(BytesOf(std::vector<LossSums>(1)));
      made.memory.push_back(Scratch(sizes));
      made.run = [=](const Kernels& kernels, void* stream, Places at) {
        return kernels.loss(stream, {.kind = kind,
                                     .weight = 0.7,
                                     .smoothing = 0.1,
                                     .batch = BatchOf(sizes, at),
                                     .values = sizes.pixels * sizes.channels,
                                     .type = sizes.type,
                                     .output = at[kBehindBatch],
                                     .target = at[kBehindBatch + 1],
                                     .target_type = has_labels ? DType::kI64 : DType::kF32,
                                     .gradient = at[kBehindBatch + 2],
                                     .accumulates = has_labels,
                                     .sums = static_cast<LossSums*>(at[kBehindBatch + 3]),
                                     .scratch = at[kBehindBatch + 4]});
      };
      cases.push_back(std::move(made));
    }
  }
}

}  // namespace

absl::Status KernelCase::RunHere(const Kernels& kernels, void* stream) {
  std::vector<void*> at;
  for (KernelTensor& tensor : memory) at.push_back(tensor.data());
  return run(kernels, stream, at);
}

std::vector<KernelCase> AllKernelCases() {
  std::vector<KernelCase> cases = UpdateKernelCases();
  for (KernelCase& test : FoldKernelCases()) cases.push_back(std::move(test));
  AddConversions(cases);
  AddNormPools(cases);
  for (const CaseSizes& sizes : AllSizes()) {
    AddActivations(sizes, cases);
    AddSumsAndSlices(sizes, cases);
    AddNorms(sizes, cases);
    AddDropouts(sizes, cases);
    AddLosses(sizes, cases);
  }
  for (const DType type : kFloatTypes) {
    for (const int64_t channels : {1, 5, 64}) AddPools(type, channels, cases);
  }
  return cases;
}

}  // namespace millrace::trainer::cuda
