#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/big_endian.h"
#include "base/status.h"
#include "readers/foreign_kind.h"
#include "readers/image_source.h"
#include "readers/png_encoder.h"
#include "xxhash.h"

// An IDX file is big-endian: a magic (0, 0, type, number of dimensions), one uint32 per dimension,
// then the values, here bytes. Nothing in it says how long it is but the dimensions, so they are
// checked against the bytes that are really there, and memory follows what has been read.

namespace millrace::readers {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint32_t kMaxSide = 16384;                // pixels
constexpr uint64_t kMaxBytes = uint64_t{16} << 30;  // of one inflated file
constexpr size_t kIdxReadBytes = size_t{4} << 20;

struct Idx {
  std::vector<uint32_t> extents;
  std::string values;
};

// A file that is read through zlib, which passes plain bytes on unchanged.
class GzFile {
 public:
  explicit GzFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rbe")) {}
  ~GzFile() {
    if (file_ != nullptr) gzclose_r(file_);
  }
  GzFile(const GzFile&) = delete;
  GzFile& operator=(const GzFile&) = delete;

  bool is_open() const { return file_ != nullptr; }

  // Appends up to `size` bytes, fewer only at the end.
  absl::Status Read(size_t size, std::string* out) {
    const size_t before = out->size();
    out->resize(before + size);
    const int n = gzread(file_, out->data() + before, static_cast<unsigned>(size));
    out->resize(before + static_cast<size_t>(std::max(n, 0)));
    int code = Z_OK;
    const char* const message = gzerror(file_, &code);
    if (code == Z_MEM_ERROR) return absl::ResourceExhaustedError(path_ + ": zlib: no memory");
    if (code == Z_ERRNO) return ErrnoStatus(errno, "read", path_);
    if (n < 0 || code != Z_OK) {
      return absl::DataLossError(absl::StrCat(path_, ": damaged or cut gzip data: ", message));
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const gzFile file_;
};

// Returns the number of values that the extents promise.
absl::StatusOr<uint64_t> CheckExtents(const std::string& path, std::span<const uint32_t> extents) {
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i] < 1 || extents[i] > kMaxSide) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": absurd image side of ", extents[i],
                                                     " pixels (1 to ", kMaxSide, " are taken)"));
    }
  }
  uint64_t size = 1;  // at most 2^32 * 2^14 * 2^14
  for (const uint32_t extent : extents) size *= extent;
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": absurd size of ", size, " bytes"));
  }
  return size;
}

absl::StatusOr<Idx> ReadIdx(const std::string& path, uint32_t magic) {
  errno = 0;
  GzFile file(path);
  if (!file.is_open()) return ErrnoStatus(errno != 0 ? errno : ENOMEM, "open", path);
  const size_t rank = magic & 0xff;
  const size_t header_bytes = 4 + 4 * rank;
  std::string header;
  MILLRACE_RETURN_IF_ERROR(file.Read(header_bytes, &header));
  if (header.size() >= 4 && LoadBigEndianU32(header.data()) != magic) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: bad magic 0x%08x at offset 0; an IDX file of %s has 0x%08x%s", path,
                        LoadBigEndianU32(header.data()), rank == 3 ? "images" : "labels", magic,
                        ButForeign(header)));
  }
  if (header.size() < header_bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": cut inside its header at byte ", header.size()));
  }
  Idx idx;
  for (size_t i = 0; i < rank; ++i) {
    idx.extents.push_back(LoadBigEndianU32(&header[4 + 4 * i]));
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t size, CheckExtents(path, idx.extents));
  while (idx.values.size() <= size) {  // one byte more tells that the file ends there
    const size_t before = idx.values.size();
    const size_t want = static_cast<size_t>(std::min<uint64_t>(kIdxReadBytes, size + 1 - before));
    MILLRACE_RETURN_IF_ERROR(file.Read(want, &idx.values));
    if (idx.values.size() == before) break;
  }
  if (idx.values.size() != size) {
    return absl::DataLossError(absl::StrCat(
        path, idx.values.size() < size ? ": cut: " : ": has more bytes than its header says: ",
        "values wanted: ", size, ", file ends at or after value ", idx.values.size()));
  }
  return idx;
}

class IdxSource final : public ImageSource {
 public:
  IdxSource(const std::string& images_path, Idx images, Idx labels)
      : path_(images_path),
        name_(images_path.substr(images_path.rfind('/') + 1)),
        images_(std::move(images)),
        labels_(std::move(labels)) {}

  uint64_t num_images() const override { return images_.extents[0]; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  uint64_t Fingerprint() const override {
    uint64_t digest = XXH3_64bits(labels_.values.data(), labels_.values.size());
    digest = XXH3_64bits_withSeed(images_.extents.data(),
                                  images_.extents.size() * sizeof(images_.extents[0]), digest);
    return XXH3_64bits_withSeed(images_.values.data(), images_.values.size(), digest);
  }
  uint64_t ImageBytes(uint64_t) const override {
    return uint64_t{images_.extents[1]} * images_.extents[2];
  }
  int64_t LabelOf(uint64_t index) const override {
    return static_cast<uint8_t>(labels_.values[index]);
  }
  RecordError PlaceOf(uint64_t index) const override {
    constexpr uint64_t kHeaderBytes = 16;
    RecordError place;
    place.file = path_;
    place.offset = static_cast<int64_t>(kHeaderBytes + index * ImageBytes(index));
    place.ordinal = static_cast<int64_t>(index);
    return place;
  }

  absl::StatusOr<SourceImage> Read(uint64_t index) override {
    const uint32_t height = images_.extents[1];
    const uint32_t width = images_.extents[2];
    const size_t size = static_cast<size_t>(height) * width;
    const std::span pixels(reinterpret_cast<const uint8_t*>(images_.values.data()) + index * size,
                           size);
    SourceImage image;
    absl::StatusOr<std::string> png = EncodePng(pixels, height, width, 1);
    if (!png.ok()) return Annotate(png.status(), path_);
    image.encoded = std::move(png).value();
    image.format = "png";
    image.filename = absl::StrCat(name_, "/", index, ".png");
    image.height = height;
    image.width = width;
    image.label = LabelOf(index);
    return image;
  }

 private:
  const std::string path_;
  const std::string name_;
  const Idx images_;
  const Idx labels_;
  const std::vector<std::string> class_names_;  // IDX files hold none
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageSource>> OpenIdxImages(const std::string& images_path,
                                                           const std::string& labels_path) {
  MILLRACE_ASSIGN_OR_RETURN(Idx labels, ReadIdx(labels_path, kLabelsMagic));
  MILLRACE_ASSIGN_OR_RETURN(Idx images, ReadIdx(images_path, kImagesMagic));
  if (images.extents[0] != labels.extents[0]) {
    return absl::InvalidArgumentError(absl::StrCat(images_path, " holds ", images.extents[0],
                                                   " images, but ", labels_path, " ",
                                                   labels.extents[0], " labels"));
  }
  return std::make_unique<IdxSource>(images_path, std::move(images), std::move(labels));
}

}  // namespace millrace::readers
