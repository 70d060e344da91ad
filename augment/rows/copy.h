#ifndef MILLRACE_AUGMENT_ROWS_COPY_H_
#define MILLRACE_AUGMENT_ROWS_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

// Loops that move the values of a row and change none, for the instructions that the processor has.

namespace millrace::augment {

// Writes the `width` pixels of a row, of `pixel` bytes each, from right to left. `out` is other
// memory.
void MirrorRow(const std::byte* in, int64_t width, size_t pixel, std::byte* out);

// The largest values, in bytes, that the next two move.
inline constexpr size_t kMostMoved = 4;
// Splits pixels of three values of `element` bytes: 1, 2 or 4. Plane c begins c * plane values
// behind `out`.
void SplitRow3(const void* in, int64_t pixels, int64_t plane, size_t element, void* out);
// The reverse: plane c begins c * plane values behind `in`.
void JoinRow3(const void* in, int64_t pixels, int64_t plane, size_t element, void* out);
// Makes pad_channels' output: pixels of `pixel` bytes, whose values have `element` bytes, each
// followed by `rest`.
void AppendChannels(const std::byte* in, int64_t pixels, size_t pixel, size_t element,
                    std::span<const std::byte> rest, std::byte* out);

// Copies past the caches where both ends are aligned: the copy is read later, and would only push
// out of them what is needed now. Call EndStreaming before another thread reads it.
void StreamRow(const void* in, size_t bytes, void* out);
void EndStreaming();

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_COPY_H_
