#ifndef MILLRACE_READERS_DAMAGE_SPANS_H_
#define MILLRACE_READERS_DAMAGE_SPANS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/inflate/access_points.h"
#include "readers/inflate/byte_source.h"

// Reads a damaged compressed file past damage with access points of an earlier state of it.
// Internal.
//
// Each span has a digest of its inflated bytes: where it still holds, they are what they were,
// whatever became of the rest of the file. So where a span stands behind one that does not, the
// file is the one that the points were made of, with damage; else it is taken for another one, and
// the points for nothing.

namespace millrace::readers {

// Whether a span of `points` stands in `file` behind one that does not.
//   other  the file cannot be read
absl::StatusOr<bool> StandsBehindDamage(std::shared_ptr<const RandomAccessFile> file,
                                        const AccessPoints& points);

// The inflated bytes of `file`. A damaged span has its size, the bytes that could be inflated of
// it, and zeros; spans that are cut off are as MakeSalvageSource leaves what is lost, and what
// follows the last one is read by it.
std::unique_ptr<ByteSource> MakeSpanSource(std::shared_ptr<const RandomAccessFile> file,
                                           AccessPoints points);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DAMAGE_SPANS_H_
