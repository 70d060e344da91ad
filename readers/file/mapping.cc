#include "readers/file/mapping.h"

#include <sys/mman.h>

#include <cerrno>

namespace millrace::readers {

std::shared_ptr<const Mapping> Mapping::Make(int fd, uint64_t size) {
  if (size == 0) return nullptr;
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) return nullptr;
  std::shared_ptr<const Mapping> mapping(new Mapping(static_cast<std::byte*>(bytes), size));
  return mapping->Populate(0, 1) ? mapping : nullptr;
}

Mapping::~Mapping() { ::munmap(bytes_, size_); }

bool Mapping::Populate(uint64_t offset, size_t count) const {
  constexpr uint64_t kPage = 4096;
  const uint64_t begin = offset / kPage * kPage;
  int result = 0;
  do {
    result = ::madvise(bytes_ + begin, offset + count - begin, MADV_POPULATE_READ);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace millrace::readers
