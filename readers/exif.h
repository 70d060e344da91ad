#ifndef MILLRACE_READERS_EXIF_H_
#define MILLRACE_READERS_EXIF_H_

#include <string>
#include <string_view>

namespace millrace::readers {

// Returns the orientation in the Exif data of an encoded image (JEITA CP-3451, tag 0x0112), 1 to 8:
// how it must be turned to stand upright. 1, which is upright, if there is none or it is damaged.
//   JPEG  the first APP1 segment "Exif" in front of the first scan
//   PNG   the eXIf chunk, in front of the pixels
// The header "Exif" may stand there several times, as some programs write it, and the value be a
// LONG in place of a SHORT.
// Looks at the heads of segments and chunks only, and allocates nothing. Thread-safe.
int ReadOrientation(std::string_view encoded);

// Returns Exif data that say the orientation, 1 to 8, and nothing else: as they stand in a PNG, and
// behind the header kExifHeader in an APP1 segment of a JPEG.
std::string MakeExif(int orientation);
inline constexpr std::string_view kExifHeader("Exif\0\0", 6);

// True if turning upright swaps height and width.
inline bool SwapsSides(int orientation) { return orientation >= 5; }

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_EXIF_H_
