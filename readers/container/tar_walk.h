#ifndef MILLRACE_READERS_CONTAINER_TAR_WALK_H_
#define MILLRACE_READERS_CONTAINER_TAR_WALK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"

namespace millrace::readers {

inline constexpr uint64_t kTarBlock = 512;
// Zeros at the end of an archive: of the end mark, and up to the end of the largest usual records
// (tar -b 2048).
inline constexpr uint64_t kMostTarEndBytes = 2 * kTarBlock + (1 << 20);
// The faults of the end of an archive.
inline constexpr std::string_view kNoTarEnd = "the archive ends without its end mark";
inline constexpr std::string_view kBehindTarEnd =
    "something follows the end mark: several archives in one, or zeros in the place of members";
std::string TooManyZeros(uint64_t bytes);

// One member of an archive.
struct TarMember {
  std::string name;      // the long one, where there is one
  bool is_file = false;  // true if it is a regular file, so that it has data
  uint64_t begin = 0;    // begin of its first header: one with a long name, or of pax, counts
  uint64_t data = 0;     // where its bytes begin
  uint64_t size = 0;     // their number
  uint64_t end = 0;      // end of its last block
};

// The fault of an archive where the walk over it stops.
struct TarFault {
  RecordErrorReason reason = RecordErrorReason::kUnknown;
  std::string text;
  uint64_t begin = 0;  // begin of the first header of the member at the fault
  // The member, if its header is good; its blocks may reach over the end of the file.
  std::optional<TarMember> member;
};

// Reads the headers of a tar: ustar, GNU and pax, with long names and sizes. Data is jumped over,
// not read. Every checksum of a header is checked, and nothing is held of the archive but a window
// of at most 256 KiB and the longest name. Thread-compatible.
class TarWalk {
 public:
  // `file` is borrowed. `is_part`: members and nothing else, without the end mark of an archive.
  // `begins_narrow`: it reads little at first, then ever more.
  TarWalk(const RandomAccessFile& file, uint64_t max_member_bytes, bool is_part,
          bool begins_narrow = false);

  // Goes on to the next member.
  //   value      a member; all its blocks are in the file
  //   nullopt    the end mark, or the end of a part
  //   DATA_LOSS  with RecordError, ordinal 0, and fault() tells more: damaged or cut, or a sparse
  //              member, or one of more than max_member_bytes
  //   other      the file cannot be read
  absl::StatusOr<std::optional<TarMember>> Next();

  // Checks the bytes behind the end mark: DATA_LOSS as Next's if anything but zeros follows, at the
  // first of them.
  absl::Status CheckRest();

  // Where the next header lies, or the fault.
  uint64_t offset() const { return at_; }

  // REQUIRES: the last call was DATA_LOSS with RecordError
  const TarFault& fault() const { return fault_; }

 private:
  struct Extras;  // the facts that headers in front of a member tell of it

  absl::Status ReadExtra(char type, uint64_t size, Extras* extras);
  absl::Status ReadPax(std::string_view records, Extras* extras);
  absl::StatusOr<TarMember> MakeMember(uint64_t begin, const Extras& extras);
  // DATA_LOSS where the walk cannot take a member whose header is good.
  absl::Status CheckMember(const TarMember& member, bool is_sparse);
  absl::Status LoadHeader();
  // The header that was loaded last.
  std::string_view header() const;
  absl::Status CheckSum();
  absl::StatusOr<uint64_t> Size();
  absl::Status Damaged(RecordErrorReason reason, std::string text);

  const RandomAccessFile& file_;
  const uint64_t max_member_bytes_;
  const bool is_part_;  // true if the end mark of an archive is missing
  std::vector<std::byte> window_;
  uint64_t window_begin_ = 0;
  uint64_t window_end_ = 0;
  uint64_t at_ = 0;
  uint64_t begin_ = 0;  // of the first header of the member at at_
  uint64_t last_size_ = 0;
  uint64_t wide_bytes_;  // to read while members are small
  TarFault fault_;
};

// Returns the name of the WebDataset sample that a member belongs to: its path up to the first dot
// of the last part; "" for members that belong to no sample: without a key, or WebDataset's own,
// which are called `__NAME__` or lie below a folder that is.
std::string_view TarSampleKey(std::string_view name);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_TAR_WALK_H_
