#include "tests/trainer/backend/cuda/update_cases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/backend/cuda/kernels/update.h"

namespace millrace::trainer::cuda {
namespace {

using Places = std::span<void* const>;

constexpr size_t kParameterSize = 2 * UpdateTile::kMostCount + 1235;

template <typename T>
KernelTensor TensorOfBytes(const std::vector<T>& values) {
  KernelTensor tensor(DType::kU8, values.size() * sizeof(T));
  std::memcpy(tensor.data(), values.data(), tensor.count());
  return tensor;
}

// The memory of every case.
enum Parts : size_t { kGradient, kMaster, kCompute, kTiles, kBehindParts };

std::vector<UpdateTile> TilesOfParameter() {
  std::vector<UpdateTile> tiles;
  for (size_t begin = 0; begin < kParameterSize; begin += UpdateTile::kMostCount) {
    const size_t count = std::min<size_t>(UpdateTile::kMostCount, kParameterSize - begin);
    tiles.push_back({begin, static_cast<uint32_t>(count), 0, 0, 1});
  }
  return tiles;
}

std::vector<KernelTensor> MemoryOfParameter(DType compute, bool is_aligned) {
  return {{DType::kF32, DrawnValues(kParameterSize, 1), is_aligned},
          {DType::kF32, DrawnValues(kParameterSize, 2), is_aligned},
          {compute, kParameterSize, is_aligned},
          TensorOfBytes(TilesOfParameter())};
}

KernelTensor BytesOfElement(const UpdateElement& element) {
  return std::visit([](const auto& one) { return TensorOfBytes(std::vector{one}); }, element);
}

KernelCase UpdateCase(const char* optimizer, DType compute, bool is_aligned) {
  const std::shared_ptr<const UpdateRule> rule = MakeUpdateRule(ParseOptimizer(optimizer));
  const UpdateElement element = rule->ElementOf({3, 0.01, 0.75f, 0.125f, std::nullopt});
  const size_t num_slots = rule->slots().size();
  KernelCase made = {
      .name = absl::StrCat(optimizer, is_aligned ? ", " : ", odd ", ToAbsl(Name(compute))),
      .memory = MemoryOfParameter(compute, is_aligned),
      .run = {}};
  made.memory.push_back(BytesOfElement(element));
  made.memory.push_back(TensorOfBytes(std::vector<SquaresPair>{{{{9, 0.5}, {4, 0.25}}}}));
  for (size_t s = 0; s < num_slots; ++s) {
    made.memory.emplace_back(DType::kF32, DrawnValues(kParameterSize, 3 + s, 0, 2), is_aligned);
  }
  made.run = [=](const Kernels& kernels, void* stream, Places at) {
    UpdateArgs args;
    args.element = element;
    args.elements = at[kBehindParts];
    args.tiles = static_cast<const UpdateTile*>(at[kTiles]);
    args.num_tiles = static_cast<int64_t>(TilesOfParameter().size());
    args.gradient = static_cast<const float*>(at[kGradient]);
    args.master = static_cast<float*>(at[kMaster]);
    args.compute = compute == DType::kF32 ? nullptr : at[kCompute];
    args.compute_type = compute;
    for (size_t s = 0; s < num_slots; ++s) {
      args.slots[s] = static_cast<float*>(at[kBehindParts + 2 + s]);
    }
    args.allows_vectors = true;
    args.squares = static_cast<const SquaresPair*>(at[kBehindParts + 1]);
    args.trust = rule->trust().value_or(TrustRule());
    return kernels.update->update(stream, args);
  };
  return made;
}

KernelCase NormsCase() {
  KernelCase made = {
      .name = "norms of a parameter", .memory = MemoryOfParameter(DType::kF32, true), .run = {}};
  const size_t num_tiles = TilesOfParameter().size();
  made.memory.push_back(TensorOfBytes(std::vector<uint64_t>{kParameterSize}));
  made.memory.push_back(TensorOfBytes(std::vector<LargestPair>(num_tiles)));
  made.memory.push_back(TensorOfBytes(std::vector<SquaresPair>(num_tiles)));
  made.memory.push_back(TensorOfBytes(std::vector<LargestPair>(1)));
  made.memory.push_back(TensorOfBytes(std::vector<SquaresPair>(1)));
  made.memory.push_back(
      TensorOfBytes(std::vector<TileRange>{{0, 0, static_cast<uint32_t>(num_tiles)}}));
  made.run = [num_tiles](const Kernels& kernels, void* stream, Places at) -> absl::Status {
    NormArgsOfParameters whole;
    whole.largest_of_tiles = static_cast<const LargestPair*>(at[kBehindParts + 1]);
    whole.squares_of_tiles = static_cast<const SquaresPair*>(at[kBehindParts + 2]);
    whole.largest = static_cast<LargestPair*>(at[kBehindParts + 3]);
    whole.squares = static_cast<SquaresPair*>(at[kBehindParts + 4]);
    whole.ranges = static_cast<const TileRange*>(at[kBehindParts + 5]);
    whole.num_ranges = 1;
    TileNormArgs tiles;
    tiles.tiles = static_cast<const UpdateTile*>(at[kTiles]);
    tiles.num_tiles = static_cast<int64_t>(num_tiles);
    tiles.gradient = static_cast<const float*>(at[kGradient]);
    tiles.master = static_cast<const float*>(at[kMaster]);
    tiles.sizes = static_cast<const uint64_t*>(at[kBehindParts]);
    tiles.largest = whole.largest;
    tiles.largest_of_tiles = static_cast<LargestPair*>(at[kBehindParts + 1]);
    tiles.squares_of_tiles = static_cast<SquaresPair*>(at[kBehindParts + 2]);
    MILLRACE_RETURN_IF_ERROR(kernels.update->largest_of_tiles(stream, tiles));
    MILLRACE_RETURN_IF_ERROR(kernels.update->largest(stream, whole));
    MILLRACE_RETURN_IF_ERROR(kernels.update->squares_of_tiles(stream, tiles));
    return kernels.update->squares(stream, whole);
  };
  return made;
}

KernelCase AverageCase() {
  KernelCase made = {
      .name = "average and exchange", .memory = MemoryOfParameter(DType::kF32, true), .run = {}};
  made.run = [](const Kernels& kernels, void* stream, Places at) -> absl::Status {
    const auto count = static_cast<int64_t>(kParameterSize);
    MILLRACE_RETURN_IF_ERROR(
        kernels.update->average(stream, {{0.125f},
                                         static_cast<const float*>(at[kGradient]),
                                         static_cast<float*>(at[kMaster]),
                                         count}));
    return kernels.update->exchange(
        stream, {static_cast<float*>(at[kMaster]), static_cast<float*>(at[kCompute]), count});
  };
  return made;
}

KernelCase NonFiniteCase() {
  std::vector<float> values(kParameterSize);
  values[kParameterSize / 2] = std::numeric_limits<float>::infinity();
  KernelCase made = {.name = "find non-finite", .memory = {}, .run = {}};
  made.memory.push_back(TensorOfBytes(values));
  made.memory.push_back(TensorOfBytes(std::vector<uint32_t>(1)));
  made.run = [](const Kernels& kernels, void* stream, Places at) {
    return kernels.update->find_non_finite(
        stream, {static_cast<const float*>(at[0]), static_cast<int64_t>(kParameterSize),
                 static_cast<uint32_t*>(at[1])});
  };
  return made;
}

}  // namespace

std::vector<KernelCase> UpdateKernelCases() {
  std::vector<KernelCase> cases = {NormsCase(), AverageCase(), NonFiniteCase()};
  for (const char* const optimizer :
       {"momentum: 0.9", "momentum: 0.9 nesterov: true", "adam {}", "adamw {}", "rmsprop {}",
        "rmsprop { momentum: 0.9 }", "rmsprop { centered: true }",
        "rmsprop { momentum: 0.9 centered: true }", "lars {}"}) {
    for (const DType compute : kFloatTypes) {
      for (const bool is_aligned : {false, true}) {
        cases.push_back(UpdateCase(optimizer, compute, is_aligned));
      }
    }
  }
  return cases;
}

}  // namespace millrace::trainer::cuda
