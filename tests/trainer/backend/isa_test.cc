#include "trainer/backend/onednn/isa.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace millrace::trainer {
namespace {

using Flags = std::vector<std::string_view>;

TEST(IsaTest, AKnownSetHasItsNameWhateverTheProcessorHas) {
  for (const Flags& flags : {Flags{}, Flags{"avx2", "avx512f"}}) {
    EXPECT_EQ(IsaName(dnnl::cpu_isa::avx2, flags), "AVX2");
    EXPECT_EQ(IsaName(dnnl::cpu_isa::avx512_core_bf16, flags), "AVX512_CORE_BF16");
  }
}

TEST(IsaTest, AnUnknownSetIsToldByTheFlagsOfTheProcessor) {
  for (const int value : {999, 12345, static_cast<int>(dnnl::cpu_isa::all)}) {
    const auto isa = static_cast<dnnl::cpu_isa>(value);
    const Flags flags = {"avx2", "avx512f", "avx512_vnni"};
    EXPECT_EQ(IsaName(isa, flags), "a processor with avx2 avx512f avx512_vnni");
    EXPECT_EQ(IsaName(isa, Flags{"avx2"}), "a processor with avx2");
    EXPECT_EQ(IsaName(isa, Flags{}), "no vector instructions that are known here");
  }
}

// The kernel has the same names.
TEST(IsaTest, TheFlagsAreThoseThatTheKernelTells) {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && !line.starts_with("flags")) {
  }
  if (!line.starts_with("flags")) GTEST_SKIP() << "/proc/cpuinfo tells no flags";
  std::istringstream words(line);
  std::vector<std::string> told;
  for (std::string word; words >> word;) told.push_back(word);
  const Flags flags = ProcessorFlags();
  for (const char* name : {"avx2", "avx512f", "avx512_vnni", "avx512_bf16"}) {
    EXPECT_EQ(std::ranges::count(flags, name), std::ranges::count(told, name)) << name;
  }
}

}  // namespace
}  // namespace millrace::trainer
