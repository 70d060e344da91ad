#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/jpeg/target.h"
#include "augment/rows/kernels.h"
#include "base/crc32c.h"
#include "base/simd.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "tests/augment/image_testing.h"
#include "tests/pipeline/executor/own_process.h"
#include "tests/sanitized.h"
#include "tests/temp_folder.h"

// The same bits whatever instructions the processor has. Who chooses by them, here or in a library
// underneath, does so once in a process, and asks the environment first:
//
//   MILLRACE_SIMD    our own: the checksum of short records, rows of pixels and numbers (Highway's
//                    kernels), the JPEG decoder (base/simd.h)
//   JSIMD_FORCE...   libjpeg-turbo: its colour conversion, upsampling and DCT
//   GLIBC_TUNABLES   copies, and log and exp, which the crop's random region goes through; not
//                    those of the stage log, which are our own
//
// Ours are asked which they have taken. ISA-L chooses too and cannot be told; its sums are compared
// with plain ones in the readers' tests.

namespace millrace::pipeline {
namespace {

struct Level {
  std::string name;
  SimdLevel limit;  // of ours
  std::string environment;
};

// From the least up; what a processor lacks is not used, so the levels above it are alike.
std::vector<Level> Levels() {
  const std::string no_avx = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4";
  return {{"none", SimdLevel::kNone,
           absl::StrCat("MILLRACE_SIMD=none JSIMD_FORCENONE=1 ", no_avx, ",-SSE4_2,-SSSE3")},
          {"sse2", SimdLevel::kNone, absl::StrCat("MILLRACE_SIMD=none JSIMD_FORCESSE2=1 ", no_avx)},
          {"sse4.2", SimdLevel::kSse42,
           absl::StrCat("MILLRACE_SIMD=sse4.2 JSIMD_FORCESSE2=1 ", no_avx)},
          {"avx2", SimdLevel::kAvx2,
           "MILLRACE_SIMD=avx2 JSIMD_FORCEAVX2=1 GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F"},
          {"all", SimdLevel::kAvx512, "MILLRACE_SIMD=avx512"}};
}

std::string Described(bool crc, int64_t rows, augment::jpeg::Level jpeg) {
  return absl::StrCat("kernels: inline checksums ", crc ? 1 : 0, ", rows ",
                      augment::RowKernelLevelName(rows), ", JPEG ", static_cast<int>(jpeg), "\n");
}

// REQUIRES: this process has no limit.
int64_t BestRowsUpTo(SimdLevel limit) {
  const std::vector<int64_t> levels = augment::RowKernelLevels();
  if (limit == SimdLevel::kAvx512) return levels.front();
  for (const int64_t level : levels) {
    const bool avx2 = std::string_view(augment::RowKernelLevelName(level)) == "AVX2";
    if (limit == SimdLevel::kAvx2 && avx2) return level;
  }
  return levels.back();
}

// Those of our kernels that are to be used where the processor has them, up to `limit`.
std::string KernelsUpTo(SimdLevel limit) {
  using augment::jpeg::Level;
  bool crc = false;
  Level jpeg = Level::kScalar;
#ifdef __x86_64__
  crc = limit >= SimdLevel::kSse42 && __builtin_cpu_supports("sse4.2");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
  if (limit >= SimdLevel::kAvx2 && avx2) jpeg = Level::kAvx2;
  const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2");
  if (limit >= SimdLevel::kAvx512 && avx512) jpeg = Level::kAvx512;
#endif
  return Described(crc, BestRowsUpTo(limit), jpeg);
}

// Images of all kinds, and records that are too short and too long for the inline checksum.
void WriteShard(const std::string& path) {
  using namespace augment::testing;  // NOLINT: it is only here
  auto writer = readers::TfRecordWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<JpegShape> shapes = {
      {}, {.h_samp = 2, .v_samp = 2}, {.h_samp = 2}, {.progressive = true}, {.quality = 30}};
  for (uint32_t i = 0; i < 40; ++i) {
    const int64_t side = i % 4 == 0 ? 9 : 40 + 7 * i;
    readers::ExampleBuilder example;
    example.AddBytes("image/encoded",
                     EncodeJpeg(MakeImage(side, side + i, 3, i), shapes[i % shapes.size()]));
    example.AddBytes("mask/encoded", EncodeJpeg(MakeImage(side, side + i, 3, i + 1), shapes[0]));
    const float corner = static_cast<float>(i) / 80;
    const std::vector<float> boxes = {0.1f, corner, 0.7f, 0.9f, corner, 0.3f, 0.8f, 0.6f};
    example.AddFloats("boxes", boxes);
    example.AddInt("label", i);
    example.AddInt("user", 7919 * i);
    ASSERT_TRUE((*writer)->Write(example.Serialize()).ok());
  }
  for (uint32_t i = 0; i < 40; ++i) {
    readers::ExampleBuilder example;
    example.AddInt("label", i);
    example.AddInt("user", 7919 * i);
    ASSERT_TRUE((*writer)->Write(example.Serialize()).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
}

std::vector<std::string> Plans(const std::string& shard) {
  const std::string source =
      absl::StrCat("seed: 5 stage { tfrecord { files: \"", shard, "\" } }\n");
  const std::string take = absl::StrCat("stage { take { count: ", kSanitized ? 16 : 40, " } }");
  const std::string images =
      absl::StrCat(source, take,
                   "stage { global_shuffle {} }\n"
                   "stage { repeat { epochs: 2 } }\n"
                   "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES }\n"
                   "  feature { key: \"label\" dtype: INT64 } } } stage { decode_image {} }\n");
  const std::string with_targets = absl::StrCat(
      source, take,
      "stage { global_shuffle {} }\n"
      "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES }\n"
      "  feature { key: \"mask/encoded\" dtype: BYTES }\n"
      "  feature { key: \"boxes\" dtype: FLOAT32 shape: [-1, 4] } } }\n"
      "stage { decode_image {} }\n"
      "stage { decode_image { field: \"mask/encoded\" output: \"mask\" channels: 1 } }\n");
  const std::string to_floats =
      "stage { normalize { mean: [123.675, 116.28, 103.53] stddev: [58.4, 57.1, 57.4] } }\n";
  const std::string floats = to_floats + "stage { batch { size: 16 } }\n";
  return {
      absl::StrCat(images,
                   "stage { random_resized_crop { height: 33 width: 35 } } stage { flip {} }\n",
                   floats),
      absl::StrCat(images, "stage { resize { height: 41 width: 27 } }\n", floats),
      absl::StrCat(images,
                   "stage { resize { shorter: 30 antialias: true } }\n"
                   "stage { pad { top: 3 left: 5 mode: \"reflect\" } }\n"
                   "stage { random_crop { height: 28 width: 27 } }\n"
                   "stage { flip { vertical: true } }\n"
                   "stage { resize { height: 31 width: 26 method: \"bicubic\" } }\n"
                   "stage { resize { height: 19 width: 18 method: \"area\" } }\n"
                   "stage { center_crop { height: 16 width: 16 } } stage { transpose {} }\n"
                   "stage { batch { size: 16 } }\n"),
      absl::StrCat(images,
                   "stage { resize { height: 40 width: 41 antialias: true } }\n"
                   "stage { color_jitter { brightness: 0.4 contrast: 0.4 saturation: 0.4 hue: "
                   "0.1 } }\n"
                   "stage { gaussian_blur { kernel_size: 9 } }\n"
                   "stage { auto_augment {} } stage { auto_augment { policy: \"imagenet\" } }\n"
                   "stage { auto_augment { policy: \"trivial_augment\" } }\n"
                   "stage { affine { degrees: [-180, 180] translate: [0.1, 0.1] scale: [0.5, 2] "
                   "shear_x: [-20, 20] method: \"bilinear\" } }\n"
                   "stage { random_erasing {} } stage { cutout { size: 9 } }\n"
                   "stage { sharpness { factor: [0, 2] } }\n"
                   "stage { grayscale { probability: 0.2 } }\n"
                   "stage { equalize { probability: 0.5 } } stage { autocontrast {} }\n"
                   "stage { solarize { probability: 0.5 } } stage { posterize { bits: 5 } }\n"
                   "stage { batch { size: 16 } }\n"),
      absl::StrCat(images,
                   "stage { resize { height: 32 width: 32 } } stage { aug_mix {} }\n"
                   "stage { batch { size: 16 } }\n"
                   "stage { mixup_or_cutmix { mixup_alpha: 0.3 num_classes: 40 group: 4 } }\n"),
      // Casts of floats, of rows of pixels and of whole images (behind invert, which is not fused).
      absl::StrCat(images,
                   "stage { random_resized_crop { height: 33 width: 35 } } stage { flip {} }\n",
                   to_floats, "stage { cast { field: \"image\" dtype: FLOAT16 } }\n",
                   "stage { pad_channels {} } stage { transpose {} }\n"
                   "stage { batch { size: 16 } }\n"
                   "stage { mixup { alpha: 0.3 num_classes: 40 group: 4 } }\n"),
      absl::StrCat(
          images,
          "stage { resize { height: 41 width: 27 } } stage { invert { probability: 0.5 } }\n"
          "stage { cast { field: \"image\" dtype: BFLOAT16 scale: 0.017 } }\n"
          "stage { pad_channels { channels: 5 value: 0.3 } }\n"
          "stage { transpose { perm: [1, 2, 0] } } stage { batch { size: 16 } }\n"
          "stage { mixup { alpha: 0.3 num_classes: 40 group: 4 } }\n"),
      absl::StrCat(images,
                   "stage { resize { height: 23 width: 21 } } stage { pad_channels {} }\n"
                   "stage { transpose {} } stage { batch { size: 16 } }\n"),
      absl::StrCat(std::regex_replace(images, std::regex("decode_image .."),
                                      "decode_image { dct_downscale: true }"),
                   "stage { random_resized_crop { height: 20 width: 21 area: [0.5, 1] } }\n"
                   "stage { transpose {} } stage { batch { size: 16 } }\n"),
      absl::StrCat(with_targets,
                   "stage { random_resized_crop { height: 37 width: 33 area: [0.3, 1]\n"
                   "  boxes { normalized: true min_area_share: 0.2 } mask: \"mask\" } }\n"
                   "stage { flip { boxes { normalized: true } mask: \"mask\" } }\n"
                   "stage { padded_batch { size: 8 } }\n"),
      absl::StrCat(source,
                   "stage { parse_example { feature { key: \"label\" dtype: INT64 }\n"
                   "  feature { key: \"user\" dtype: INT64 } } }\n"
                   "stage { hash { field: \"user\" num_bins: 1000 salt: 3 } }\n"
                   "stage { cast { field: \"label\" dtype: FLOAT32 scale: 0.37 } }\n"
                   "stage { bucketize { field: \"label\" boundary: [0.37, 2, 5.5, 11.1] } }\n"
                   "stage { batch { size: 4 } }\n"),
      absl::StrCat(
          source,
          "stage { parse_example { feature { key: \"label\" dtype: INT64 } } }\n"
          "stage { cast { field: \"label\" dtype: FLOAT64 } }\n"
          "stage { scale { field: \"label\" factor: 0.37 offset: 0.1 } }\n"
          "stage { log { field: \"label\" } } stage { log { field: \"label\" offset: 3 } }\n"
          "stage { batch { size: 4 } }\n"),
      absl::StrCat(source,
                   "stage { shuffle { buffer_size: 20 } }\n"
                   "stage { parse_example { feature { key: \"label\" dtype: INT64 } } }\n"
                   "stage { filter { predicate: \"label in (1, 3, 4, 9)\" } }\n"
                   "stage { batch { size: 4 } }\n")};
}

uint64_t DigestOf(const std::string& text, const std::string& index_folder, int threads = 0) {
  StreamDigest digest;
  const auto plan = Plan::FromText(text, "plan");
  EXPECT_TRUE(plan.ok()) << plan.status();
  ContextOptions context;
  context.threads = threads;
  OpenOptions options;
  options.index_folder = index_folder;
  const auto pipeline = Pipeline::Open(*plan, *MakeContext(context), options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status() << text;
  if (!pipeline.ok()) return 0;
  while (true) {
    const auto batch = (*pipeline)->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return digest.value();
    digest.Add(**batch);
  }
}

// Each in a process of its own, by the case below.
TEST(SimdLevelProbe, DISABLED_Digests) {
  const std::string folder = std::getenv("SIMD_LEVEL_FOLDER");
  for (const std::string& text : Plans(folder + "/shard")) {
    std::cout << absl::StrCat("digest ", absl::Hex(DigestOf(text, folder + "/index"))) << std::endl;
  }
  std::cout << Described(HasCrcInstruction(), augment::RowKernelLevelInUse(),
                         augment::jpeg::BestLevel())
            << std::flush;
}

// S-RANDOM-2.
TEST(SimdLevelTest, PlansGiveTheSameBitsForAnyNumberOfThreads) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(WriteShard(folder / "shard"));
  for (const std::string& text : Plans(folder / "shard")) {
    const uint64_t one = DigestOf(text, folder / "index", 1);
    EXPECT_EQ(DigestOf(text, folder / "index", 5), one) << text;
  }
}

std::vector<std::string> DigestLines(const std::string& output) {
  const std::regex line("digest [0-9a-f]+");
  return {std::sregex_token_iterator(output.begin(), output.end(), line), {}};
}

// S-RANDOM-2, S-ROUND-1.
TEST(SimdLevelTest, PlansGiveTheSameBitsAtEveryLevel) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(WriteShard(folder / "shard"));
  std::vector<std::string> expected;
  std::vector<Level> levels = Levels();
  if (kSanitized) levels.erase(levels.begin() + 1, levels.end() - 1);
  for (const Level& level : levels) {
    std::string output;
    ASSERT_TRUE(RunInOwnProcess(
        "SimdLevelProbe.DISABLED_Digests",
        absl::StrCat("SIMD_LEVEL_FOLDER='", folder.path(), "' ", level.environment), output))
        << output;
    const std::vector<std::string> digests = DigestLines(output);
    ASSERT_EQ(digests.size(), Plans("").size()) << output;
    if (expected.empty()) expected = digests;
    EXPECT_EQ(digests, expected) << level.name;
    EXPECT_THAT(output, testing::HasSubstr(KernelsUpTo(level.limit))) << level.name;
  }
}

}  // namespace
}  // namespace millrace::pipeline
