#include "tests/trainer/backend/cuda/order/update_uses.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/trainer/backend/cuda/order/recording.h"
#include "tests/trainer/backend/cuda/order/recording_nccl.h"

namespace millrace::trainer::cuda::order {
namespace {

// A table that the host has copied to the device.
template <typename T>
absl::StatusOr<std::vector<T>> TableAt(const Recording& recording, const T* memory, int64_t count) {
  std::vector<T> table(static_cast<size_t>(count));
  if (!recording.FindContents(memory, table.size() * sizeof(T), table.data())) {
    return absl::InternalError("a table that the host did not copy");
  }
  return table;
}

template <typename T>
Use ElementsOf(T* memory, uint64_t begin, uint64_t count, const char* tensor = "") {
  if (memory == nullptr) return {};
  return {memory + begin, count * sizeof(T), tensor};
}

// Elements of a region, tiles that lie behind one another put together.
struct Part {
  uint64_t begin = 0;
  uint64_t count = 0;
};

std::vector<Part> PartsOf(const std::vector<UpdateTile>& tiles) {
  std::vector<Part> parts;
  for (const UpdateTile& tile : tiles) {
    const bool goes_on = !parts.empty() && parts.back().begin + parts.back().count == tile.begin;
    if (!goes_on) parts.push_back({tile.begin, 0});
    parts.back().count += tile.count;
  }
  return parts;
}

void Update(Uses& uses, const Use& use) {
  uses.reads.push_back(use);
  uses.writes.push_back(use);
}

absl::StatusOr<Uses> UsesOf(const Recording& recording, const UpdateArgs& args) {
  MILLRACE_ASSIGN_OR_RETURN(const auto tiles, TableAt(recording, args.tiles, args.num_tiles));
  Uses uses;
  uses.reads.push_back(ElementsOf(args.tiles, 0, tiles.size()));
  for (const Part& part : PartsOf(tiles)) {
    uses.reads.push_back(ElementsOf(args.gradient, part.begin, part.count, kSum));
    Update(uses, ElementsOf(args.master, part.begin, part.count));
    for (float* const slot : args.slots) {
      Update(uses, ElementsOf(slot, part.begin - args.slots_begin, part.count));
    }
    if (args.compute == nullptr) continue;
    const size_t size = SizeOf(args.compute_type);
    uses.writes.push_back(
        {static_cast<std::byte*>(args.compute) + part.begin * size, part.count * size});
  }
  for (const UpdateTile& tile : tiles) {
    if (args.squares == nullptr || tile.has_trust == 0) continue;
    uses.reads.push_back(ElementsOf(args.squares, tile.parameter, 1));
  }
  return uses;
}

// `of_squares`: the squares of tiles are made, else their largest magnitudes.
absl::StatusOr<Uses> UsesOf(const Recording& recording, const TileNormArgs& args, bool of_squares) {
  MILLRACE_ASSIGN_OR_RETURN(const auto tiles, TableAt(recording, args.tiles, args.num_tiles));
  Uses uses;
  uses.reads.push_back(ElementsOf(args.tiles, 0, tiles.size()));
  for (const Part& part : PartsOf(tiles)) {
    uses.reads.push_back(ElementsOf(args.gradient, part.begin, part.count, kSum));
    uses.reads.push_back(ElementsOf(args.master, part.begin, part.count));
  }
  if (!of_squares) {
    uses.writes.push_back(ElementsOf(args.largest_of_tiles, 0, tiles.size()));
    return uses;
  }
  for (const UpdateTile& tile : tiles) {
    uses.reads.push_back(ElementsOf(args.largest, tile.parameter, 1));
    uses.reads.push_back(ElementsOf(args.sizes, tile.parameter, 1));
  }
  uses.writes.push_back(ElementsOf(args.squares_of_tiles, 0, tiles.size()));
  return uses;
}

absl::StatusOr<Uses> UsesOf(const Recording& recording, const NormArgsOfParameters& args,
                            bool of_squares) {
  MILLRACE_ASSIGN_OR_RETURN(const auto ranges, TableAt(recording, args.ranges, args.num_ranges));
  Uses uses;
  uses.reads.push_back(ElementsOf(args.ranges, 0, ranges.size()));
  for (const TileRange& range : ranges) {
    uses.reads.push_back(of_squares ? ElementsOf(args.squares_of_tiles, range.first, range.count)
                                    : ElementsOf(args.largest_of_tiles, range.first, range.count));
    uses.writes.push_back(of_squares ? ElementsOf(args.squares, range.parameter, 1)
                                     : ElementsOf(args.largest, range.parameter, 1));
  }
  return uses;
}

absl::StatusOr<Uses> UsesOf(const Recording&, const AverageArgs& args) {
  const auto count = static_cast<uint64_t>(args.count);
  Uses uses;
  uses.reads.push_back(ElementsOf(args.newest, 0, count));
  Update(uses, ElementsOf(args.average, 0, count));
  return uses;
}

absl::StatusOr<Uses> UsesOf(const Recording&, const ExchangeArgs& args) {
  const auto count = static_cast<uint64_t>(args.count);
  Uses uses;
  Update(uses, ElementsOf(args.a, 0, count));
  Update(uses, ElementsOf(args.b, 0, count));
  return uses;
}

absl::StatusOr<Uses> UsesOf(const Recording&, const NonFiniteArgs& args) {
  Uses uses;
  uses.reads.push_back(ElementsOf(args.values, 0, static_cast<uint64_t>(args.count)));
  Update(uses, ElementsOf(args.found, 0, 1));
  return uses;
}

template <typename... Args>
absl::Status Put(void* stream, const char* kernel, const Args&... args) {
  Recording::Stream* const handle = Recording::ToStream(stream);
  MILLRACE_ASSIGN_OR_RETURN(const Uses uses, UsesOf(handle->recording, args...));
  handle->recording.Work(handle->number, kernel, uses);
  return absl::OkStatus();
}

}  // namespace

const UpdateKernels& RecordingUpdateKernels() {
  static constexpr UpdateKernels kKernels = {
      .update = [](void* on, const UpdateArgs& args) { return Put(on, "update", args); },
      .largest_of_tiles =
          [](void* on, const TileNormArgs& args) {
            return Put(on, "largest of tiles", args, false);
          },
      .largest = [](void* on,
                    const NormArgsOfParameters& args) { return Put(on, "largest", args, false); },
      .squares_of_tiles =
          [](void* on, const TileNormArgs& args) {
            return Put(on, "squares of tiles", args, true);
          },
      .squares = [](void* on,
                    const NormArgsOfParameters& args) { return Put(on, "squares", args, true); },
      .average = [](void* on, const AverageArgs& args) { return Put(on, "average", args); },
      .exchange = [](void* on, const ExchangeArgs& args) { return Put(on, "exchange", args); },
      .find_non_finite = [](void* on,
                            const NonFiniteArgs& args) { return Put(on, "non-finite", args); },
  };
  return kKernels;
}

}  // namespace millrace::trainer::cuda::order
