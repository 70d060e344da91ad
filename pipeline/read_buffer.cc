#include <sys/mman.h>

#include <new>

#include "pipeline/read_buffer_internal.h"

namespace millrace::pipeline {
namespace {

// Above what runs of small records have, whose buffers are better used again.
constexpr size_t kMappedBytes = size_t{512} << 10;

}  // namespace

void FreeReadBuffer::operator()(std::byte* memory) const {
  if (mapped_bytes == 0) {
    delete[] memory;
  } else {
    munmap(memory, mapped_bytes);
  }
}

ReadBuffer MakeReadBuffer(size_t bytes) {
  if (bytes < kMappedBytes) return ReadBuffer(new (std::nothrow) std::byte[bytes]);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  return ReadBuffer(static_cast<std::byte*>(memory), FreeReadBuffer{bytes});
}

}  // namespace millrace::pipeline
