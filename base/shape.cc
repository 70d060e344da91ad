#include "base/shape.h"

#include "absl/strings/str_cat.h"

namespace millrace {

int64_t Shape::num_elements() const {
  int64_t product = 1;
  for (int64_t extent : extents()) product *= extent;
  return product;
}

bool Shape::IsKnown() const {
  for (int64_t extent : extents()) {
    if (extent == kUnknown) return false;
  }
  return true;
}

bool Shape::Admits(const Shape& actual) const {
  if (rank_ != actual.rank_) return false;
  for (int i = 0; i < rank_; ++i) {
    if (extents_[i] != kUnknown && extents_[i] != actual.extents_[i]) return false;
  }
  return true;
}

Shape Shape::Prepend(int64_t extent) const {
  assert(rank_ < kMaxRank);
  Shape result;
  result.extents_[result.rank_++] = extent;
  for (int64_t e : extents()) result.extents_[result.rank_++] = e;
  return result;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    if (extents_[i] == kUnknown) {
      text += '?';
    } else {
      absl::StrAppend(&text, extents_[i]);
    }
  }
  return text + "]";
}

}  // namespace millrace
