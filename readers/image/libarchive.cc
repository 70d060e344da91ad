// Loads libarchive when the first tar of images is opened: nothing else needs it, and it brings ICU
// and libxml2, 15 MB that a package of Millrace would have to hold.

#include "readers/image/libarchive.h"

#include "base/loaded_library.h"
#include "base/status.h"

namespace millrace::readers::internal {

absl::StatusOr<Libarchive> LoadLibarchive(const char* file) {
  MILLRACE_ASSIGN_OR_RETURN(
      const LoadedLibrary library,
      LoadedLibrary::Load(
          file, "tars of images are read with libarchive 3.2 or later, which cannot be loaded",
          "install the package libarchive13 (Debian, Ubuntu) or libarchive (Fedora, RHEL), or "
          "extract the tar and read its folder"));
  Libarchive tar;
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_entry_filetype", tar.entry_filetype));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_entry_pathname", tar.entry_pathname));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_entry_pathname_utf8", tar.entry_pathname_utf8));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_entry_size", tar.entry_size));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_errno", tar.error_number));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_error_string", tar.error_string));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_filter_bytes", tar.filter_bytes));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_filter_count", tar.filter_count));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_data", tar.read_data));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_data_skip", tar.read_data_skip));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_free", tar.read_free));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_header_position", tar.read_header_position));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_new", tar.read_new));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_next_header", tar.read_next_header));
  MILLRACE_RETURN_IF_ERROR(library.Find("archive_read_open_filename", tar.read_open_filename));
  MILLRACE_RETURN_IF_ERROR(
      library.Find("archive_read_support_filter_bzip2", tar.read_support_filter_bzip2));
  MILLRACE_RETURN_IF_ERROR(
      library.Find("archive_read_support_filter_gzip", tar.read_support_filter_gzip));
  MILLRACE_RETURN_IF_ERROR(
      library.Find("archive_read_support_filter_xz", tar.read_support_filter_xz));
  MILLRACE_RETURN_IF_ERROR(
      library.Find("archive_read_support_format_raw", tar.read_support_format_raw));
  MILLRACE_RETURN_IF_ERROR(
      library.Find("archive_read_support_format_tar", tar.read_support_format_tar));
  return tar;
}

absl::StatusOr<const Libarchive*> SystemLibarchive() {
  static const absl::StatusOr<Libarchive> tar = LoadLibarchive("libarchive.so.13");
  if (!tar.ok()) return tar.status();
  return &*tar;
}

}  // namespace millrace::readers::internal
