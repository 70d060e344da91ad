#include "readers/http/file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/shard_stamp.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr size_t kFewestBlocks = 2;
// Of a block that was thrown out at least so much was read, if blocks are worth their bytes.
constexpr double kWorthwhileFraction = 0.25;

absl::Status OutOfRange(std::string_view field, std::string_view range) {
  return absl::InvalidArgumentError(
      absl::StrCat("HttpOptions.", ToAbsl(field), " must be ", ToAbsl(range)));
}

// The time of a stamp stands for the version here.
ShardStamp StampOfVersion(const HttpFacts& facts) {
  ShardStamp stamp{facts.size, ShardStamp::kNoTime};
  if (!facts.version.known()) return stamp;
  const std::string version = facts.version.ToString();
  stamp.mtime_ns = static_cast<int64_t>(XXH3_64bits(version.data(), version.size()) >> 1);
  return stamp;
}

}  // namespace

absl::Status HttpOptions::Validate() const {
  if (max_redirects < 0) return OutOfRange("max_redirects", "at least 0");
  if (max_attempts < 1) return OutOfRange("max_attempts", "at least 1");
  if (max_retry_time.count() < 0) return OutOfRange("max_retry_time", "at least 0");
  if (stall_time.count() < 1) return OutOfRange("stall_time", "at least 1 ms");
  if (backoff.count() < 0) return OutOfRange("backoff", "at least 0");
  if (max_backoff.count() < 0) return OutOfRange("max_backoff", "at least 0");
  if (block_bytes < 1) return OutOfRange("block_bytes", "at least 1");
  if (read_ahead_blocks < 0) return OutOfRange("read_ahead_blocks", "at least 0");
  if (max_in_flight < 1) return OutOfRange("max_in_flight", "at least 1");
  return absl::OkStatus();
}

class HttpFiles::File : public RandomAccessFile, public FetchedFile {
 public:
  File(std::shared_ptr<HttpFiles> files, uint64_t number, std::string url, HttpFacts facts)
      : files_(std::move(files)),
        number_(number),
        url_(std::move(url)),
        shown_(ShownUrl(url_)),
        facts_(std::move(facts)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= facts_.size || out.empty()) return size_t{0};
    out = out.first(std::min<uint64_t>(out.size(), facts_.size - offset));
    const auto status = std::make_shared<std::promise<absl::Status>>();
    if (StartRead(offset, out, [status](absl::Status s) { status->set_value(std::move(s)); })) {
      MILLRACE_RETURN_IF_ERROR(status->get_future().get());
      return out.size();
    }
    const uint64_t last = (offset + out.size() - 1) / block_bytes();
    const bool ordered = NoteRead(offset / block_bytes(), last);
    if (!ordered && facts_.ranges && files_->PrefersExactReads()) {
      MILLRACE_RETURN_IF_ERROR(files_->Fetch({url_, shown_, offset, out, facts_}).get().status());
      return out.size();
    }
    const uint64_t end = ordered ? EndAhead(last) : last + 1;
    for (uint64_t number = offset / block_bytes(); number <= last; ++number) {
      MILLRACE_ASSIGN_OR_RETURN(const auto block, files_->Acquire(*this, number, end, ordered));
      Copy(*block, number, offset, out);
    }
    return out.size();
  }

  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > facts_.size || out.size() > facts_.size - offset) return false;
    if (out.empty()) return true;
    if (single_ && files_->expected_->TryRead(*this, offset, out)) return true;
    const uint64_t last = (offset + out.size() - 1) / block_bytes();
    for (uint64_t number = offset / block_bytes(); number <= last; ++number) {
      const auto block = files_->TryAcquire({number_, number});
      if (block == nullptr) return false;
      Copy(*block, number, offset, out);
    }
    const bool ordered = NoteRead(offset / block_bytes(), last);
    if (ordered && !single_) files_->ReadAhead(*this, last + 1, EndAhead(last));
    return true;
  }

  bool starts_reads() const override { return single_; }
  bool StartRead(uint64_t offset, std::span<std::byte> out,
                 std::function<void(absl::Status)> done) const override {
    const bool inside = offset <= facts_.size && out.size() <= facts_.size - offset;
    if (!single_ || !inside || out.empty()) return false;
    if (files_->expected_->StartRead(*this, offset, out, done)) return true;
    if (GoesOn(offset, out.size())) return false;
    Fetch(offset, out, std::move(done));
    return true;
  }

  void Fetch(uint64_t offset, std::span<std::byte> out,
             std::function<void(absl::Status)> done) const override {
    files_->Fetch(
        {url_, shown_, offset, out, facts_},
        [done = std::move(done)](const absl::StatusOr<HttpFacts>& facts) { done(facts.status()); });
  }

  uint64_t size() const override { return facts_.size; }
  const std::string& path() const override { return shown_; }

  bool FetchSingly(uint64_t place_records) const {
    constexpr uint64_t kInOrder = 4;
    most_in_order_ = std::max(kInOrder, place_records);
    return single_ = facts_.ranges;
  }
  uint64_t number() const { return number_; }
  HttpRange RangeOf(uint64_t block, std::span<std::byte> bytes) const {
    return {url_, shown_, block * block_bytes(), bytes, facts_};
  }
  size_t SizeOf(uint64_t block) const {
    return std::min<uint64_t>(block_bytes(), facts_.size - block * block_bytes());
  }

 private:
  uint64_t block_bytes() const { return files_->options_.block_bytes; }

  // Behind the blocks that a reader of `last` will want soon.
  uint64_t EndAhead(uint64_t last) const {
    const auto ahead = static_cast<uint64_t>(files_->options_.read_ahead_blocks);
    return std::min(last + ahead, (facts_.size - 1) / block_bytes()) + 1;
  }

  // True if a file that is read record by record has been read in order for a while, and beyond
  // what a rank reads in one place: a look at all records is worth blocks. In a shuffled order so
  // many records seldom follow each other.
  bool GoesOn(uint64_t offset, size_t bytes) const {
    uint64_t reads = reads_in_order_.load(std::memory_order_relaxed);
    const uint64_t end = last_end_.exchange(offset + bytes, std::memory_order_relaxed);
    if (end == offset + bytes) return reads >= most_in_order_;  // the same read, asked again
    const bool follows = offset >= end && offset - end <= ExpectedReads::kGapBytes;
    reads = follows ? std::min(reads + 1, most_in_order_) : 0;
    reads_in_order_.store(reads, std::memory_order_relaxed);
    return reads >= most_in_order_;
  }

  // Whether a read of these blocks goes on about where others were.
  bool NoteRead(uint64_t first, uint64_t last) const {
    constexpr uint64_t kNear = 2;  // blocks: threads read side by side
    const uint64_t before = last_block_.exchange(last, std::memory_order_relaxed);
    return first <= before + kNear && last + kNear >= before;
  }

  // Copies what `out`, read from `offset` on, has of `block`, and releases it.
  void Copy(Block& block, uint64_t number, uint64_t offset, std::span<std::byte> out) const {
    const uint64_t block_begin = number * block_bytes();
    const uint64_t begin = std::max(offset, block_begin);
    const uint64_t end = std::min(offset + out.size(), block_begin + block.size);
    std::memcpy(out.data() + (begin - offset), block.bytes.get() + (begin - block_begin),
                end - begin);
    files_->Release(block, end - begin);
  }

  const std::shared_ptr<HttpFiles> files_;
  const uint64_t number_;
  const std::string url_;
  const std::string shown_;
  const HttpFacts facts_;
  // True if records are fetched by themselves; constant once threads read the file.
  mutable bool single_ = false;
  mutable uint64_t most_in_order_ = 0;  // so many single reads in order are a look at all; likewise
  // Readers -> readers, relaxed: a wrong guess costs a request.
  mutable std::atomic<uint64_t> last_block_{0};      // the last block read
  mutable std::atomic<uint64_t> last_end_{0};        // the end of the last single read
  mutable std::atomic<uint64_t> reads_in_order_{0};  // single reads that followed each other
};

HttpFiles::HttpFiles(const HttpOptions& options)
    : options_(options),
      max_blocks_(std::max(options.cache_bytes / options.block_bytes, kFewestBlocks)),
      expected_(std::make_unique<ExpectedReads>(options.block_bytes)) {}

absl::StatusOr<std::shared_ptr<HttpFiles>> HttpFiles::Make(const HttpOptions& options,
                                                           Cancels cancels) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  const std::shared_ptr<HttpFiles> files(new HttpFiles(options));
  MILLRACE_ASSIGN_OR_RETURN(files->client_, HttpClient::Make(options, std::move(cancels)));
  return files;
}

absl::StatusOr<std::vector<HttpFiles::Opened>> HttpFiles::Open(std::span<const std::string> urls) {
  std::vector<std::byte> first_bytes(urls.size());
  std::vector<Answer> answers;
  for (size_t i = 0; i < urls.size(); ++i) {
    answers.push_back(Fetch({urls[i], ShownUrl(urls[i]), 0, {&first_bytes[i], 1}, {}}));
  }
  for (const Answer& answer : answers) answer.wait();  // they write to first_bytes
  std::vector<Opened> files;
  for (size_t i = 0; i < urls.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(HttpFacts facts, answers[i].get());
    MILLRACE_ASSIGN_OR_RETURN(files.emplace_back(), MakeFile(urls[i], std::move(facts)));
  }
  return files;
}

HttpFiles::Answer HttpFiles::Fetch(HttpRange range) {
  const auto promise = std::make_shared<std::promise<absl::StatusOr<HttpFacts>>>();
  Fetch(std::move(range),
        [promise](absl::StatusOr<HttpFacts> facts) { promise->set_value(std::move(facts)); });
  return promise->get_future();
}

void HttpFiles::Fetch(HttpRange range, HttpClient::Done done) {
  const size_t bytes = range.out.size();
  client_->Fetch(std::move(range),
                 [this, bytes, done = std::move(done)](absl::StatusOr<HttpFacts> facts) {
                   if (facts.ok()) all_fetched_bytes_.fetch_add(bytes, std::memory_order_relaxed);
                   done(std::move(facts));
                 });
}

const FetchedFile* HttpFiles::FetchSingly(const RandomAccessFile& file, uint64_t place_records) {
  const File& own = static_cast<const File&>(file);
  return own.FetchSingly(place_records) ? &own : nullptr;
}

void HttpFiles::DropBlocks() {
  MutexLock lock(mu_);
  std::erase_if(blocks_, [](const auto& entry) {
    return !entry.second->loading && entry.second->num_users == 0;
  });
}

uint64_t HttpFiles::fetched_bytes() const {
  uint64_t unread = expected_->unread_bytes();
  MutexLock lock(mu_);
  for (const auto& [key, block] : blocks_) {
    if (!block->loading && block->bytes_read == 0) unread += block->size;
  }
  const uint64_t counted = all_fetched_bytes_.load(std::memory_order_relaxed) -
                           forgotten_bytes_.load(std::memory_order_relaxed);
  return counted - std::min(counted, unread);
}

void HttpFiles::ForgetFetched() {
  forgotten_bytes_.store(all_fetched_bytes_.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
}

absl::StatusOr<HttpFiles::Opened> HttpFiles::MakeFile(const std::string& url, HttpFacts facts) {
  if (!facts.ranges && facts.size > options_.block_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        ShownUrl(url), ": the server does not answer range requests, and the file has ", facts.size,
        " bytes, more than a block of ", options_.block_bytes));
  }
  const ShardStamp stamp = StampOfVersion(facts);
  MutexLock lock(mu_);
  return Opened{std::make_shared<File>(shared_from_this(), num_files_++, url, std::move(facts)),
                stamp};
}

absl::StatusOr<std::shared_ptr<HttpFiles::Block>> HttpFiles::Acquire(const File& file,
                                                                     uint64_t number, uint64_t end,
                                                                     bool ordered) {
  MutexLock lock(mu_);
  std::shared_ptr<Block> block = FindOrFetch(file, number, Wanted::kNow, ordered);
  while (block == nullptr) {
    changed_.Wait(mu_);
    block = FindOrFetch(file, number, Wanted::kNow, ordered);
  }
  ++block->num_users;
  FetchLater(file, number + 1, end, ordered);
  while (block->loading) changed_.Wait(mu_);
  if (block->status.ok()) return block;
  const absl::Status status = block->status;
  --block->num_users;
  changed_.NotifyAll();
  return status;
}

std::shared_ptr<HttpFiles::Block> HttpFiles::TryAcquire(BlockKey key) {
  MutexLock lock(mu_);
  const auto found = blocks_.find(key);
  if (found == blocks_.end() || found->second->loading) return nullptr;
  ++found->second->num_users;
  return found->second;
}

void HttpFiles::Release(Block& block, size_t bytes_read) {
  MutexLock lock(mu_);
  block.bytes_read += bytes_read;
  block.last_used = ++clock_;
  if (--block.num_users == 0) changed_.NotifyAll();
}

void HttpFiles::ReadAhead(const File& file, uint64_t begin, uint64_t end) {
  MutexLock lock(mu_);
  FetchLater(file, begin, end, /*ordered=*/true);
}

void HttpFiles::FetchLater(const File& file, uint64_t begin, uint64_t end, bool ordered) {
  try {
    for (uint64_t number = begin; number < end; ++number) {
      if (FindOrFetch(file, number, Wanted::kLater, ordered) == nullptr) return;
    }
  } catch (const std::bad_alloc&) {  // what is not fetched ahead is fetched when it is read
  }
}

bool HttpFiles::PrefersExactReads() const {
  MutexLock lock(mu_);
  return read_fraction_ < kWorthwhileFraction;
}

std::shared_ptr<HttpFiles::Block> HttpFiles::FindOrFetch(const File& file, uint64_t number,
                                                         Wanted wanted, bool ordered) {
  const BlockKey key(file.number(), number);
  if (const auto found = blocks_.find(key); found != blocks_.end()) return found->second;
  if (blocks_.size() >= max_blocks_ && !ThrowOut(wanted)) return nullptr;
  const auto block = std::make_shared<Block>();
  block->size = file.SizeOf(number);
  block->bytes = std::make_unique_for_overwrite<std::byte[]>(block->size);
  block->ordered = ordered;
  block->last_used = ++clock_;
  blocks_[key] = block;
  try {
    Fetch(file.RangeOf(number, {block->bytes.get(), block->size}),
          [this, key, block](const absl::StatusOr<HttpFacts>& facts) {
            Land(key, *block, facts.status());
          });
  } catch (...) {
    blocks_.erase(key);  // it would never land
    throw;
  }
  return block;
}

bool HttpFiles::ThrowOut(Wanted wanted) {
  auto oldest = blocks_.end();
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    const Block& of = *block->second;
    const bool stays = of.loading || of.num_users > 0 ||
                       (wanted == Wanted::kLater && of.bytes_read == 0);  // it waits for its reader
    if (stays) continue;
    if (oldest == blocks_.end() || of.last_used < oldest->second->last_used) oldest = block;
  }
  if (oldest == blocks_.end()) return false;
  const Block& block = *oldest->second;
  if (!block.ordered) {
    constexpr double kWeight = 0.125;
    const double fraction = static_cast<double>(block.bytes_read) / static_cast<double>(block.size);
    read_fraction_ += kWeight * (std::min(fraction, 1.0) - read_fraction_);
  }
  blocks_.erase(oldest);
  return true;
}

// Of a failed block nothing is kept: the next read asks again.
void HttpFiles::Land(BlockKey key, Block& block, const absl::Status& status) {
  MutexLock lock(mu_);
  block.loading = false;
  block.status = status;
  if (!status.ok()) blocks_.erase(key);
  changed_.NotifyAll();
}

bool IsUrl(std::string_view path) {
  return absl::StartsWithIgnoreCase(ToAbsl(path), "http://") ||
         absl::StartsWithIgnoreCase(ToAbsl(path), "https://");
}

std::string ShownUrl(std::string_view url) {
  const size_t host = std::min(url.find("://") + 3, url.size());
  const std::string_view rest = url.substr(host, url.find_first_of("?#", host) - host);
  const size_t user_end = rest.substr(0, rest.find('/')).rfind('@');
  const size_t shown = user_end == rest.npos ? 0 : user_end + 1;
  return std::string(url.substr(0, host)) + std::string(rest.substr(shown));
}

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenUrl(const std::string& url) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, HttpFiles::Make({}));
  MILLRACE_ASSIGN_OR_RETURN(const auto opened, files->Open({&url, 1}));
  return opened.front().file;
}

}  // namespace millrace::readers
