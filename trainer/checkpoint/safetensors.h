#ifndef MILLRACE_TRAINER_CHECKPOINT_SAFETENSORS_H_
#define MILLRACE_TRAINER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/shape.h"

// float32 tensors in the safetensors format (github.com/huggingface/safetensors):
//   8 bytes   N, little endian
//   N bytes   JSON: {"__metadata__": {string: string}, "NAME": {"dtype": "F32", "shape": [...],
//             "data_offsets": [begin, end]}, ...}, padded with spaces to a multiple of 8
//   the rest  the tensors' bytes, little endian, without holes
// The metadata of our files holds "digest": XXH3 (64 bits, 16 hex digits) of the header, with those
// digits as zeros, and the data. So every damaged bit is found; other programs read past it.

namespace millrace::trainer {

struct TensorRef {
  std::string name;
  Shape shape;
  std::span<const float> data;
};

struct TensorFile {
  struct Tensor {
    Shape shape;
    std::vector<float> data;
  };
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> skipped;  // dtypes of the tensors that hold no floats, by name
};

// Writes a file so that `path` is at every moment the whole old file or the whole new one: to a
// hidden temporary beside it, fsync, rename, fsync of the folder. `metadata` must not hold
// "digest". `write_function` is for tests. On failure it leaves no file behind.
//   ALREADY_EXISTS           `existing` is kKeep and there is a file `path`
//   RESOURCE_EXHAUSTED, ...  it cannot be written
absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, std::string>& metadata,
                              std::span<const TensorRef> tensors,
                              Existing existing = Existing::kReplace,
                              WriteFunction write_function = {});

// Reads and verifies a file that WriteSafetensors made. Nothing is allocated beyond the file's
// size.
//   NOT_FOUND  no such file
//   DATA_LOSS  it is damaged or not of this format; the text names file and reason
absl::StatusOr<TensorFile> ReadSafetensors(const std::string& path);

// Reads the metadata of such a file, without its digest, which is not verified.
//   as ReadSafetensors
absl::StatusOr<std::map<std::string, std::string>> ReadSafetensorsMetadata(const std::string& path);

// Reads a file of any program. Tensors of F64, F16 and BF16 become float32; those of other dtypes
// are skipped. A digest is verified if there is one.
//   NOT_FOUND, DATA_LOSS  as ReadSafetensors
absl::StatusOr<TensorFile> ReadForeignSafetensors(const std::string& path);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_CHECKPOINT_SAFETENSORS_H_
