#ifndef MILLRACE_READERS_HTTP_LIBCURL_H_
#define MILLRACE_READERS_HTTP_LIBCURL_H_

#define CURL_DISABLE_DEPRECATION  // what replaces CURLOPT_PROTOCOLS is too new
#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace millrace::readers {

// The functions of libcurl that are called, by their names without "curl_". A value type.
struct Libcurl {
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&curl_multi_info_read) multi_info_read = nullptr;
  decltype(&curl_multi_init) multi_init = nullptr;
  decltype(&curl_multi_perform) multi_perform = nullptr;
  decltype(&curl_multi_poll) multi_poll = nullptr;
  decltype(&curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&curl_multi_setopt) multi_setopt = nullptr;
  decltype(&curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

// Loads the library `file` until the process ends.
//   FAILED_PRECONDITION  it is not there, or lacks a function that the message names
absl::StatusOr<Libcurl> LoadLibcurl(const char* file);

// The system's library, loaded and set up by the first call; not null. Thread-safe.
//   RESOURCE_EXHAUSTED   it cannot be set up
//   the errors of LoadLibcurl
absl::StatusOr<const Libcurl*> SystemLibcurl();

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_LIBCURL_H_
