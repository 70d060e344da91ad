#ifndef MILLRACE_READERS_IMAGE_LIBARCHIVE_H_
#define MILLRACE_READERS_IMAGE_LIBARCHIVE_H_

#include <archive.h>
#include <archive_entry.h>

#include "absl/status/statusor.h"

namespace millrace::readers::internal {

// The functions of libarchive that are called, by their names without "archive_"; but `errno` is a
// macro. A value type.
struct Libarchive {
  decltype(&archive_entry_filetype) entry_filetype = nullptr;
  decltype(&archive_entry_pathname) entry_pathname = nullptr;
  decltype(&archive_entry_pathname_utf8) entry_pathname_utf8 = nullptr;
  decltype(&archive_entry_size) entry_size = nullptr;
  decltype(&archive_errno) error_number = nullptr;
  decltype(&archive_error_string) error_string = nullptr;
  decltype(&archive_filter_bytes) filter_bytes = nullptr;
  decltype(&archive_filter_count) filter_count = nullptr;
  decltype(&archive_read_data) read_data = nullptr;
  decltype(&archive_read_data_skip) read_data_skip = nullptr;
  decltype(&archive_read_free) read_free = nullptr;
  decltype(&archive_read_header_position) read_header_position = nullptr;
  decltype(&archive_read_new) read_new = nullptr;
  decltype(&archive_read_next_header) read_next_header = nullptr;
  decltype(&archive_read_open_filename) read_open_filename = nullptr;
  decltype(&archive_read_support_filter_bzip2) read_support_filter_bzip2 = nullptr;
  decltype(&archive_read_support_filter_gzip) read_support_filter_gzip = nullptr;
  decltype(&archive_read_support_filter_xz) read_support_filter_xz = nullptr;
  decltype(&archive_read_support_format_raw) read_support_format_raw = nullptr;
  decltype(&archive_read_support_format_tar) read_support_format_tar = nullptr;
};

// Loads the library `file` until the process ends.
//   FAILED_PRECONDITION  it is not there, or lacks a function that the message names
absl::StatusOr<Libarchive> LoadLibarchive(const char* file);

// The system's library, loaded by the first call; not null. Thread-safe.
//   the errors of LoadLibarchive
absl::StatusOr<const Libarchive*> SystemLibarchive();

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_LIBARCHIVE_H_
