#include "trainer/backend/onednn/half_copies.h"

#include <algorithm>

#include "base/half.h"

namespace millrace::trainer {
namespace {

bool IsHalf(const dnnl::memory& memory) {
  return memory.get_desc().data_type() == dnnl::memory::data_type::bf16;
}

}  // namespace

std::vector<float> FloatsOf(const dnnl::memory& memory) {
  const size_t bytes = memory.get_desc().get_size();
  std::vector<float> floats(bytes / (IsHalf(memory) ? sizeof(BFloat) : sizeof(float)));
  const void* const data = memory.get_data_handle();
  if (IsHalf(memory)) {
    std::transform(static_cast<const BFloat*>(data),
                   static_cast<const BFloat*>(data) + floats.size(), floats.begin(),
                   [](BFloat value) { return ToFloat(value); });
  } else {
    std::copy_n(static_cast<const float*>(data), floats.size(), floats.begin());
  }
  return floats;
}

void CopyFloats(std::span<const float> from, const dnnl::memory& to) {
  void* const data = to.get_data_handle();
  if (IsHalf(to)) {
    std::ranges::transform(from, static_cast<BFloat*>(data),
                           [](float value) { return ToBFloat(value); });
  } else {
    std::ranges::copy(from, static_cast<float*>(data));
  }
}

}  // namespace millrace::trainer
