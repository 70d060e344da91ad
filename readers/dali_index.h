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

// INVALID_ARGUMENT if the TFRecord file `path` is compressed: then it cannot have such an index,
// whose offsets are for who seeks in the file as it lies on disk. Reads its first bytes.
absl::Status CheckMayHaveDaliIndex(const std::string& path);

// Puts indexes into the order of their files: "a.tfrecord.idx" and "a.idx" are of "a.tfrecord", in
// whatever folder. Where not every file has one of such a name, they are taken as they are sorted.
//   INVALID_ARGUMENT  there are not as many as files; an index has the name of one file and the
//                     place of another
absl::StatusOr<std::vector<std::string>> PairDaliIndexes(const std::vector<std::string>& files,
                                                         std::vector<std::string> indexes);

// Writes that of `count` records of `source`, from `first` on, all of one shard, to `path`: whole
// or not at all. Blocks.
//   ALREADY_EXISTS  `existing` is kKeep and there is such a file
//   other           it cannot be written
absl::Status WriteDaliIndex(const RecordSource& source, uint64_t first, uint64_t count,
                            const std::string& path, Existing existing);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DALI_INDEX_H_
