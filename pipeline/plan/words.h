#ifndef MILLRACE_PIPELINE_PLAN_WORDS_H_
#define MILLRACE_PIPELINE_PLAN_WORDS_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/auto_augment.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "augment/token_ops.h"
#include "base/status.h"

// Options of maps that are one of a few words.

namespace millrace::pipeline {

template <typename Value, size_t kSize>
using Words = std::array<std::pair<std::string_view, Value>, kSize>;

inline constexpr Words<augment::ResizeMethod, 4> kResizeMethods = {
    {{"bilinear", augment::ResizeMethod::kBilinear},
     {"nearest", augment::ResizeMethod::kNearest},
     {"bicubic", augment::ResizeMethod::kBicubic},
     {"area", augment::ResizeMethod::kArea}}};

inline constexpr Words<augment::PadMode, 4> kPadModes = {
    {{"constant", augment::PadMode::kConstant},
     {"edge", augment::PadMode::kEdge},
     {"reflect", augment::PadMode::kReflect},
     {"symmetric", augment::PadMode::kSymmetric}}};

// True if pixels are blended.
inline constexpr Words<bool, 2> kAffineMethods = {{{"nearest", false}, {"bilinear", true}}};

inline constexpr Words<augment::AugmentPolicy, 3> kAugmentPolicies = {
    {{"rand_augment", augment::AugmentPolicy::kRandAugment},
     {"trivial_augment", augment::AugmentPolicy::kTrivialAugment},
     {"imagenet", augment::AugmentPolicy::kImageNet}}};

// True if text is split into words.
inline constexpr Words<bool, 2> kSplits = {{{"none", false}, {"whitespace", true}}};

// True if tokens are added in front.
inline constexpr Words<bool, 2> kSides = {{{"right", false}, {"left", true}}};

inline constexpr Words<augment::PadTokensOptions::Truncate, 3> kTruncates = {
    {{"right", augment::PadTokensOptions::Truncate::kRight},
     {"left", augment::PadTokensOptions::Truncate::kLeft},
     {"none", augment::PadTokensOptions::Truncate::kNever}}};

// The value that `word` stands for; nullopt when it is none of them.
template <typename Value, size_t kSize>
std::optional<Value> Find(const Words<Value, kSize>& words, std::string_view word) {
  for (const auto& [name, value] : words) {
    if (name == word) return value;
  }
  return std::nullopt;
}

// `"a", "b" or "c"`.
template <typename Value, size_t kSize>
std::string ListOf(const Words<Value, kSize>& words) {
  std::string list;
  for (size_t i = 0; i < kSize; ++i) {
    const char* const between = i == 0 ? "" : i + 1 == kSize ? " or " : ", ";
    absl::StrAppend(&list, between, "\"", ToAbsl(words[i].first), "\"");
  }
  return list;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_WORDS_H_
