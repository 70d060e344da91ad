#ifndef MILLRACE_READERS_DAMAGE_COMPRESSED_H_
#define MILLRACE_READERS_DAMAGE_COMPRESSED_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/inflate/byte_source.h"
#include "readers/record.h"

// Reads a compressed file past damage.
//
// Deflate says nothing of where its blocks begin, and what a block refers to is gone with the bytes
// before it. But a gzip member, and a frame of zstd, needs nothing of what lies before it: behind
// damage the source goes on at the next place where one begins that can be inflated, and leaves
// kLostBytes in between (ByteSource::lost). In a stream of one member, and in zlib, which has no
// members, everything behind damage is lost.
//
// Where a member begins is told by its first bytes, which noise may have by chance: a kibibyte of
// it has to be inflated, or all of it if it is shorter, or a frame of a record has to begin in it.
// Bytes that are taken for a member all the same, and bytes that the inflater makes up before it
// notices damage, are told from records by their CRCs: a record that is copied there as it was
// comes twice. Bytes that were made to look like members could be inflated again and again: the
// source inflates at most four times the file's bytes and a MiB for that, and takes the bytes
// behind for lost.

namespace millrace::readers {

// The inflated bytes of `file`, as many as can be had. A stream that is not what `compression` says
// is an error as in MakeByteSource. `compression` is kGzip, kZlib or kZstd; `begin` is where in the
// file a member, or the stream, begins.
std::unique_ptr<ByteSource> MakeResyncSource(std::shared_ptr<const RandomAccessFile> file,
                                             Compression compression, uint64_t begin = 0);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DAMAGE_COMPRESSED_H_
