#ifndef MILLRACE_BASE_SHAPE_H_
#define MILLRACE_BASE_SHAPE_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace millrace {

// The extents of a tensor, at most kMaxRank of them. A value type without allocation.
// kUnknown (-1) stands for an extent that differs from sample to sample; only a Schema holds it.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  static constexpr int64_t kUnknown = -1;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents) {
    assert(extents.size() <= kMaxRank);
    for (int64_t extent : extents) extents_[rank_++] = extent;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return extents_[i]; }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }

  // The product of the extents; 1 for a scalar. REQUIRES: IsKnown().
  int64_t num_elements() const;
  // False when an extent is kUnknown.
  bool IsKnown() const;
  // True when `actual` (known) has this rank and equals every known extent.
  bool Admits(const Shape& actual) const;
  // `extent` followed by this shape's extents. REQUIRES: rank() < kMaxRank.
  Shape Prepend(int64_t extent) const;

  // "[64, 224, 224, 3]", with "?" for an unknown extent; "[]" for a scalar.
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a.extents_[i] != b.extents_[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_SHAPE_H_
