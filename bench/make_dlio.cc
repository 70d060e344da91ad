// bench_make_dlio FOLDER FILES SAMPLES: TFRecord shards as DLIO's generator writes them for
// ResNet-50 of MLPerf Storage: Examples with `image`, 338 x 338 random bytes (record_length_bytes:
// 114660.07), and `size`. The benchmark has 1,024 files of 1,251 samples. The same arguments give
// the same files.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"

namespace millrace::bench {
namespace {

constexpr int64_t kSide = 338;

absl::Status WriteShard(const std::string& path, int samples, uint64_t seed) {
  MILLRACE_ASSIGN_OR_RETURN(const auto writer, readers::TfRecordWriter::Open(path));
  std::mt19937_64 random(seed);
  std::string image(kSide * kSide, '\0');
  readers::ExampleBuilder builder;
  for (int i = 0; i < samples; ++i) {
    for (size_t at = 0; at < image.size(); at += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(&image[at], &word, std::min(sizeof(word), image.size() - at));
    }
    builder.AddBytes("image", image);
    builder.AddInt("size", kSide);
    MILLRACE_RETURN_IF_ERROR(writer->Write(builder.Serialize()));
  }
  return writer->Close();
}

int Main(int argc, char** argv) {
  int files = 0, samples = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[2], &files) || !absl::SimpleAtoi(argv[3], &samples) ||
      files < 1 || samples < 1) {
    std::fprintf(stderr, "usage: bench_make_dlio FOLDER FILES SAMPLES, both numbers at least 1\n");
    return 2;
  }
  const std::string folder = argv[1];
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);  // what is wrong with it the writer says
  for (int i = 0; i < files; ++i) {
    const std::string path = absl::StrCat(folder, "/img_", i, "_of_", files, ".tfrecord");
    const absl::Status status = WriteShard(path, samples, static_cast<uint64_t>(i));
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
