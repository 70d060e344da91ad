#include "trainer/strategy/device_norms.h"

#include "trainer/ranks/agree.h"

namespace millrace::trainer {

using cuda::LargestPair;
using cuda::SquaresPair;
using cuda::TileRange;
using cuda::UpdateTile;

namespace {

// The tiles of each parameter, all behind one another.
std::vector<TileRange> RangesOf(const std::vector<UpdateTile>& tiles) {
  std::vector<TileRange> ranges;
  for (uint32_t i = 0; i < tiles.size(); ++i) {
    if (ranges.empty() || ranges.back().parameter != tiles[i].parameter) {
      ranges.push_back({tiles[i].parameter, i, 0});
    }
    ++ranges.back().count;
  }
  return ranges;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceNorms>> DeviceNorms::Make(
    cuda::Device& device, const Model& model, const std::vector<std::vector<UpdateTile>>& tiles,
    collectives::Communicator* communicator) {
  std::unique_ptr<DeviceNorms> norms(
      new DeviceNorms(device, model.parameters.size(), communicator));
  MILLRACE_RETURN_IF_ERROR(norms->Allocate(model, tiles));
  return norms;
}

absl::Status DeviceNorms::Allocate(const Model& model,
                                   const std::vector<std::vector<UpdateTile>>& tiles) {
  std::vector<UpdateTile> all = {};
  for (const std::vector<UpdateTile>& of_region : tiles) {
    first_tile_.push_back(all.size());
    all.insert(all.end(), of_region.begin(), of_region.end());
  }
  first_tile_.push_back(all.size());
  std::vector<uint64_t> sizes;
  for (const Parameter& parameter : model.parameters) {
    sizes.push_back(static_cast<uint64_t>(parameter.shape.num_elements()));
  }
  const std::vector<TileRange> ranges = RangesOf(all);
  num_ranges_ = ranges.size();
  const std::vector<LargestPair> largest(all.size());
  const std::vector<SquaresPair> squares(all.size());
  const std::vector<LargestPair> largest_of_parameters(num_parameters_);
  const std::vector<SquaresPair> squares_of_parameters(num_parameters_);
  const auto make = [this]<typename T>(const std::vector<T>& values) {
    return MakeDeviceArray<T>(device_, values);
  };
  MILLRACE_ASSIGN_OR_RETURN(tiles_, make(all));
  MILLRACE_ASSIGN_OR_RETURN(ranges_, make(ranges));
  MILLRACE_ASSIGN_OR_RETURN(sizes_, make(sizes));
  MILLRACE_ASSIGN_OR_RETURN(largest_of_tiles_, make(largest));
  MILLRACE_ASSIGN_OR_RETURN(squares_of_tiles_, make(squares));
  MILLRACE_ASSIGN_OR_RETURN(largest_, make(largest_of_parameters));
  MILLRACE_ASSIGN_OR_RETURN(squares_, make(squares_of_parameters));
  return absl::OkStatus();
}

absl::Status DeviceNorms::OfTiles(cuda::Kernel<cuda::TileNormArgs> kernel,
                                  std::span<const Region> regions) {
  for (size_t r = 0; r < regions.size(); ++r) {
    const size_t first = first_tile_[r];
    cuda::TileNormArgs args;
    args.tiles = DeviceArray<UpdateTile>(tiles_) + first;
    args.num_tiles = static_cast<int64_t>(first_tile_[r + 1] - first);
    args.gradient = regions[r].gradient;
    args.master = regions[r].master;
    args.sizes = DeviceArray<uint64_t>(sizes_);
    args.largest = DeviceArray<LargestPair>(largest_);
    args.largest_of_tiles = DeviceArray<LargestPair>(largest_of_tiles_) + first;
    args.squares_of_tiles = DeviceArray<SquaresPair>(squares_of_tiles_) + first;
    MILLRACE_RETURN_IF_ERROR(device_.OnDevice([&] { return kernel(device_.stream(), args); }));
  }
  return absl::OkStatus();
}

absl::Status DeviceNorms::OfParameters(cuda::Kernel<cuda::NormArgsOfParameters> kernel) {
  cuda::NormArgsOfParameters args;
  args.ranges = DeviceArray<TileRange>(ranges_);
  args.num_ranges = static_cast<int64_t>(num_ranges_);
  args.largest_of_tiles = DeviceArray<LargestPair>(largest_of_tiles_);
  args.squares_of_tiles = DeviceArray<SquaresPair>(squares_of_tiles_);
  args.largest = DeviceArray<LargestPair>(largest_);
  args.squares = DeviceArray<SquaresPair>(squares_);
  return device_.OnDevice([&] { return kernel(device_.stream(), args); });
}

absl::Status DeviceNorms::Share(const cuda::Memory& memory, size_t count, Together together) {
  if (communicator_ == nullptr) return absl::OkStatus();
  std::vector<double> numbers(count);
  const size_t bytes = count * sizeof(double);
  MILLRACE_RETURN_IF_ERROR(device_.Copy(numbers.data(), memory.get(), bytes));
  MILLRACE_RETURN_IF_ERROR(device_.Synchronize());
  MILLRACE_RETURN_IF_ERROR(together == Together::kLargest
                               ? MaxOverRanks(*communicator_, numbers)
                               : SumOverRanks(*communicator_, std::span<double>(numbers)));
  MILLRACE_RETURN_IF_ERROR(device_.Copy(memory.get(), numbers.data(), bytes));
  return device_.Synchronize();
}

// A parameter of which this rank has no piece keeps the zeros that the memory began with only until
// it has those of all ranks, so zeros are written each time.
absl::Status DeviceNorms::Find(std::span<const Region> regions) {
  const cuda::UpdateKernels& kernels = *device_.kernels().update;
  MILLRACE_RETURN_IF_ERROR(device_.Zero(largest_.get(), num_parameters_ * sizeof(LargestPair)));
  MILLRACE_RETURN_IF_ERROR(device_.Zero(squares_.get(), num_parameters_ * sizeof(SquaresPair)));
  MILLRACE_RETURN_IF_ERROR(OfTiles(kernels.largest_of_tiles, regions));
  MILLRACE_RETURN_IF_ERROR(OfParameters(kernels.largest));
  MILLRACE_RETURN_IF_ERROR(Share(largest_, 2 * num_parameters_, Together::kLargest));
  MILLRACE_RETURN_IF_ERROR(OfTiles(kernels.squares_of_tiles, regions));
  MILLRACE_RETURN_IF_ERROR(OfParameters(kernels.squares));
  return Share(squares_, 4 * num_parameters_, Together::kSum);
}

}  // namespace millrace::trainer
