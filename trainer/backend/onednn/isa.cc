#include "trainer/backend/onednn/isa.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer {

std::vector<std::string_view> ProcessorFlags() {
  std::vector<std::string_view> flags;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) flags.emplace_back("avx2");
  if (__builtin_cpu_supports("avx512f")) flags.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) flags.emplace_back("avx512_vnni");
  if (__builtin_cpu_supports("avx512bf16")) flags.emplace_back("avx512_bf16");
#endif
  return flags;
}

std::string IsaName(dnnl::cpu_isa isa, std::span<const std::string_view> flags) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx512_core:
      return "AVX512_CORE";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX512_CORE_VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX512_CORE_BF16";
    default:
      break;
  }
  std::string text;
  for (const std::string_view flag : flags) {
    absl::StrAppend(&text, text.empty() ? "a processor with " : " ", ToAbsl(flag));
  }
  return text.empty() ? "no vector instructions that are known here" : text;
}

}  // namespace millrace::trainer
