#include "readers/http/expected_reads.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <tuple>

#include "base/caught.h"

namespace millrace::readers {

void ExpectedReads::SetLimit(uint64_t bytes) {
  MutexLock lock(mu_);
  limit_bytes_ = bytes;
  BeginLocked();
}

void ExpectedReads::Expect(uint64_t group, std::span<const Piece> pieces) {
  std::vector<RangePtr> ranges = Merge(group, pieces);
  MutexLock lock(mu_);
  Ranges& of_group = groups_[group];
  for (const RangePtr& range : ranges) of_group[{range->file, range->begin}] = range;
  std::ranges::sort(ranges, {}, &Range::first);
  waiting_.insert(waiting_.end(), ranges.begin(), ranges.end());
  BeginLocked();
}

// Ranges in the order of their places.
std::vector<ExpectedReads::RangePtr> ExpectedReads::Merge(uint64_t group,
                                                          std::span<const Piece> pieces) const {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](size_t i) { return std::tuple(pieces[i].file, pieces[i].offset, i); });
  std::vector<RangePtr> ranges;
  for (const size_t i : order) {
    const Piece& piece = pieces[i];
    const uint64_t end = piece.offset + piece.bytes;
    if (piece.bytes == 0) continue;
    Range* const last = ranges.empty() ? nullptr : ranges.back().get();
    const bool touches =
        last != nullptr && last->file == piece.file && piece.offset <= last->end + kGapBytes;
    if (touches && (end <= last->end || end - last->begin <= range_bytes_)) {
      if (piece.offset > last->begins.back()) last->begins.push_back(piece.offset);
      last->end = std::max(last->end, end);
      last->first = std::min(last->first, i);
      continue;
    }
    auto range = std::make_shared<Range>();
    range->file = piece.file;
    // A read may go across: there is no gap between two ranges that touch.
    range->begin = touches ? last->end : piece.offset;
    range->end = end;
    range->group = group;
    range->first = i;
    range->begins = {piece.offset};
    ranges.push_back(std::move(range));
  }
  for (const RangePtr& range : ranges) {
    range->unread = range->size();
    range->read.resize(range->begins.size());
  }
  return ranges;
}

// Begins to fetch what there is room for. Nothing is left to wait where nothing is held.
void ExpectedReads::BeginLocked() {
  while (!waiting_.empty()) {
    const RangePtr range = waiting_.front();
    if (range->bytes == nullptr) {
      if (num_under_way_ >= kMostUnderWay) return;
      if (held_bytes_ > 0 && held_bytes_ + range->size() > limit_bytes_) return;
      if (!FetchLocked(range)) return;
    }
    waiting_.pop_front();
  }
}

// False if there is no memory.
bool ExpectedReads::FetchLocked(const RangePtr& range) {
  range->bytes.reset(new (std::nothrow) std::byte[range->size()]);
  if (range->bytes == nullptr) return false;
  held_bytes_ += range->size();
  ++num_under_way_;
  // Also on the client's thread, which nothing may get out of.
  const absl::Status begun = Caught([&] {
    range->file->Fetch(range->begin, {range->bytes.get(), range->size()},
                       [this, range](const absl::Status& status) { Land(*range, status); });
  });
  if (begun.ok()) return true;
  range->bytes.reset();
  held_bytes_ -= range->size();
  --num_under_way_;
  return false;
}

// A range that failed is not kept: the next read of its bytes asks again, by itself.
void ExpectedReads::Land(Range& range, const absl::Status& status) {
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    MutexLock lock(mu_);
    const auto group = groups_.find(range.group);
    const bool forgotten = group == groups_.end();
    range.landed = status.ok();
    --num_under_way_;
    if (range.landed && !forgotten) unread_bytes_ += range.unread;
    if (!range.landed && !forgotten) {
      group->second.erase({range.file, range.begin});
      held_bytes_ -= range.size();
    }
    waiters = std::exchange(range.waiters, {});
    for (const auto& waiter : waiters) waiter->status.Update(status);
    BeginLocked();
  }
  for (const auto& waiter : waiters) {
    if (status.ok()) Copy(range, waiter->offset, waiter->out);
  }
  std::erase_if(waiters, [this](const auto& waiter) {
    MutexLock lock(mu_);
    return --waiter->num_left > 0;
  });
  for (const auto& waiter : waiters) waiter->done(waiter->status);
}

void ExpectedReads::Forget(uint64_t group) {
  Ranges gone;  // freed without the mutex
  MutexLock lock(mu_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  gone = std::move(found->second);
  groups_.erase(found);
  std::erase_if(waiting_, [group](const RangePtr& range) { return range->group == group; });
  for (const auto& [place, range] : gone) {
    if (range->bytes != nullptr) held_bytes_ -= range->size();
    if (range->landed) unread_bytes_ -= range->unread;
  }
  BeginLocked();
}

// The ranges of one group that have all bytes between `begin` and `end`, in order; none if no group
// has. Of several groups it is the first one of which these pieces were not read.
std::vector<ExpectedReads::RangePtr> ExpectedReads::FindLocked(const FetchedFile& file,
                                                               uint64_t begin, uint64_t end) const {
  std::vector<RangePtr> any;
  for (const auto& [number, ranges] : groups_) {
    std::vector<RangePtr> found = FindIn(ranges, file, begin, end);
    if (found.empty()) continue;
    if (std::ranges::all_of(found, [&](const auto& range) { return Lacks(*range, begin, end); })) {
      return found;
    }
    if (any.empty()) any = std::move(found);
  }
  return any;
}

// True if the first piece of the range between `begin` and `end` was not read.
bool ExpectedReads::Lacks(const Range& range, uint64_t begin, uint64_t end) {
  const auto piece = std::ranges::lower_bound(range.begins, begin);
  return piece != range.begins.end() && *piece < end &&
         !range.read[static_cast<size_t>(piece - range.begins.begin())];
}

std::vector<ExpectedReads::RangePtr> ExpectedReads::FindIn(const Ranges& ranges,
                                                           const FetchedFile& file, uint64_t begin,
                                                           uint64_t end) {
  std::vector<RangePtr> found;
  uint64_t reached = begin;
  auto next = ranges.upper_bound({&file, begin});
  if (next == ranges.begin()) return {};
  for (--next; next != ranges.end() && reached < end; ++next) {
    const RangePtr& range = next->second;
    if (range->file != &file || range->begin > reached || range->end <= reached) return {};
    found.push_back(range);
    reached = range->end;
  }
  return reached < end ? std::vector<RangePtr>() : found;
}

void ExpectedReads::CountReadLocked(Range& range, uint64_t begin, uint64_t end) {
  const uint64_t bytes =
      std::min(range.unread, std::min(end, range.end) - std::max(begin, range.begin));
  range.unread -= bytes;
  if (range.landed) unread_bytes_ -= bytes;
  for (auto piece = std::ranges::lower_bound(range.begins, begin);
       piece != range.begins.end() && *piece < end; ++piece) {
    range.read[static_cast<size_t>(piece - range.begins.begin())] = true;
  }
}

bool ExpectedReads::StartRead(const FetchedFile& file, uint64_t offset, std::span<std::byte> out,
                              std::function<void(absl::Status)> done) {
  const auto waiter = std::make_shared<Waiter>();
  waiter->offset = offset;
  waiter->out = out;
  waiter->done = std::move(done);
  std::vector<RangePtr> landed;
  {
    MutexLock lock(mu_);
    const std::vector<RangePtr> ranges = FindLocked(file, offset, offset + out.size());
    if (ranges.empty()) return false;
    // A read that is made now is handed to the client now, over the limits if need be: its reader
    // may be the one that earlier groups wait for. The client takes it behind what it has already.
    for (const RangePtr& range : ranges) {
      if (range->bytes == nullptr && !FetchLocked(range)) return false;
    }
    // Memory is taken first: once a range knows the read, `done` runs.
    landed.reserve(ranges.size());
    for (const RangePtr& range : ranges) {
      auto& waiters = range->waiters;
      if (waiters.size() == waiters.capacity()) waiters.reserve(2 * waiters.size() + 1);
    }
    waiter->num_left = 1;
    for (const RangePtr& range : ranges) {
      CountReadLocked(*range, offset, offset + out.size());
      if (range->landed) {
        landed.push_back(range);
      } else {
        ++waiter->num_left;
        range->waiters.push_back(waiter);
      }
    }
  }
  for (const RangePtr& range : landed) Copy(*range, offset, out);
  {
    MutexLock lock(mu_);
    if (--waiter->num_left > 0) return true;
  }
  waiter->done(waiter->status);
  return true;
}

bool ExpectedReads::TryRead(const FetchedFile& file, uint64_t offset, std::span<std::byte> out) {
  std::vector<RangePtr> ranges;
  {
    MutexLock lock(mu_);
    ranges = FindLocked(file, offset, offset + out.size());
    if (ranges.empty() || !std::ranges::all_of(ranges, &Range::landed)) return false;
    for (const RangePtr& range : ranges) CountReadLocked(*range, offset, offset + out.size());
  }
  for (const RangePtr& range : ranges) Copy(*range, offset, out);
  return true;
}

// Copies the bytes that `out`, read from `offset` on, has of the range.
void ExpectedReads::Copy(const Range& range, uint64_t offset, std::span<std::byte> out) {
  const uint64_t begin = std::max(offset, range.begin);
  const uint64_t end = std::min(offset + out.size(), range.end);
  std::memcpy(out.data() + (begin - offset), range.bytes.get() + (begin - range.begin),
              end - begin);
}

uint64_t ExpectedReads::unread_bytes() const {
  MutexLock lock(mu_);
  return unread_bytes_;
}

}  // namespace millrace::readers
