#ifndef MILLRACE_READERS_HTTP_FILE_H_
#define MILLRACE_READERS_HTTP_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancels.h"
#include "base/io.h"
#include "base/mutex.h"
#include "readers/container/record_index.h"
#include "readers/http/client.h"
#include "readers/http/expected_reads.h"
#include "readers/http_options.h"
#include "readers/shard_stamp.h"

// Files behind URLs. A request of any size takes milliseconds, so files are fetched in blocks of
// several MiB, many at once, which are kept in memory for as long as there is room; while a file is
// read in order the next blocks are on their way. Readers of one block wait for one request. An
// order that jumps about so far that blocks are thrown out with most of their bytes unread fetches
// just what it reads instead.
//
// Where it is known from the start that records are read in an order that jumps (FetchSingly), no
// blocks are used: records that were expected come in ranges of their own size
// (http/expected_reads.h), and any other read is a request for its bytes.
//
// A file is one version for as long as it is open: a block of another one is an error
// (readers/http/head.h).

namespace millrace::readers {

// Files that share blocks and connections, those of a source. Thread-safe; its files keep it alive.
class HttpFiles : public std::enable_shared_from_this<HttpFiles> {
 public:
  struct Opened {
    std::shared_ptr<const RandomAccessFile> file;
    ShardStamp stamp;  // the version that is read; vouches() if the server names one
  };

  // Requests are CANCELLED once `cancels`, which is asked while there are any, returns true.
  //   INVALID_ARGUMENT    options out of range
  //   RESOURCE_EXHAUSTED  no thread, or no memory
  static absl::StatusOr<std::shared_ptr<HttpFiles>> Make(const HttpOptions& options,
                                                         Cancels cancels = {});

  // Opens each URL with one small request; blocks.
  //   FAILED_PRECONDITION  a server has no ranges, and the file is longer than a block
  //   the errors of HttpClient::Fetch; of several the first URL's
  absl::StatusOr<std::vector<Opened>> Open(std::span<const std::string> urls);

  // The most memory of the blocks that it keeps.
  size_t memory_bytes() const { return max_blocks_ * options_.block_bytes; }
  size_t block_bytes() const { return options_.block_bytes; }

  // `file`, one of these, is read record by record from now on: returns what `expected` knows it
  // by, or null if its server has no ranges. Up to `place_records` may follow each other though not
  // all are read. Before any other thread reads it.
  static const FetchedFile* FetchSingly(const RandomAccessFile& file, uint64_t place_records);
  // The ranges of such files that will be read.
  ExpectedReads& expected() { return *expected_; }
  // Lets go the blocks that nobody reads now.
  void DropBlocks();

  // Bytes that have come since the last call of ForgetFetched, without those that nobody has read
  // yet.
  uint64_t fetched_bytes() const;
  void ForgetFetched();

 private:
  class File;
  using BlockKey = std::pair<uint64_t, uint64_t>;  // number of the file, of the block in it

  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
    bool loading = true;      // true until its bytes have come, or failed to
    bool ordered = false;     // true if it was fetched because its file is read in order
    int num_users = 0;        // threads that wait for it or copy out of it
    uint64_t last_used = 0;   // on clock_
    uint64_t bytes_read = 0;  // copied out of it
    absl::Status status;
  };

  explicit HttpFiles(const HttpOptions& options);

  enum class Wanted { kNow, kLater };

  // The block `number` of `file`, fetched if it is not there; the caller has to call Release. The
  // fetches of the blocks after it and before `end` are begun. Blocks.
  absl::StatusOr<std::shared_ptr<Block>> Acquire(const File& file, uint64_t number, uint64_t end,
                                                 bool ordered);
  // The same if it is there; nullptr otherwise.
  std::shared_ptr<Block> TryAcquire(BlockKey key);
  void Release(Block& block, size_t bytes_read);
  void ReadAhead(const File& file, uint64_t begin, uint64_t end);
  bool PrefersExactReads() const;
  using Answer = std::future<absl::StatusOr<HttpFacts>>;
  Answer Fetch(HttpRange range);
  // The same with a call of `done` behind it.
  void Fetch(HttpRange range, HttpClient::Done done);
  absl::StatusOr<Opened> MakeFile(const std::string& url, HttpFacts facts);

  // Nullptr when there is no room: each block is in use, or, for one that is wanted later, has not
  // been read yet. If it throws, nothing is begun.
  std::shared_ptr<Block> FindOrFetch(const File& file, uint64_t number, Wanted wanted, bool ordered)
      MILLRACE_REQUIRES(mu_);
  void FetchLater(const File& file, uint64_t begin, uint64_t end, bool ordered)
      MILLRACE_REQUIRES(mu_);
  // The block used longest ago. False when none may go.
  bool ThrowOut(Wanted wanted) MILLRACE_REQUIRES(mu_);
  void Land(BlockKey key, Block& block, const absl::Status& status);

  const HttpOptions options_;
  const size_t max_blocks_;

  mutable Mutex mu_;
  CondVar changed_;  // a block has landed, or nobody uses one any more
  std::map<BlockKey, std::shared_ptr<Block>> blocks_ MILLRACE_GUARDED_BY(mu_);
  uint64_t clock_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t num_files_ MILLRACE_GUARDED_BY(mu_) = 0;
  double read_fraction_ MILLRACE_GUARDED_BY(mu_) = 1;  // running mean over blocks thrown out

  const std::unique_ptr<ExpectedReads> expected_;
  // Client's thread -> those that report, relaxed: counts.
  std::atomic<uint64_t> all_fetched_bytes_{0};
  std::atomic<uint64_t> forgotten_bytes_{0};

  std::unique_ptr<HttpClient> client_;  // last: it calls back until it is gone
};

// Opens one URL with blocks and connections of its own; the errors of Make and Open.
absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenUrl(const std::string& url);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_FILE_H_
