#include "readers/foreign_kind.h"

#include <array>

#include "base/text.h"
#include "readers/image_header.h"

namespace millrace::readers {
namespace {

struct Magic {
  std::string_view bytes;
  std::string_view kind;
};
constexpr std::string_view kXml = "<?xml";
constexpr std::array<Magic, 6> kMagics = {{
    {"PK\x03\x04", "a zip archive"},
    {"PAR1", "a Parquet file"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
    {"\x93NUMPY", "a NumPy array"},
    {"7z\xbc\xaf\x27\x1c", "a 7z archive"},
    {kXml, "an XML document, perhaps what a server said instead"},
}};

}  // namespace

std::string_view ForeignKind(std::string_view first) {
  constexpr std::string_view kThisIs = "this is ";
  if (IsGitLfsPointer(first)) return kIsGitLfsPointer.substr(kThisIs.size());
  if (IsHtml(first)) return kIsHtml.substr(kThisIs.size());
  for (const Magic& magic : kMagics) {
    if (first.starts_with(magic.bytes)) return magic.kind;
  }
  return GuessImageFormat(first);
}

bool IsPage(std::string_view first) { return IsHtml(first) || first.starts_with(kXml); }

std::string ButForeign(std::string_view first) {
  if (first.empty()) return ", but empty";
  const std::string_view kind = ForeignKind(first);
  return kind.empty() ? std::string() : std::string(", but ").append(kind);
}

}  // namespace millrace::readers
