// Loads libcurl when the first URL is opened: most programs read local files, and it brings 30
// libraries. It must be the system's own, which knows where the system keeps its certificates.

#include "readers/http/libcurl.h"

#include "base/loaded_library.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

absl::StatusOr<Libcurl> SetUp() {
  MILLRACE_ASSIGN_OR_RETURN(Libcurl curl, LoadLibcurl("libcurl.so.4"));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) return curl;
  return absl::ResourceExhaustedError("libcurl cannot be set up");
}

}  // namespace

absl::StatusOr<Libcurl> LoadLibcurl(const char* file) {
  MILLRACE_ASSIGN_OR_RETURN(
      const LoadedLibrary library,
      LoadedLibrary::Load(
          file, "URLs are read with libcurl 7.68 or later, which cannot be loaded",
          "install the package libcurl4 (Debian, Ubuntu) or libcurl (Fedora, RHEL)"));
  Libcurl curl;
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_easy_cleanup", curl.easy_cleanup));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_easy_getinfo", curl.easy_getinfo));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_easy_init", curl.easy_init));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_easy_setopt", curl.easy_setopt));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_easy_strerror", curl.easy_strerror));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_global_init", curl.global_init));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_add_handle", curl.multi_add_handle));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_cleanup", curl.multi_cleanup));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_info_read", curl.multi_info_read));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_init", curl.multi_init));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_perform", curl.multi_perform));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_poll", curl.multi_poll));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_remove_handle", curl.multi_remove_handle));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_setopt", curl.multi_setopt));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_multi_wakeup", curl.multi_wakeup));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_slist_append", curl.slist_append));
  MILLRACE_RETURN_IF_ERROR(library.Find("curl_slist_free_all", curl.slist_free_all));
  return curl;
}

absl::StatusOr<const Libcurl*> SystemLibcurl() {
  static const absl::StatusOr<Libcurl> curl = SetUp();
  if (!curl.ok()) return curl.status();
  return &*curl;
}

}  // namespace millrace::readers
