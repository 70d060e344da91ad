#include "pipeline/order/mix.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kPeriod = MixSchedule::kPeriod;
constexpr uint64_t kCachedBlocks = 1024;  // blocks of 4 KiB

// The ten bits of k in reverse.
uint64_t Reversed(uint64_t k) {
  uint64_t reversed = 0;
  for (int bit = 0; bit < 10; ++bit) reversed |= (k >> bit & 1) << (9 - bit);
  return reversed;
}

absl::Status CheckWeights(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight ", weight, " is not a finite number of at least 0"));
    }
    sum += weight;
  }
  if (!std::isfinite(sum) || sum <= 0) {
    return absl::InvalidArgumentError("the weights must have a finite sum above 0");
  }
  return absl::OkStatus();
}

// Points of each input: the largest remainders are rounded up; no positive weight gets none.
std::vector<uint64_t> PointsOf(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> points(weights.size());
  std::vector<double> remainders(weights.size());
  uint64_t given = 0;
  for (size_t j = 0; j < weights.size(); ++j) {
    const double exact = weights[j] / sum * static_cast<double>(kPeriod);
    points[j] = static_cast<uint64_t>(exact);
    remainders[j] = weights[j] > 0 ? exact - std::floor(exact) : -1;
    if (weights[j] > 0 && points[j] == 0) {
      points[j] = 1;
      remainders[j] = -1;
    }
    given += points[j];
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t j) { return remainders[j]; });
  for (size_t i = 0; given < kPeriod; i = (i + 1) % order.size()) {
    if (weights[order[i]] <= 0) continue;
    ++points[order[i]];
    ++given;
  }
  while (given > kPeriod) {
    --*std::ranges::max_element(points);
    --given;
  }
  return points;
}

}  // namespace

absl::StatusOr<MixSchedule> MixSchedule::Make(std::span<const double> weights, size_t num_inputs,
                                              uint64_t key) {
  if (num_inputs == 0 || num_inputs > kMaxInputs) {
    return absl::InvalidArgumentError("mix takes 1 to 1024 inputs");
  }
  const std::vector<double> equal(num_inputs, 1.0);
  if (weights.empty()) weights = equal;
  if (weights.size() != num_inputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("mix has ", num_inputs, " inputs and ", weights.size(), " weights"));
  }
  if (absl::Status status = CheckWeights(weights); !status.ok()) return status;
  MixSchedule schedule;
  schedule.key_ = key;
  const std::vector<uint64_t> points = PointsOf(weights);
  uint64_t begin = 0;
  for (const uint64_t num_points : points) {
    const uint64_t end = begin + num_points;
    schedule.ends_.push_back(end);
    // Points below p that are r modulo kBlock: (p + kBlock - 1 - r) / kBlock.
    std::vector<uint32_t> before(kBlock + 1, 0);
    for (uint64_t k = 0; k < kBlock; ++k) {
      const uint64_t up = kBlock - 1 - Reversed(k);
      const uint64_t count = (end + up) / kBlock - (begin + up) / kBlock;
      before[k + 1] = before[k] + static_cast<uint32_t>(count);
    }
    schedule.before_.push_back(std::move(before));
    begin = end;
  }
  return schedule;
}

size_t MixSchedule::InputOf(uint64_t point) const {
  return static_cast<size_t>(std::ranges::upper_bound(ends_, point) - ends_.begin());
}

uint64_t MixSchedule::CountBefore(size_t input, uint64_t block) const {
  return block / kBlock * before_[input][kBlock] + before_[input][block % kBlock];
}

std::unique_ptr<const MixBlock> MixSchedule::MakeBlock(uint64_t number) const {
  auto block = std::make_unique<MixBlock>();
  block->number = number;
  block->input.resize(kBlock);
  block->rank.resize(kBlock);
  const Permutation order(kBlock, Mix64(key_ + number));
  const uint64_t residue = Reversed(number % kBlock);
  std::vector<uint16_t> count(ends_.size(), 0);
  for (uint64_t i = 0; i < kBlock; ++i) {
    const size_t input = InputOf(order(i) * kBlock + residue);
    block->input[i] = static_cast<uint16_t>(input);
    block->rank[i] = count[input]++;
  }
  return block;
}

MixSchedule::Pick MixSchedule::At(uint64_t position, MixMemo& memo) const {
  const uint64_t number = position / kBlock;
  if (memo.blocks.empty()) memo.blocks.resize(kCachedBlocks);
  std::unique_ptr<const MixBlock>& block = memo.blocks[number % kCachedBlocks];
  if (block == nullptr || block->number != number) block = MakeBlock(number);
  const size_t input = block->input[position % kBlock];
  return {.input = input, .index = CountBefore(input, number) + block->rank[position % kBlock]};
}

uint64_t MixSchedule::PositionOf(size_t input, uint64_t index) const {
  const std::vector<uint32_t>& before = before_[input];
  const uint64_t per_period = before[kBlock];
  if (per_period == 0 || index / per_period >= kMaxCount / kPeriod) return kInfinite;
  const auto rest = static_cast<uint32_t>(index % per_period);
  // The last block with no more than `rest` elements before it is the one with element `rest`.
  const auto next = std::ranges::upper_bound(before, rest);
  const auto in_period = static_cast<uint64_t>(next - before.begin() - 1);
  const uint64_t number = index / per_period * kBlock + in_period;
  const std::unique_ptr<const MixBlock> block = MakeBlock(number);
  const uint64_t rank = rest - before[in_period];
  for (uint64_t i = 0; i < kBlock; ++i) {
    if (block->input[i] == input && block->rank[i] == rank) return number * kBlock + i;
  }
  return kInfinite;  // not reached: the block has this element
}

uint64_t MixSchedule::Size(std::span<const uint64_t> input_sizes) const {
  uint64_t size = kInfinite;
  for (size_t input = 0; input < input_sizes.size(); ++input) {
    if (input_sizes[input] == kInfinite) continue;
    size = std::min(size, PositionOf(input, input_sizes[input]));
  }
  return size;
}

}  // namespace millrace::pipeline
