#include "augment/jpeg/frame.h"

#include <cstring>

// The markers, read more strictly than libjpeg reads them: most of what is legal and odd is refused
// here as what is damaged, since libjpeg decodes the files that this parser refuses. Faults that
// cameras and editors leave in many files, and that libjpeg warns of without changing a pixel, are
// read as libjpeg reads them (readers::IsHarmlessJpegWarning).

namespace millrace::augment::jpeg {
namespace {

constexpr int kMaxExtent = 65500;  // libjpeg's JPEG_MAX_DIMENSION

enum Marker : uint8_t {
  kSof0 = 0xC0,
  kSof1 = 0xC1,
  kDht = 0xC4,
  kSoi = 0xD8,
  kSos = 0xDA,
  kDqt = 0xDB,
  kDri = 0xDD,
  kApp0 = 0xE0,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
  kCom = 0xFE,
};

// The bytes of one marker's segment.
class Segment {
 public:
  Segment(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  size_t size() const { return size_; }
  bool StartsWith(std::string_view text) const {
    return size_ >= text.size() && std::memcmp(data_, text.data(), text.size()) == 0;
  }
  int at(size_t i) const { return data_[i]; }
  // Takes `count` bytes off; nullptr when there are fewer.
  const uint8_t* Take(size_t count) {
    if (count > size_) return nullptr;
    const uint8_t* taken = data_;
    data_ += count;
    size_ -= count;
    return taken;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

int Word(const uint8_t* bytes) { return bytes[0] << 8 | bytes[1]; }

class Parser {
 public:
  Parser(std::string_view bytes, Frame* frame)
      : data_(reinterpret_cast<const uint8_t*>(bytes.data())), size_(bytes.size()), frame_(frame) {}

  bool Run() {
    if (size_ < 4 || data_[0] != 0xFF || data_[1] != kSoi) return false;
    at_ = 2;
    for (;;) {
      FindMarker();
      if (size_ - at_ < 3) return false;
      const uint8_t marker = data_[at_];
      const size_t length = static_cast<size_t>(Word(data_ + at_ + 1));
      if (length < 2 || length > size_ - at_ - 1) return false;
      Segment segment(data_ + at_ + 3, length - 2);
      at_ += 1 + length;
      if (marker == kSos) return ReadSos(segment) && Finish();
      if (!Read(marker, segment)) return false;
    }
  }

 private:
  // Goes to the next marker, over bytes that belong to no segment. Any number of 0xFF may stand
  // before it, and 0xFF 0x00 is none.
  void FindMarker() {
    do {
      while (at_ < size_ && data_[at_] != 0xFF) ++at_;
      while (at_ < size_ && data_[at_] == 0xFF) ++at_;
    } while (at_ < size_ && data_[at_] == 0);
  }

  bool Read(uint8_t marker, Segment segment) {
    if (marker == kSof0 || marker == kSof1) return ReadSof(segment);
    if (marker == kDht) return ReadDht(segment);
    if (marker == kDqt) return ReadDqt(segment);
    if (marker == kDri) return ReadDri(segment);
    if (marker == kApp0) ReadApp0(segment);
    if (marker == kApp14) ReadApp14(segment);
    return (marker >= kApp0 && marker <= kApp15) || marker == kCom;
  }

  bool ReadSof(Segment segment) {
    if (frame_->num_components != 0) return false;
    const uint8_t* head = segment.Take(6);
    if (head == nullptr || head[0] != 8) return false;
    frame_->height = Word(head + 1);
    frame_->width = Word(head + 3);
    const int count = head[5];
    if (frame_->height < 1 || frame_->height > kMaxExtent) return false;
    if (frame_->width < 1 || frame_->width > kMaxExtent) return false;
    if ((count != 1 && count != 3) || segment.size() != static_cast<size_t>(count) * 3) {
      return false;
    }
    for (int i = 0; i < count; ++i) {
      const uint8_t* entry = segment.Take(3);
      Component& component = frame_->components[i];
      component = {.id = entry[0], .h = entry[1] >> 4, .v = entry[1] & 15, .quant = entry[2]};
      if (component.quant > 3) return false;
    }
    frame_->num_components = count;
    return CheckSampling();
  }

  bool CheckSampling() {
    auto& [first, second, third] = frame_->components;
    if (first.h < 1 || first.h > 2 || first.v < 1 || first.v > 2) return false;
    if (frame_->num_components == 1) {
      // The MCU of a scan of one component is a block with any factors; but with two rows
      // libjpeg decodes two rows of blocks at a time, and would see damage in more of them.
      if (first.v != 1) return false;
      first.h = 1;
      return true;
    }
    for (const Component* chroma : {&second, &third}) {
      if (chroma->h != 1 || chroma->v != 1) return false;
    }
    if (first.id == second.id || second.id == third.id || first.id == third.id) return false;
    frame_->max_h = first.h;
    frame_->max_v = first.v;
    // So narrow an image gets no smooth upsampling.
    return first.h == 1 || frame_->width > 4;
  }

  bool ReadDht(Segment segment) {
    while (segment.size() > 0) {
      const uint8_t* head = segment.Take(17);
      if (head == nullptr || (head[0] & 0xEE) != 0) return false;
      HuffmanSpec spec{.counts = head + 1};
      for (int i = 0; i < 16; ++i) spec.num_symbols += spec.counts[i];
      if (spec.num_symbols > 256) return false;
      spec.symbols = segment.Take(static_cast<size_t>(spec.num_symbols));
      if (spec.symbols == nullptr) return false;
      ((head[0] & 0x10) != 0 ? frame_->ac : frame_->dc)[head[0] & 1] = spec;
    }
    return true;
  }

  bool ReadDqt(Segment segment) {
    while (segment.size() > 0) {
      const int head = *segment.Take(1);
      const int width = (head >> 4) + 1;
      if (width > 2 || (head & 15) > 3) return false;
      const uint8_t* values = segment.Take(static_cast<size_t>(kBlockSize * width));
      if (values == nullptr) return false;
      for (int k = 0; k < kBlockSize; ++k) {
        const int value = width == 1 ? values[k] : Word(values + 2 * k);
        frame_->quant[head & 15][kNaturalOrder[k]] = static_cast<uint16_t>(value);
      }
      frame_->has_quant[head & 15] = true;
    }
    return true;
  }

  bool ReadDri(Segment segment) {
    if (segment.size() != 2) return false;
    frame_->restart_interval = Word(segment.Take(2));
    return true;
  }

  void ReadApp0(const Segment& segment) {
    if (segment.size() >= 14 && segment.StartsWith({"JFIF\0", 5})) jfif_ = true;
  }

  void ReadApp14(const Segment& segment) {
    if (segment.size() >= 12 && segment.StartsWith("Adobe")) adobe_transform_ = segment.at(11);
  }

  // One scan of all components in the frame's order. It has all coefficients: its parameters count
  // in progressive files alone.
  bool ReadSos(Segment segment) {
    const auto count = static_cast<size_t>(frame_->num_components);
    if (count == 0 || segment.size() != 1 + 2 * count + 3) return false;
    if (*segment.Take(1) != frame_->num_components) return false;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* entry = segment.Take(2);
      Component& component = frame_->components[i];
      component.dc = entry[1] >> 4;
      component.ac = entry[1] & 15;
      if (entry[0] != component.id || component.dc > 1 || component.ac > 1) return false;
    }
    return true;
  }

  bool Finish() {
    if (frame_->num_components == 3 && !IsYcc()) return false;
    for (int i = 0; i < frame_->num_components; ++i) {
      const Component& component = frame_->components[i];
      if (!frame_->has_quant[component.quant]) return false;
      if (frame_->dc[component.dc].counts == nullptr) return false;
      if (frame_->ac[component.ac].counts == nullptr) return false;
    }
    const int mcu_width = 8 * frame_->max_h, mcu_height = 8 * frame_->max_v;
    frame_->mcus_per_row = (frame_->width + mcu_width - 1) / mcu_width;
    frame_->mcu_rows = (frame_->height + mcu_height - 1) / mcu_height;
    frame_->scan_offset = at_;
    return true;
  }

  // As libjpeg guesses: JFIF is YCbCr, Adobe says so (what is not RGB is), and else the components'
  // names do.
  bool IsYcc() const {
    if (jfif_) return true;
    if (adobe_transform_ >= 0) return adobe_transform_ != 0;
    const auto& [first, second, third] = frame_->components;
    return !(first.id == 'R' && second.id == 'G' && third.id == 'B');
  }

  const uint8_t* const data_;
  const size_t size_;
  size_t at_ = 0;
  Frame* const frame_;
  bool jfif_ = false;
  int adobe_transform_ = -1;
};

}  // namespace

bool ParseFrame(std::string_view bytes, Frame* frame) {
  *frame = {};
  return Parser(bytes, frame).Run();
}

}  // namespace millrace::augment::jpeg
