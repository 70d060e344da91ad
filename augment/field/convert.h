#ifndef MILLRACE_AUGMENT_FIELD_CONVERT_H_
#define MILLRACE_AUGMENT_FIELD_CONVERT_H_

#include <cstdint>

#include "base/dtype.h"

namespace millrace::augment {

// Every dtype that an image may have.
inline constexpr DType kAnyPixel[] = {DType::kU8,  DType::kI32,  DType::kI64, DType::kF16,
                                      DType::kF32, DType::kBF16, DType::kF64};

// Writes `value` as `dtype`, converted as by MakeCast. REQUIRES: not kBytes.
void ConvertFloat(float value, DType dtype, void* out);

// Converts `count` elements, as MakeCast with this scale does.
using ConvertFunction = void (*)(const void* in, int64_t count, float scale, void* out);
// REQUIRES: neither is kBytes.
ConvertFunction FindConvert(DType from, DType to);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FIELD_CONVERT_H_
