#ifndef MILLRACE_AUGMENT_JPEG_REGION_DECODER_H_
#define MILLRACE_AUGMENT_JPEG_REGION_DECODER_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "augment/image/region.h"
#include "augment/jpeg/entropy.h"
#include "augment/jpeg/frame.h"
#include "augment/jpeg/scan.h"
#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

// Decodes regions of common baseline JPEGs, faster than libjpeg-turbo and to the same bits (those
// of its vector code, where damaged coefficients overflow). It returns false for every other file,
// and at anything that libjpeg would refuse or warn of as damage: libjpeg-turbo then decodes the
// file again, and its pixels and its verdict count.
// Thread-compatible. One decoder decodes any number of images, one after the other, and keeps its
// memory.
class RegionDecoder {
 public:
  explicit RegionDecoder(Level level = BestLevel()) : level_(level) {}

  // Reads the header of `bytes`, which must outlive the decoding. False if libjpeg-turbo must
  // decode the file.
  bool Open(std::string_view bytes);
  const Frame& frame() const { return frame_; }

  // Writes `region` as rows of `stride` bytes, with pixels of 1 (grey: the luma) or 3 (RGB) bytes,
  // and nothing behind a row's last pixel. False if libjpeg-turbo must decode the file; `out` is
  // then unspecified. REQUIRES: Open returned true; the region is not empty and lies inside the
  // image.
  bool Decode(const Region& region, int channels, uint8_t* out, int64_t stride);

  // The same in steps, as TrackPool takes them: Begin, then rows until is_done.
  bool Begin(const Region& region, int channels, uint8_t* out, int64_t stride);
  bool is_done() const { return row_ == window_.end_row; }
  // Decodes all rows that are left.
  bool FinishRows();
  // True if the next row may be decoded by DecodeTracks. StartRow returns its track, and EndRow
  // takes the track back.
  bool has_tracks() const { return entropy_.has_tracks(); }
  Track StartRow();
  bool EndRow(const Track& track);

 private:
  // The part of the image that is decoded to samples.
  struct Window {
    int first_mcu, end_mcu;  // columns of MCUs
    int first_row, end_row;  // rows of MCUs; those above are skipped
    bool color;              // true if chroma is needed
    bool context;            // true if a row's chroma is made of two rows of samples
  };
  // The samples of one row of MCUs, below the last row of the one before.
  struct Plane {
    uint8_t* samples = nullptr;  // begins with that last row
    int64_t stride = 0;
  };

  Window Plan(const Region& region, int channels) const;
  void Reserve();
  // Returns the first blocks of the window.
  Block* window_blocks() const;
  // Makes pixels of the decoded row's coefficients, if the row lies in the window.
  bool TakeRow();
  void ClearWindow();
  bool TransformRow();
  // Repeats the chroma samples at the image's left and right edge, for the upsampling.
  void ExtendEdges(const Plane& plane) const;
  // Writes the rows of the region that the samples of row_ complete.
  void EmitRows();
  void EmitColor(int64_t y, uint8_t* out);
  // Returns the upsampled chroma of row `y`, at the region's first column.
  const uint8_t* Upsample(const Plane& plane, int64_t offset, int64_t y, uint8_t* out) const;
  void KeepLastRows();

  const Level level_;
  std::string_view bytes_;
  Frame frame_;
  EntropyDecoder entropy_;
  // The decoding that is under way.
  Region region_;
  int channels_ = 3;
  uint8_t* out_ = nullptr;
  int64_t stride_ = 0;
  Window window_ = {};
  int row_ = 0;              // next row of MCUs
  Block* blocks_ = nullptr;  // a row of MCUs; zero in the window between rows of it
  std::array<Plane, kMaxComponents> planes_;
  Buffer<Block> block_memory_;
  std::array<Buffer<uint8_t>, kMaxComponents> plane_memory_;
  std::array<Buffer<uint8_t>, 2> chroma_memory_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_REGION_DECODER_H_
