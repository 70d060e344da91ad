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
// of its vector code, where damaged coefficients overflow). It says false for every other file, and
// wherever it meets something that libjpeg would refuse or warn of: libjpeg-turbo then decodes the
// file again, and its pixels and its verdict count.
// Thread-compatible; one decoder takes any number of images, one after the other, and keeps its
// memory.
class RegionDecoder {
 public:
  explicit RegionDecoder(Level level = BestLevel()) : level_(level) {}

  // Reads the header of `bytes`, which must outlive the decoding. False: not for this decoder.
  bool Open(std::string_view bytes);
  const Frame& frame() const { return frame_; }

  // Writes `region` as rows of `stride` bytes, pixels of 1 (grey: the luma) or 3 (RGB) bytes, and
  // nothing behind a row's last pixel. False: not for this decoder, or damaged; `out` is then
  // unspecified. REQUIRES: Open said true; the region is not empty and lies inside the image.
  bool Decode(const Region& region, int channels, uint8_t* out, int64_t stride);

  // The same in steps, as LanePool takes them: Begin, then rows until is_done.
  bool Begin(const Region& region, int channels, uint8_t* out, int64_t stride);
  bool is_done() const { return row_ == window_.end_row; }
  // Decodes all rows that are left.
  bool FinishRows();
  // Whether the next row may be decoded by DecodeLanes, as StartRow's lane; EndRow takes it back.
  bool has_lanes() const { return entropy_.has_lanes(); }
  Lane StartRow();
  bool EndRow(const Lane& lane);

 private:
  // What of the image is decoded to which samples.
  struct Window {
    int first_mcu, end_mcu;  // columns of MCUs
    int first_row, end_row;  // rows of MCUs; those above are skipped
    bool color;              // chroma is needed
    bool context;            // a row's chroma is made of two rows of samples
  };
  // The samples of one row of MCUs, below the last row of the one before.
  struct Plane {
    uint8_t* samples = nullptr;  // of the row before
    int64_t stride = 0;
  };

  Window Plan(const Region& region, int channels) const;
  void Reserve();
  // The blocks that the window begins with.
  Block* window_blocks() const;
  // Makes pixels of the coefficients of the row that has been decoded, if it is one of the window.
  bool TakeRow();
  void ClearWindow();
  bool TransformRow();
  // Repeats the chroma samples at the image's left and right edge, for the upsampling.
  void ExtendEdges(const Plane& plane) const;
  // Writes those rows of the region that the samples of row_ complete.
  void EmitRows();
  void EmitColor(int64_t y, uint8_t* out);
  // The upsampled chroma of row `y`, at the region's first column.
  const uint8_t* Upsample(const Plane& plane, int64_t offset, int64_t y, uint8_t* out) const;
  void KeepLastRows();

  const Level level_;
  std::string_view bytes_;
  Frame frame_;
  EntropyDecoder entropy_;
  // What is being decoded.
  Region region_;
  int channels_ = 3;
  uint8_t* out_ = nullptr;
  int64_t stride_ = 0;
  Window window_ = {};
  int row_ = 0;              // the next, of MCUs
  Block* blocks_ = nullptr;  // a row of MCUs; zero in the window between rows of it
  std::array<Plane, kMaxComponents> planes_;
  Buffer<Block> block_memory_;
  std::array<Buffer<uint8_t>, kMaxComponents> plane_memory_;
  std::array<Buffer<uint8_t>, 2> chroma_memory_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_REGION_DECODER_H_
