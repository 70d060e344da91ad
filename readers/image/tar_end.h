#ifndef MILLRACE_READERS_IMAGE_TAR_END_H_
#define MILLRACE_READERS_IMAGE_TAR_END_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "readers/image/libarchive.h"

namespace millrace::readers::internal {

// Checks the bytes of a tar, which may be compressed, from the end of its last member on: an end
// mark and nothing behind it. libarchive stops at zeros, and where nothing is left. A compressed
// one is inflated again for that.
//   DATA_LOSS  no end mark, or something follows it, or more zeros than one has
//   other      the file cannot be read
absl::Status CheckTarEnd(const Libarchive& lib, const std::string& path, uint64_t end);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_TAR_END_H_
