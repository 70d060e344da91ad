// bench_recode_jpegs TAR OUT: writes the images of TAR to the tar OUT as FFCV's writer would: the
// longer side at most 500 pixels (area interpolation), baseline JPEG of quality 90, chroma at half
// the resolution. Small images are encoded anew in their own size.

#include <string>
#include <vector>

#include "augment/codec/decoder.h"
#include "augment/codec/encoder.h"
#include "augment/resize/resize.h"
#include "base/status.h"
#include "bench/raw_jpeg.h"

namespace {

using millrace::augment::OpenImage;
using millrace::augment::ResizeArea;

constexpr int64_t kLongerSide = 500;
constexpr int kQuality = 90;
constexpr int64_t kMaxPixels = int64_t{1} << 28;

absl::StatusOr<std::string> Recode(const std::string& encoded) {
  MILLRACE_ASSIGN_OR_RETURN(const auto decoder, OpenImage(encoded, kMaxPixels));
  const int64_t height = decoder->info().height, width = decoder->info().width;
  const int channels = decoder->info().channels == 1 ? 1 : 3;
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width * channels));
  millrace::RunArena arena;
  MILLRACE_RETURN_IF_ERROR(decoder->DecodeAll(channels, arena, pixels.data()));
  const int64_t longer = std::max(height, width);
  if (longer <= kLongerSide) {
    return millrace::augment::EncodeJpeg(pixels.data(), height, width, channels, kQuality);
  }
  const int64_t to_height = std::max<int64_t>(height * kLongerSide / longer, 1);
  const int64_t to_width = std::max<int64_t>(width * kLongerSide / longer, 1);
  std::vector<uint8_t> shrunk(static_cast<size_t>(to_height * to_width * channels));
  ResizeArea(pixels.data(), height, width, channels, shrunk.data(), to_height, to_width);
  return millrace::augment::EncodeJpeg(shrunk.data(), to_height, to_width, channels, kQuality);
}

bool WriteEntry(archive* tar, size_t number, const std::string& bytes) {
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  archive_entry_set_pathname(entry.get(), (std::to_string(number) + ".jpg").c_str());
  archive_entry_set_size(entry.get(), static_cast<int64_t>(bytes.size()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  return archive_write_header(tar, entry.get()) == ARCHIVE_OK &&
         archive_write_data(tar, bytes.data(), bytes.size()) ==
             static_cast<la_ssize_t>(bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_recode_jpegs TAR OUT\n");
    return 2;
  }
  const std::vector<std::string> files = millrace::bench::ReadTar(argv[1]);
  const std::unique_ptr<archive, int (*)(archive*)> tar(archive_write_new(), archive_write_free);
  archive_write_set_format_ustar(tar.get());
  bool ok = !files.empty() && archive_write_open_filename(tar.get(), argv[2]) == ARCHIVE_OK;
  for (size_t i = 0; ok && i < files.size(); ++i) {
    const auto recoded = Recode(files[i]);
    ok = recoded.ok() && WriteEntry(tar.get(), i, *recoded);
  }
  if (!ok || archive_write_close(tar.get()) != ARCHIVE_OK) {
    std::fprintf(stderr, "%s to %s: no image, a damaged one, or the tar cannot be written\n",
                 argv[1], argv[2]);
    return 1;
  }
  return 0;
}
