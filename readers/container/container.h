#ifndef MILLRACE_READERS_CONTAINER_CONTAINER_H_
#define MILLRACE_READERS_CONTAINER_CONTAINER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"
#include "readers/container.h"
#include "readers/container/index_memory.h"
#include "readers/container/record_index.h"
#include "readers/record.h"

// How records lie in the inflated bytes of a shard.
//
// A shard is cut into frames that follow each other without gaps: what belongs to no record (blank
// lines, folders in a tar) is the end of the frame before it. So an index is where frames begin and
// the last one ends in every container, and a container is three things: how frames are found once,
// how the payload is taken out of one, and what an index of it may be believed to say. Taking
// payloads out is asked for by the run, not by the record, so that the loop over records is the
// container's own and nothing is dispatched in it.

namespace millrace::readers {

// Frames of a regular container in front of damage.
struct WholeFrames {
  RecordIndex frames;
  uint64_t end = 0;  // end of the last frame, or begin of damage that lies in front of the frames
  absl::Status damage;  // DATA_LOSS with RecordError; OK: there is none
};

// Immutable, thread-safe.
class Container {
 public:
  virtual ~Container() = default;

  virtual const FrameFormat& format() const = 0;
  // True where FindFrames looks at the size of a shard and its first bytes only: it costs less than
  // to read an index, so none is kept.
  virtual bool is_regular() const { return false; }
  // The frames that lie whole in a shard whose size may not fit its header; `is_cut`: it is known
  // to lack its end, and a footer with it.
  //   other  the file cannot be read
  // REQUIRES: is_regular()
  virtual absl::StatusOr<WholeFrames> FindWhole(const RandomAccessFile& /*file*/,
                                                const WalkOptions& /*options*/,
                                                bool /*is_cut*/) const {
    return absl::InternalError("not a regular container");
  }

  // True for the first bytes of a shard that is not compressed as a whole. Asked where compression
  // is kAuto, with what the file has of the first kProbeBytes.
  virtual bool LooksPlain(std::span<const std::byte> first) const = 0;

  // Finds the frames of `file` (inflated bytes) and puts where they begin into `memory`.
  //   DATA_LOSS           with RecordError: the framing is damaged
  //   RESOURCE_EXHAUSTED  there is no memory for the index
  //   other               the file cannot be read
  virtual absl::StatusOr<RecordIndex> FindFrames(
      const RandomAccessFile& file, const WalkOptions& options,
      const std::shared_ptr<IndexMemory>& memory) const = 0;

  // RecordSource::Unframe and UnframeAll; `file` is for messages.
  virtual absl::StatusOr<std::string_view> Unframe(const std::string& file, const RecordRef& ref,
                                                   std::span<const std::byte> framed) const = 0;
  virtual size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                            std::span<const size_t> starts,
                            std::span<std::string_view> payloads) const = 0;
};

inline constexpr size_t kProbeBytes = 12;

// `judges_rows`: indexes are of rows of CSV that were all looked at as damage/parts.h says, and are
// not taken for others.
std::unique_ptr<const Container> MakeContainer(const ContainerOptions& options, bool verify_crc,
                                               bool judges_rows = false);

// Each kind's part of MakeContainer.
std::unique_ptr<const Container> MakeTfRecordContainer(bool verify_crc);
std::unique_ptr<const Container> MakeFixedLengthContainer(const ContainerOptions& options);
std::unique_ptr<const Container> MakeIdxContainer();
std::unique_ptr<const Container> MakeTextContainer(const ContainerOptions& options);
std::unique_ptr<const Container> MakeCsvContainer(const ContainerOptions& options,
                                                  bool judges_rows);
std::unique_ptr<const Container> MakeTarContainer();

// False for the first bytes of a compressed shard where nothing tells plain ones by themselves: two
// bytes are too few to know zlib by.
bool HasNoMagic(std::span<const std::byte> first);

// For containers without a magic of their own.
//   DATA_LOSS  without RecordError, since no record is damaged: `file` is a Git LFS pointer
absl::Status CheckNoPointer(const RandomAccessFile& file);
//   DATA_LOSS  as CheckNoPointer; or with RecordError kWrongCompression: `file`, which is said to
//              be plain, is gzip or zstd
absl::Status CheckPlain(const RandomAccessFile& file, const WalkOptions& options);

// Where the text of a file of lines or rows begins: behind its byte order mark, if it has one.
//   DATA_LOSS  with RecordError: CheckPlain's, or it is text in another encoding than UTF-8, or a
//              file of another kind (an image, an archive; of rows and JSON lines also a page of
//              HTML or XML)
absl::StatusOr<uint64_t> BeginOfText(const RandomAccessFile& file, const WalkOptions& options,
                                     const ContainerOptions& container);

// DATA_LOSS at a record of `file`.
absl::Status DamagedRecord(const std::string& file, const RecordRef& ref, RecordErrorReason reason,
                           std::string_view text);

// Unframes where a frame is its payload and more: `trim(&payload)` takes the rest off the end and
// returns a text that says what is wrong, or "".
template <typename Trim>
absl::StatusOr<std::string_view> TrimFrame(const std::string& file, const RecordRef& ref,
                                           std::span<const std::byte> framed, const Trim& trim) {
  if (framed.size() < ref.length) {
    return DamagedRecord(file, ref, RecordErrorReason::kTruncatedPayload,
                         "fewer bytes than the record has");
  }
  std::string_view payload(reinterpret_cast<const char*>(framed.data()), ref.length);
  const std::string_view wrong = trim(&payload);
  if (wrong.empty()) return payload;
  return DamagedRecord(file, ref, RecordErrorReason::kUnknown, wrong);
}

// A container whose frames are unframed so.
template <std::string_view (*kTrim)(std::string_view* payload)>
class TrimmedContainer : public Container {
 public:
  absl::StatusOr<std::string_view> Unframe(const std::string& file, const RecordRef& ref,
                                           std::span<const std::byte> framed) const final {
    return TrimFrame(file, ref, framed, kTrim);
  }

  size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                    std::span<const size_t> starts,
                    std::span<std::string_view> payloads) const final {
    const char* const bytes = reinterpret_cast<const char*>(framed);
    for (size_t i = 0; i < refs.size(); ++i) {
      if (starts[i + 1] - starts[i] < refs[i].length) return i;
      payloads[i] = {bytes + starts[i], refs[i].length};
      if (!kTrim(&payloads[i]).empty()) return i;
    }
    return refs.size();
  }
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_CONTAINER_H_
