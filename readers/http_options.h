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

// Appends headers ("Name: value") to a request for bytes `first` to `last` (included) of `url`
// before it is sent, such as the signature that a store asks for. Called for every attempt, by
// several threads at once if several sources are read.
using RequestSigner = std::function<void(std::string_view url, uint64_t first, uint64_t last,
                                         std::vector<std::string>& headers)>;

// Options of reading files over HTTP.
struct HttpOptions {
  RequestSigner sign;     // may be empty
  std::string ca_file;    // certificates that servers are checked against; empty: the system's
  int max_redirects = 5;  // redirects of one request; never from https to http
  int max_attempts = 5;   // attempts of one request, the first included
  // Longest time from the first attempt to the begin of the last.
  std::chrono::milliseconds max_retry_time{60'000};
  // An attempt ends after this time with fewer than `min_bytes_per_second`, counted from its begin
  // (looking up the name, connecting and waiting for the answer included).
  std::chrono::milliseconds stall_time{30'000};
  uint64_t min_bytes_per_second = 1024;
  // Wait before the second attempt, twice as long before each later one. The wait is drawn between
  // half and all of that, is at least a server's Retry-After, and never above max_backoff.
  std::chrono::milliseconds backoff{200};
  std::chrono::milliseconds max_backoff{10'000};

  // performance only: results are the same for every value
  // Bytes of a request for a block, which begins at a multiple of it, and most bytes of one for
  // several records.
  size_t block_bytes = size_t{4} << 20;
  size_t cache_bytes = size_t{64} << 20;  // blocks kept in memory, at least two blocks
  int read_ahead_blocks = 4;              // fetched ahead of a reader in order
  int max_in_flight = 32;                 // requests at once, and connections kept

  // INVALID_ARGUMENT names the first field that is out of range.
  absl::Status Validate() const;
};

// True if `path` is an http or https URL.
bool IsUrl(std::string_view path);

// Returns `url` for messages, without the parts that may be secret: user, password, query and
// fragment.
std::string ShownUrl(std::string_view url);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_OPTIONS_H_
