#ifndef MILLRACE_AUGMENT_ROWS_COPY_H_
#define MILLRACE_AUGMENT_ROWS_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

// Loops that move the values of a row and change none, for the instructions that the processor has.

namespace millrace::augment {

// What flip makes of a row of `width` pixels of `pixel` bytes; `out` is other memory.
void MirrorRow(const std::byte* in, int64_t width, size_t pixel, std::byte* out);

// Splits pixels of three values; plane c begins at out + c * plane.
void SplitRow3(const float* in, int64_t pixels, int64_t plane, float* out);
void SplitRow3(const uint32_t* in, int64_t pixels, int64_t plane, uint32_t* out);
void SplitRow3(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out);
void SplitRow3(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out);
// The other way: plane c begins at in + c * plane.
void JoinRow3(const uint32_t* in, int64_t pixels, int64_t plane, uint32_t* out);
void JoinRow3(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out);
void JoinRow3(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out);
// Appends `value` to each pixel of three values.
void PadRow3(const uint32_t* in, int64_t pixels, uint32_t value, uint32_t* out);
void PadRow3(const uint16_t* in, int64_t pixels, uint16_t value, uint16_t* out);
void PadRow3(const uint8_t* in, int64_t pixels, uint8_t value, uint8_t* out);
// What pad_channels makes of pixels of `pixel` bytes, whose values are of `element` bytes: each is
// followed by `rest`.
void AppendChannels(const std::byte* in, int64_t pixels, size_t pixel, size_t element,
                    std::span<const std::byte> rest, std::byte* out);

// Copies past the caches where both ends are aligned: what a consumer reads later would only push
// out of them what is needed now. EndStreaming before anyone else reads it.
void StreamRow(const void* in, size_t bytes, void* out);
void EndStreaming();

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_COPY_H_
