#ifndef MILLRACE_READERS_DALI_INDEX_H_
#define MILLRACE_READERS_DALI_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "readers/record_source.h"

// The index of a TFRecord file that NVIDIA DALI reads (index_path of its TFRecord reader) and its
// tool tfrecord2idx writes: for each record a line "OFFSET SIZE", in decimal, of its frame.

namespace millrace::readers {

// Checks that the TFRecord file `path` can have such an index, whose offsets are those of the file
// on disk. Reads its first bytes.
//   INVALID_ARGUMENT  the file is compressed
//   other             it cannot be read
absl::Status CheckMayHaveDaliIndex(const std::string& path);

// Puts indexes into the order of their files: "a.tfrecord.idx" and "a.idx", in any folder, belong
// to "a.tfrecord". If some file has no index of such a name, the sorted order of the indexes
// counts.
//   INVALID_ARGUMENT  there are not as many indexes as files, or an index has the name of one file
//                     and the place of another
absl::StatusOr<std::vector<std::string>> PairDaliIndexes(const std::vector<std::string>& files,
                                                         std::vector<std::string> indexes);

// Writes the index of `count` records of `source`, from `first` on, all of one shard, to `path`,
// whole or not at all. Blocks.
//   ALREADY_EXISTS  `existing` is kKeep and there is such a file
//   other           it cannot be written
absl::Status WriteDaliIndex(const RecordSource& source, uint64_t first, uint64_t count,
                            const std::string& path, Existing existing);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DALI_INDEX_H_
