#ifndef MILLRACE_READERS_EXIF_H_
#define MILLRACE_READERS_EXIF_H_

#include <string_view>

namespace millrace::readers {

// Returns the orientation in the Exif data of an encoded image (JEITA CP-3451, tag 0x0112), 1 to 8:
// how it must be turned to stand upright. 1, which is upright, if there is none or it is damaged.
//   JPEG  the first APP1 segment "Exif" in front of the first scan
//   PNG   the eXIf chunk, in front of the pixels
// Looks at the heads of segments and chunks only, and allocates nothing. Thread-safe.
int ReadOrientation(std::string_view encoded);

// True if turning upright swaps height and width.
inline bool SwapsSides(int orientation) { return orientation >= 5; }

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_EXIF_H_
