#ifndef MILLRACE_READERS_IMAGE_LISTING_H_
#define MILLRACE_READERS_IMAGE_LISTING_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancels.h"

// The files of a folder or tar that are images, and those that are images to everybody else.

namespace millrace::readers::internal {

// True for names that are never looked at: those that begin with a dot, and those that systems
// make (`@eaDir`, `__MACOSX`, `#recycle`, `$RECYCLE.BIN`, `lost+found`,
// `System Volume Information`).
bool IsHiddenName(std::string_view name);
// True if a part of the path is hidden.
bool IsHiddenPath(std::string_view path);

// The kind of a file by the end of its name, in letters of any case.
enum class ImageName {
  kRead,     // .jpg, .jpeg, .jpe, .jfif or .png
  kNotRead,  // an image of another kind: .webp, .tif, ...
  kOther,    // no image: .txt, .xml, ...
  kUnknown,  // its first bytes tell
};
ImageName KindOfName(std::string_view path);

// True for a path that names an image that is read, and has no hidden part.
bool IsImagePath(std::string_view path);

// The path of `name` in `folder`, whose own name may end with a slash.
std::string PathIn(const std::string& folder, const std::string& name);

// So many bytes tell of a file with an unknown name whether it is an image.
inline constexpr size_t kTellingBytes = 32;

struct ImageListing {
  std::vector<std::string> paths;     // images that are read; relative to the root
  std::vector<std::string> folders;   // visible ones at the first level, sorted; with images or not
  std::vector<std::string> left_out;  // images that are not read, sorted
};

// Lists the images below `root`, paths sorted bytewise. Links are followed: what several paths
// reach is there under each of them.
//   FAILED_PRECONDITION  a link leads to a folder above it; names the link
//   NOT_FOUND            no such folder; or a link at the first level, where it may be a class,
//                        leads to nothing
//   CANCELLED            `cancels` returned true
//   other                a folder cannot be listed
absl::StatusOr<ImageListing> ListImages(const std::string& root, const Cancels& cancels = {});

// CANCELLED if `cancels` returns true.
absl::Status CheckListing(const Cancels& cancels);

// "a, b, c"; of many names the first ten and how many more there are.
std::string FirstNames(const std::vector<std::string>& names);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_LISTING_H_
