#ifndef MILLRACE_READERS_HTTP_OPTIONS_H_
#define MILLRACE_READERS_HTTP_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace millrace::readers {

// May append headers ("Name: value") to a request for bytes `first` to `last` (included) of `url`
// before it is sent: what a store wants signed. Called for every attempt, by several threads at
// once where several sources are read.
using RequestSigner = std::function<void(std::string_view url, uint64_t first, uint64_t last,
                                         std::vector<std::string>& headers)>;

// How files are read over HTTP.
struct HttpOptions {
  RequestSigner sign;     // may be empty
  std::string ca_file;    // certificates that servers are checked against; empty: the system's
  int max_redirects = 5;  // of one request; never from https to http
  int max_attempts = 5;   // of one request, the first included
  std::chrono::milliseconds max_retry_time{60'000};  // no attempt begins later after the first
  // An attempt ends when fewer than `min_bytes_per_second` have come for so long, from its begin
  // (name, connection and answer included).
  std::chrono::milliseconds stall_time{30'000};
  uint64_t min_bytes_per_second = 1024;
  // Waiting before the second attempt; twice as long before each one after it, half to the whole of
  // that by chance, and as long as a server's Retry-After asks for; never above max_backoff.
  std::chrono::milliseconds backoff{200};
  std::chrono::milliseconds max_backoff{10'000};

  // performance only: results are the same for every value
  size_t block_bytes = size_t{4} << 20;   // bytes of one request, from a multiple of it
  size_t cache_bytes = size_t{64} << 20;  // of blocks kept in memory, at least two blocks
  int read_ahead_blocks = 4;              // fetched beyond what is read in order
  int max_in_flight = 8;                  // requests at once, and connections kept

  // INVALID_ARGUMENT names the first field that is out of range.
  absl::Status Validate() const;
};

// Whether `path` is read over HTTP.
bool IsUrl(std::string_view path);

// For messages: `url` without what may be secret in it, user and password, query and fragment.
std::string ShownUrl(std::string_view url);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_OPTIONS_H_
