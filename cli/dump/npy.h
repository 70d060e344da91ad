#ifndef MILLRACE_CLI_DUMP_NPY_H_
#define MILLRACE_CLI_DUMP_NPY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/tensor.h"

// Files of NumPy's format 1.0 (numpy.lib.format), which hold one array in C order.

namespace millrace::cli {

// The bytes in front of the array's. `dtype` is Python's text of it: "'<f4'", or "[('x', '<i8')]"
// for a structure.
std::string NpyHead(std::string_view dtype, std::span<const int64_t> extents);

// Writes a file of a tensor, whole or not at all. bfloat16, which NumPy lacks, becomes float32.
absl::Status WriteNpy(const std::string& path, const ConstTensorView& tensor);

// Writes a file of `data`, the bytes of an array, in the same way.
absl::Status WriteNpy(const std::string& path, std::string_view dtype,
                      std::span<const int64_t> extents, std::span<const std::byte> data);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_DUMP_NPY_H_
