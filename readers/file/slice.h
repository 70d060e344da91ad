#ifndef MILLRACE_READERS_FILE_SLICE_H_
#define MILLRACE_READERS_FILE_SLICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/io.h"

namespace millrace::readers {

// Returns `size` bytes of `whole` from `begin` as a file, under another name for messages.
std::shared_ptr<const RandomAccessFile> MakeSlice(std::shared_ptr<const RandomAccessFile> whole,
                                                  uint64_t begin, uint64_t size, std::string path);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_SLICE_H_
