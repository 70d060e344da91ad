#include "readers/inflate/span_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

// The usual span and the rest of its last block. Memory for these is used again, as new memory
// costs a tenth of what inflating does.
constexpr size_t kUsualBytes = (4 << 20) + (512 << 10);
constexpr size_t kMostAhead = 4;
constexpr size_t kForwardSteps = 3;
constexpr size_t kKeptBehind = 2;  // for runs that were submitted earlier and are read later

}  // namespace

SpanCache::SpanCache(size_t max_bytes)
    : pool_(std::make_shared<ChunkPool>(kUsualBytes)),
      max_bytes_(std::max(max_bytes, kLeastBytes)) {}

uint64_t SpanCache::NewFile() {
  MutexLock lock(mu_);
  files_.emplace_back();
  return files_.size() - 1;
}

void SpanCache::SetLimits(size_t max_bytes, bool drop_behind) {
  MutexLock lock(mu_);
  max_bytes_ = std::max(max_bytes, kLeastBytes);
  drop_behind_ = drop_behind;
}

SpanCache::Bytes SpanCache::Find(const SpannedFile& file, size_t span) {
  MutexLock lock(mu_);
  return FindLocked({file.number(), span});
}

absl::StatusOr<SpanCache::Bytes> SpanCache::Get(const SpannedFile& file, size_t span) {
  const Key key = {file.number(), span};
  MutexLock lock(mu_);
  while (entries_.contains(key)) {
    if (Bytes bytes = FindLocked(key)) return bytes;
    size_t ahead = 0;
    if (FindAhead(file, span, ahead)) {
      Inflate(file, ahead).status().IgnoreError();  // told to the thread that asks for it
    } else {
      changed_.Wait(mu_);
    }
  }
  return Inflate(file, span);
}

SpanCache::Bytes SpanCache::FindLocked(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.bytes == nullptr) return nullptr;
  found->second.last_used = ++clock_;
  return found->second.bytes;
}

// Whether there is a span to inflate instead of waiting for `span`.
bool SpanCache::FindAhead(const SpannedFile& file, size_t span, size_t& ahead) {
  if (!entries_.at({file.number(), span}).forward) return false;
  const size_t end = std::min(span + 1 + kMostAhead, file.num_spans());
  for (ahead = span + 1; ahead < end; ++ahead) {
    if (!entries_.contains({file.number(), ahead})) return true;
  }
  return false;
}

absl::StatusOr<SpanCache::Bytes> SpanCache::Inflate(const SpannedFile& file, size_t span) {
  const Key key = {file.number(), span};
  const auto before = span == 0 ? entries_.end() : entries_.find({file.number(), span - 1});
  const Bytes before_bytes = before == entries_.end() ? nullptr : before->second.bytes;
  if (GoesForward(key) && drop_behind_) DropBehind(key);
  MakeRoom(file.span_bytes(span));
  Entry entry;
  entry.num_bytes = file.span_bytes(span);
  entry.forward = span == 0 || before != entries_.end();
  entries_[key] = entry;
  num_bytes_ += entry.num_bytes;
  std::unique_ptr<SpanWorkspace> workspace;
  if (!workspaces_.empty()) {
    workspace = std::move(workspaces_.back());
    workspaces_.pop_back();
  }

  mu_.Unlock();
  if (workspace == nullptr) workspace = std::make_unique<SpanWorkspace>();
  absl::StatusOr<Bytes> bytes = InflateUnlocked(file, span, before_bytes, *workspace);
  mu_.Lock();

  workspaces_.push_back(std::move(workspace));
  if (bytes.ok()) {
    entries_[key].bytes = *bytes;
    entries_[key].last_used = ++clock_;
  } else {
    entries_.erase(key);
    num_bytes_ -= entry.num_bytes;
  }
  changed_.NotifyAll();
  return bytes;
}

absl::StatusOr<SpanCache::Bytes> SpanCache::InflateUnlocked(const SpannedFile& file, size_t span,
                                                            const Bytes& before,
                                                            SpanWorkspace& workspace) {
  const size_t num_bytes = file.span_bytes(span);
  std::shared_ptr<Chunk> chunk;
  if (num_bytes < kUsualBytes / 2) {
    chunk = std::make_shared<ChunkPool>(num_bytes)->Take(num_bytes);
  } else {
    chunk = pool_->Take(num_bytes);
  }
  if (chunk == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", num_bytes, " inflated bytes"));
  }
  MILLRACE_RETURN_IF_ERROR(
      file.Inflate(span, before.get(), workspace, {chunk->bytes.get(), num_bytes}));
  return chunk;
}

// Whether this is one of several spans that were asked for one after the other.
bool SpanCache::GoesForward(const Key& key) {
  Progress& progress = files_[key.first];
  progress.steps = key.second == progress.last + 1 ? progress.steps + 1 : 0;
  progress.last = key.second;
  return progress.steps >= kForwardSteps;
}

// Throws out the spans of a file that lie well behind `key`.
void SpanCache::DropBehind(const Key& key) {
  auto it = entries_.lower_bound({key.first, 0});
  while (it != entries_.end() && it->first.first == key.first &&
         it->first.second + kKeptBehind < key.second) {
    if (it->second.bytes == nullptr) {  // somebody inflates it
      ++it;
      continue;
    }
    num_bytes_ -= it->second.num_bytes;
    it = entries_.erase(it);
  }
}

// Throws out what was not used for the longest time.
void SpanCache::MakeRoom(size_t num_bytes) {
  while (num_bytes_ + num_bytes > max_bytes_) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.bytes == nullptr) continue;
      if (oldest == entries_.end() || it->second.last_used < oldest->second.last_used) oldest = it;
    }
    if (oldest == entries_.end()) return;
    num_bytes_ -= oldest->second.num_bytes;
    entries_.erase(oldest);
  }
}

}  // namespace millrace::readers
