#include "readers/file/cancellable_file.h"

#include <utility>

#include "base/status.h"

namespace millrace::readers {
namespace {

class CancellableFile final : public RandomAccessFile {
 public:
  CancellableFile(std::shared_ptr<const RandomAccessFile> file, Cancels cancels)
      : file_(std::move(file)), cancels_(std::move(cancels)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    MILLRACE_RETURN_IF_ERROR(CheckGoesOn(cancels_, "reading the files was cancelled"));
    return file_->ReadAt(offset, out);
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return !cancels_() && file_->TryReadAt(offset, out);
  }
  std::shared_ptr<const std::byte> Borrow(uint64_t offset, size_t count) const override {
    return cancels_() ? nullptr : file_->Borrow(offset, count);
  }
  uint64_t size() const override { return file_->size(); }
  const std::string& path() const override { return file_->path(); }

 private:
  const std::shared_ptr<const RandomAccessFile> file_;
  const Cancels cancels_;
};

}  // namespace

std::shared_ptr<const RandomAccessFile> MakeCancellable(
    std::shared_ptr<const RandomAccessFile> file, const Cancels& cancels) {
  if (!cancels) return file;
  return std::make_shared<CancellableFile>(std::move(file), cancels);
}

}  // namespace millrace::readers
