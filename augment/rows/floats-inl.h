// Values of a row as vectors of float32, for files that are compiled once for each set of
// instructions (kernels.cc) and include this one each time: Highway's way of sharing code among
// them. All that follows is one set's own, whose namespace it is in, so it may stand in many files
// but must be the same in all.
#if defined(MILLRACE_AUGMENT_ROWS_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_AUGMENT_ROWS_FLOATS_INL_H_
#undef MILLRACE_AUGMENT_ROWS_FLOATS_INL_H_
#else
#define MILLRACE_AUGMENT_ROWS_FLOATS_INL_H_
#endif

#include <cstdint>

// clang-format off
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using FloatsV = hn::Vec<Floats>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

HWY_INLINE FloatsV LoadFloats(const uint8_t* in) {
  constexpr hn::Rebind<uint8_t, Floats> bytes;
  constexpr hn::Rebind<int32_t, Floats> words;
  return hn::ConvertTo(Floats(), hn::PromoteTo(words, hn::LoadU(bytes, in)));
}
HWY_INLINE FloatsV LoadFloats(const float* in) { return hn::LoadU(Floats(), in); }

// Whole vectors, the last of which may lie over the one before; `f` must not mind. False: too few.
template <typename F>
HWY_INLINE bool ForVectors(int64_t count, const F& f) {
  if (count < kLanes) return false;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i);
  if (i < count) f(count - kLanes);
  return true;
}

// By a plain loop, in the type of the sums.
template <typename T, typename Sum>
HWY_INLINE void AddWeighed(const T* HWY_RESTRICT row, Sum weight, int64_t count,
                           Sum* HWY_RESTRICT sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += weight * static_cast<Sum>(row[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#endif  // per target
