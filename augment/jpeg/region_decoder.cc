#include "augment/jpeg/region_decoder.h"

#include <algorithm>
#include <cstring>

#include "augment/jpeg/color.h"
#include "augment/jpeg/transform.h"

// A row of MCUs at a time: coefficients, samples, pixels; so that all of it stays in the cache.
// Rows above the region and columns beside it are only read through, for the place of the next code
// and the sum of the DC differences. Where chroma is halved downwards a row of pixels needs samples
// of the row of MCUs above or below its own: the last row of samples is kept, and a row of MCUs
// completes the rows of pixels from the last of the one before to its own last but one. As much is
// decoded as libjpeg decodes for the region, so that damage is seen in the same files: whole rows
// of MCUs, and below a region that ends in the last two rows of one the next too.

namespace millrace::augment::jpeg {
namespace {

// Each block of the largest component takes a bit of Huffman code, at least.
constexpr int64_t kMaxPixelsPerByte = 8 * kBlockSize;

}  // namespace

bool RegionDecoder::Open(std::string_view bytes) {
  bytes_ = bytes;
  if (!ParseFrame(bytes, &frame_)) return false;
  const int64_t pixels = int64_t{frame_.width} * frame_.height;
  return pixels / kMaxPixelsPerByte <= static_cast<int64_t>(bytes.size());
}

RegionDecoder::Window RegionDecoder::Plan(const Region& region, int channels) const {
  const int mcu_width = 8 * frame_.max_h, mcu_height = 8 * frame_.max_v;
  const auto top = static_cast<int>(region.top), left = static_cast<int>(region.left);
  const int bottom = top + static_cast<int>(region.height) - 1;
  const int right = left + static_cast<int>(region.width) - 1;
  Window window{};
  window.color = frame_.num_components == 3 && channels == 3;
  window.context = window.color && frame_.max_v == 2;
  // Upsampling takes in one sample of chroma, two pixels, on each side.
  const int margin = window.color && frame_.max_h == 2 ? 2 : 0;
  window.first_mcu = std::max(left - margin, 0) / mcu_width;
  window.end_mcu = std::min((right + margin) / mcu_width + 1, frame_.mcus_per_row);
  window.first_row = (window.context ? std::max(top - 1, 0) : top) / mcu_height;
  window.end_row = bottom / mcu_height + 1;
  if (window.context && bottom % mcu_height >= mcu_height - 2) {
    window.end_row = std::min(window.end_row + 1, frame_.mcu_rows);
  }
  return window;
}

void RegionDecoder::Reserve() {
  const int num_mcus = window_.end_mcu - window_.first_mcu;
  const int num_blocks = frame_.mcus_per_row * entropy_.blocks_per_mcu() + kTrackRoom;
  blocks_ = block_memory_.Reserve(static_cast<size_t>(num_blocks));
  if (entropy_.has_tracks()) entropy_.PrepareBlocks(blocks_);
  for (int c = 0; c < (window_.color ? kMaxComponents : 1); ++c) {
    const Component& component = frame_.components[c];
    const int64_t stride = kRowPadding + int64_t{num_mcus} * component.h * 8 + kRowPadding;
    const auto num_rows = static_cast<size_t>(1 + 8 * component.v);
    planes_[c] = {plane_memory_[c].Reserve(num_rows * static_cast<size_t>(stride)) + kRowPadding,
                  stride};
  }
  const size_t row_bytes = static_cast<size_t>(num_mcus) * 16 + 4 * kRowPadding;
  for (auto& memory : chroma_memory_) memory.Reserve(row_bytes);
}

Block* RegionDecoder::window_blocks() const {
  return blocks_ + ptrdiff_t{window_.first_mcu} * entropy_.blocks_per_mcu();
}

bool RegionDecoder::Begin(const Region& region, int channels, uint8_t* out, int64_t stride) {
  region_ = region;
  channels_ = channels;
  out_ = out;
  stride_ = stride;
  window_ = Plan(region, channels);
  row_ = 0;
  if (!entropy_.Start(frame_, bytes_, level_)) return false;
  Reserve();
  return true;
}

bool RegionDecoder::FinishRows() {
  while (!is_done()) {
    if (row_ < window_.first_row) {
      if (!entropy_.SkipRow()) return false;
    } else {
      if (row_ == window_.first_row) ClearWindow();
      if (!entropy_.DecodeRow(window_.first_mcu, window_.end_mcu, window_blocks())) return false;
    }
    if (!TakeRow()) return false;
  }
  return true;
}

bool RegionDecoder::Decode(const Region& region, int channels, uint8_t* out, int64_t stride) {
  return Begin(region, channels, out, stride) && FinishRows();
}

Track RegionDecoder::StartRow() {
  if (row_ == window_.first_row) ClearWindow();
  return entropy_.StartTrack(blocks_);
}

bool RegionDecoder::EndRow(const Track& track) {
  return entropy_.FinishTrack(track, blocks_) && TakeRow();
}

bool RegionDecoder::TakeRow() {
  if (row_ >= window_.first_row) {
    if (!TransformRow()) return false;
    EmitRows();
    if (window_.context) KeepLastRows();
    ClearWindow();
  }
  ++row_;
  return true;
}

void RegionDecoder::ClearWindow() {
  const int count = (window_.end_mcu - window_.first_mcu) * entropy_.blocks_per_mcu();
  ClearBlocks(window_blocks(), count, level_);
}

bool RegionDecoder::TransformRow() {
  int slot = 0;  // of the component's first block in the MCU
  for (int c = 0; c < (window_.color ? kMaxComponents : 1); ++c) {
    const Component& component = frame_.components[c];
    const Plane& plane = planes_[c];
    for (int y = 0; y < component.v; ++y) {
      const BlockRow row{window_blocks() + slot + y * component.h,
                         (window_.end_mcu - window_.first_mcu) * component.h, component.h,
                         entropy_.blocks_per_mcu()};
      if (!InverseTransform(row, frame_.quant[component.quant],
                            plane.samples + (1 + 8 * y) * plane.stride, plane.stride, level_)) {
        return false;
      }
    }
    slot += component.h * component.v;
    if (c > 0 && frame_.max_h == 2) ExtendEdges(plane);
  }
  return true;
}

void RegionDecoder::ExtendEdges(const Plane& plane) const {
  // The column behind the image's last, if the window reaches it.
  const int end = (frame_.width + 1) / 2 - 8 * window_.first_mcu;
  const bool has_end = window_.end_mcu == frame_.mcus_per_row;
  for (int y = 1; y <= 8; ++y) {
    uint8_t* row = plane.samples + y * plane.stride;
    if (window_.first_mcu == 0) row[-1] = row[0];
    if (has_end) row[end] = row[end - 1];
  }
}

void RegionDecoder::EmitRows() {
  const int64_t mcu_height = 8 * frame_.max_v;
  int64_t begin = row_ * mcu_height, end = begin + mcu_height;
  if (window_.context) {
    if (row_ > window_.first_row) --begin;
    if (row_ < frame_.mcu_rows - 1) --end;
  }
  begin = std::max(begin, region_.top);
  end = std::min(end, region_.top + region_.height);
  const int64_t offset = region_.left - int64_t{window_.first_mcu} * 8 * frame_.max_h;
  const auto width = static_cast<int>(region_.width);
  for (int64_t y = begin; y < end; ++y) {
    uint8_t* to = out_ + (y - region_.top) * stride_;
    if (window_.color) {
      EmitColor(y, to);
      continue;
    }
    const uint8_t* luma =
        planes_[0].samples + (y - row_ * mcu_height + 1) * planes_[0].stride + offset;
    if (channels_ == 3) {
      GreyToRgb(luma, width, to);
    } else {
      std::memcpy(to, luma, static_cast<size_t>(width));
    }
  }
}

void RegionDecoder::EmitColor(int64_t y, uint8_t* out) {
  const int64_t offset = region_.left - int64_t{window_.first_mcu} * 8 * frame_.max_h;
  const uint8_t* luma =
      planes_[0].samples + (y - int64_t{row_} * 8 * frame_.max_v + 1) * planes_[0].stride + offset;
  const uint8_t* chroma[2];
  for (int i = 0; i < 2; ++i) {
    chroma[i] = Upsample(planes_[1 + i], offset, y, chroma_memory_[i].data());
  }
  YccToRgb(luma, chroma[0], chroma[1], static_cast<int>(region_.width), out, level_);
}

const uint8_t* RegionDecoder::Upsample(const Plane& plane, int64_t offset, int64_t y,
                                       uint8_t* out) const {
  const auto samples = [&](int64_t sample_row) {
    return plane.samples + (sample_row - int64_t{row_} * 8 + 1) * plane.stride;
  };
  const bool across = frame_.max_h == 2;
  // The samples that the columns need, and where the first column lies in what they make.
  const int64_t first = across ? offset / 2 : offset;
  const int64_t skip = across ? offset % 2 : 0;
  const auto count = static_cast<int>(across ? (skip + region_.width + 1) / 2 : region_.width);
  if (frame_.max_v == 1) {
    if (!across) return samples(y) + first;
    UpsampleAcross(samples(y) + first, count, out, level_);
    return out + skip;
  }
  const bool upper = y % 2 == 0;
  const int64_t last_row = (frame_.height + 1) / 2 - 1;
  const int64_t far_row = std::clamp<int64_t>(upper ? y / 2 - 1 : y / 2 + 1, 0, last_row);
  const uint8_t* near = samples(y / 2) + first;
  const uint8_t* far = samples(far_row) + first;
  if (across) {
    UpsampleBoth(near, far, count, out, level_);
  } else {
    UpsampleDown(near, far, count, upper, out, level_);
  }
  return out + skip;
}

void RegionDecoder::KeepLastRows() {
  for (int c = 0; c < (window_.color ? frame_.num_components : 1); ++c) {
    const Plane& plane = planes_[c];
    const uint8_t* last = plane.samples + 8 * frame_.components[c].v * plane.stride;
    std::memcpy(plane.samples - kRowPadding, last - kRowPadding, static_cast<size_t>(plane.stride));
  }
}

}  // namespace millrace::augment::jpeg
