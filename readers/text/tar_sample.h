#ifndef MILLRACE_READERS_TEXT_TAR_SAMPLE_H_
#define MILLRACE_READERS_TEXT_TAR_SAMPLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// The members of one WebDataset sample: tar blocks, headers included.

namespace millrace::readers::internal {

struct TarMember {
  std::string path;
  std::string extension;   // behind the first dot of the base name, in small letters
  std::string_view bytes;  // within the blocks
};

// Reads the regular files of `blocks`: ustar, GNU's long names and PAX headers (path and size).
// Other members, and files that belong to no sample (TarSampleKey), are passed over; two empty
// blocks, or the end, end it.
//   DATA_LOSS  a header's checksum, a number or a length is wrong, or the bytes end inside a member
absl::StatusOr<std::vector<TarMember>> ReadTarSample(std::string_view blocks);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TEXT_TAR_SAMPLE_H_
