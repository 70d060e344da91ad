#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "readers/tfrecord_format.h"
#include "tests/augment/image_testing.h"
#include "tests/pipeline/own_process.h"
#include "tests/temp_folder.h"

// The same bits whatever instructions the processor has. Who chooses by them, here or in a library
// underneath, does so once in a process, and asks the environment first:
//
//   MILLRACE_SIMD    the checksum of short records (readers/tfrecord_format.h)
//   JSIMD_FORCE...   libjpeg-turbo: its colour conversion, upsampling and DCT
//   GLIBC_TUNABLES   copies, and log and exp, which the crop's random region goes through; not those of
//                    the stage log, which are our own
//
// ISA-L chooses too and cannot be told; its sums are compared with plain ones in the readers' tests.

namespace millrace::pipeline {
namespace {

struct Level {
  std::string name;
  std::string environment;
};

// From the least up; what a processor lacks is not used, so the levels above it are alike.
std::vector<Level> Levels() {
  const std::string no_avx = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4";
  return {
      {"none", absl::StrCat("MILLRACE_SIMD=none JSIMD_FORCENONE=1 ", no_avx, ",-SSE4_2,-SSSE3")},
      {"sse2", absl::StrCat("MILLRACE_SIMD=none JSIMD_FORCESSE2=1 ", no_avx)},
      {"sse4.2", absl::StrCat("JSIMD_FORCESSE2=1 ", no_avx)},
      {"avx2", "JSIMD_FORCEAVX2=1"},
      {"all", ""}};
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
    example.AddInt("label", i);
    ASSERT_TRUE((*writer)->Write(example.Serialize()).ok());
  }
  for (uint32_t i = 0; i < 40; ++i) {
    readers::ExampleBuilder example;
    example.AddInt("label", i);
    ASSERT_TRUE((*writer)->Write(example.Serialize()).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
}

std::vector<std::string> Plans(const std::string& shard) {
  const std::string source =
      absl::StrCat("seed: 5 stage { tfrecord { files: \"", shard, "\" } }\n");
  const std::string images =
      absl::StrCat(source,
                   "stage { take { count: 40 } } stage { global_shuffle {} }\n"
                   "stage { repeat { epochs: 2 } }\n"
                   "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES }\n"
                   "  feature { key: \"label\" dtype: INT64 } } } stage { decode_image {} }\n");
  const std::string floats =
      "stage { normalize { mean: [123.675, 116.28, 103.53] stddev: [58.4, 57.1, 57.4] } }\n"
      "stage { batch { size: 16 } }\n";
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
  std::cout << "inline checksums " << readers::HasCrcInstruction() << std::endl;
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
  for (const Level& level : Levels()) {
    std::string output;
    ASSERT_TRUE(RunInOwnProcess(
        "SimdLevelProbe.DISABLED_Digests",
        absl::StrCat("SIMD_LEVEL_FOLDER='", folder.path(), "' ", level.environment), output))
        << output;
    const std::vector<std::string> digests = DigestLines(output);
    ASSERT_EQ(digests.size(), Plans("").size()) << output;
    if (expected.empty()) expected = digests;
    EXPECT_EQ(digests, expected) << level.name;
    const bool off = level.environment.find("MILLRACE_SIMD=none") != std::string::npos;
    const bool inlined = !off && readers::HasCrcInstruction();
    EXPECT_THAT(output, testing::HasSubstr(absl::StrCat("inline checksums ", inlined ? 1 : 0)));
  }
}

}  // namespace
}  // namespace millrace::pipeline
