#include "collectives/reducer/user_buffers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

absl::Status CheckOne(const GradientSpec& gradient, const TensorView& memory) {
  const auto bad = [&gradient](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of gradient '", gradient.name, "': ", what));
  };
  if (memory.dtype != gradient.dtype) {
    return bad(absl::StrCat(ToAbsl(Name(memory.dtype)), " where the gradient is ",
                            ToAbsl(Name(gradient.dtype))));
  }
  if (memory.shape != gradient.shape) {
    return bad(absl::StrCat("shape ", memory.shape.ToString(), " where the gradient has ",
                            gradient.shape.ToString()));
  }
  if (memory.shape.num_elements() <= 0) return absl::OkStatus();
  if (memory.data == nullptr) return bad("there is none");
  if (reinterpret_cast<uintptr_t>(memory.data) % SizeOf(memory.dtype) != 0) {
    return bad(absl::StrCat("not aligned to its elements of ", SizeOf(memory.dtype), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckApart(const std::vector<GradientSpec>& gradients,
                        const std::vector<TensorView>& memory) {
  std::vector<size_t> order;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].size_bytes() > 0) order.push_back(i);
  }
  const auto begin = [&memory](size_t i) { return reinterpret_cast<uintptr_t>(memory[i].data); };
  std::ranges::sort(order, {}, begin);
  for (size_t at = 1; at < order.size(); ++at) {
    const size_t before = order[at - 1];
    if (begin(before) + memory[before].size_bytes() <= begin(order[at])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("memory of gradient '", gradients[order[at]].name, "': overlaps that of '",
                     gradients[before].name, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUserBuffers(const std::vector<GradientSpec>& gradients,
                              const std::vector<TensorView>& memory) {
  if (memory.size() < gradients.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory of gradient '", gradients[memory.size()].name, "' is missing: there are ",
        gradients.size(), " gradients and memory of ", memory.size()));
  }
  if (memory.size() > gradients.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of ", memory.size(), " gradients for ", gradients.size(), " of them"));
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckOne(gradients[i], memory[i]));
  }
  return CheckApart(gradients, memory);
}

UserBuffers::UserBuffers(const BucketPlan& plan, std::vector<TensorView> memory)
    : plan_(plan), memory_(std::move(memory)) {
  for (const BucketPlan::Bucket& bucket : plan_.buckets) {
    for (const size_t gradient : bucket.gradients) {
      if (memory_[gradient].size_bytes() > 0) order_.push_back(gradient);
    }
  }
}

template <typename Part>
void UserBuffers::ForEach(size_t offset, size_t bytes, const Part& part) const {
  const size_t end = offset + bytes;
  // The last gradient that begins at `offset` or before, or the first one.
  auto next = std::ranges::upper_bound(order_, offset, {},
                                       [this](size_t gradient) { return plan_.offsets[gradient]; });
  if (next != order_.begin()) --next;
  for (size_t at = offset; at < end;) {
    const bool any = next != order_.end();
    const size_t begin = any ? plan_.offsets[*next] : end;
    const size_t behind = any ? begin + memory_[*next].size_bytes() : end;
    if (at >= begin && at < behind) {
      const size_t length = std::min(end, behind) - at;
      part(static_cast<std::byte*>(memory_[*next].data) + (at - begin), at - offset, length);
      at += length;
    } else if (at < begin) {
      const size_t length = std::min(end, begin) - at;
      part(nullptr, at - offset, length);
      at += length;
    }
    if (any && at >= behind) ++next;
  }
}

void UserBuffers::CopyIn(size_t offset, size_t bytes, std::byte* to) const {
  ForEach(offset, bytes, [to](const std::byte* from, size_t at, size_t length) {
    if (from == nullptr) {
      std::memset(to + at, 0, length);
    } else {
      std::memcpy(to + at, from, length);
    }
  });
}

void UserBuffers::CopyOut(size_t offset, size_t bytes, const std::byte* from) const {
  ForEach(offset, bytes, [from](std::byte* to, size_t at, size_t length) {
    if (to != nullptr) std::memcpy(to, from + at, length);
  });
}

}  // namespace millrace::collectives
