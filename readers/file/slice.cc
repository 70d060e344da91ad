#include "readers/file/slice.h"

#include <algorithm>
#include <utility>

namespace millrace::readers {
namespace {

class Slice : public RandomAccessFile {
 public:
  Slice(std::shared_ptr<const RandomAccessFile> whole, uint64_t begin, uint64_t size,
        std::string path)
      : whole_(std::move(whole)), begin_(begin), size_(size), path_(std::move(path)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    return whole_->ReadAt(begin_ + offset,
                          out.first(std::min<uint64_t>(out.size(), size_ - offset)));
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const bool inside = offset <= size_ && out.size() <= size_ - offset;
    return inside && whole_->TryReadAt(begin_ + offset, out);
  }
  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

 private:
  const std::shared_ptr<const RandomAccessFile> whole_;
  const uint64_t begin_;
  const uint64_t size_;
  const std::string path_;
};

}  // namespace

std::shared_ptr<const RandomAccessFile> MakeSlice(std::shared_ptr<const RandomAccessFile> whole,
                                                  uint64_t begin, uint64_t size, std::string path) {
  return std::make_shared<Slice>(std::move(whole), begin, size, std::move(path));
}

}  // namespace millrace::readers
