#ifndef MILLRACE_CLI_DOCTOR_DECODE_RATE_H_
#define MILLRACE_CLI_DOCTOR_DECODE_RATE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::cli::doctor {

// How fast one core decodes a JPEG.
struct DecodeRate {
  double images_per_second = 0;  // of the thread's processor time; 0: not measured
  double core_share = 1;         // the part of the time in which the thread had a core
  uint64_t image_bytes = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::string from = {};   // the file whose first JPEG it is; empty: it was made
  std::string error = {};  // why it was not measured
};

// Processor time that the calling thread has used.
double ThreadCpuSeconds();

struct DecodeRateOptions {
  std::vector<std::string> files = {};  // the first whole JPEG of them is decoded, if one has any
  double seconds = 1;
  std::chrono::steady_clock::time_point (*now)() = &std::chrono::steady_clock::now;
  double (*cpu_seconds)() = &ThreadCpuSeconds;
  std::function<void()> tick = {};  // called between two images; may be empty
};

// Decodes one image again and again on the calling thread, whole, as decode_image without a crop
// behind it does.
DecodeRate MeasureDecodeRate(const DecodeRateOptions& options);

// A JPEG of 500 x 375 pixels and about 95 KiB, as photographs of that size have them, always the
// same.
//   RESOURCE_EXHAUSTED, INTERNAL  it could not be encoded
absl::StatusOr<std::string> MakeJpeg();

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_DECODE_RATE_H_
