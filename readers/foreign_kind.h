#ifndef MILLRACE_READERS_FOREIGN_KIND_H_
#define MILLRACE_READERS_FOREIGN_KIND_H_

#include <string>
#include <string_view>

namespace millrace::readers {

// Names the kind of a file that is often found where another is expected ("a Git LFS pointer
// instead of the file; ...", "an HTML page, ...", "tiff", "a zip archive"), by its first bytes; ""
// for others. The first 12 bytes tell most kinds, 64 all.
std::string_view ForeignKind(std::string_view first);

// True for the first bytes of a page of HTML or XML, which is text all the same.
bool IsPage(std::string_view first);

// ", but KIND" for a message that says what a file is not, ", but empty" for one of no bytes; ""
// where the kind is not known.
std::string ButForeign(std::string_view first);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FOREIGN_KIND_H_
