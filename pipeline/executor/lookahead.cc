#include "pipeline/executor/lookahead.h"

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>

#include "pipeline/executor/settling.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kRowsAtOnce = 256;       // that are located
constexpr uint64_t kElementsAtOnce = 4096;  // of rows that are windows; of one row all
// Memory of a range of its own beside its bytes; records of windows lie side by side.
constexpr uint64_t kRangeBytes = 512;

uint64_t EndOf(const ExecutorParts& parts) {
  if (parts.has_cut()) return LaneEnds(parts).front();
  return std::min(parts.order.num_batches(), kMaxCount / parts.plan.batch.size);
}

}  // namespace

Lookahead::Lookahead(const ExecutorParts& parts)
    : parts_(parts),
      sizes_(*parts.lookahead),
      order_(parts.order.records()),
      pass_epochs_(order_.size() == kInfinite ? 0 : order_.EpochsBegun(order_.size())),
      end_(EndOf(parts)),
      has_windows_(order_.WindowSize() > 0),
      has_epochs_(parts.zip == nullptr && parts.plan.order.root == OrderPlan::Root::kSource),
      row_elements_(parts.windows == nullptr ? 1 : parts.windows->size()),
      memo_(order_) {
  parts_.source->KeepExpected(sizes_.limit_bytes);
}

void Lookahead::Clear() {
  begun_ = false;
  stretch_ = Stretch();
  reached_ = 0;
  MutexLock lock(mu_);
  // From the last one on: none of them is to begin because another one goes.
  for (; !chunks_.empty(); chunks_.pop_back()) parts_.source->Forget(chunks_.back().group);
  expected_bytes_ = 0;
}

void Lookahead::Reach(uint64_t first, uint64_t end) {
  if (!begun_) next_ = parts_.has_cut() ? first : first / parts_.plan.batch.size;
  if (begun_ && parts_.has_cut() && first > asked_) PassOver(first);
  begun_ = true;
  asked_ = end;
  const auto has_room = [this] {
    MutexLock lock(mu_);
    return expected_bytes_ + sizes_.chunk_bytes <= sizes_.limit_bytes;
  };
  while ((reached_ < end || has_room()) && Expect()) {
  }
}

// Gives up the rows between the last Reach and `position`, and begins anew there if it is beyond
// all that is expected.
void Lookahead::PassOver(uint64_t position) {
  std::vector<std::pair<uint64_t, uint64_t>> passed;  // rows [first, second) of each chunk
  for (uint64_t first = asked_; first < std::min(position, reached_);) {
    const uint64_t end = first + std::min(LeftInChunk(first), position - first);
    passed.emplace_back(first, end);
    first = end;
  }
  // From the last ones on, as in Clear.
  for (const auto& [first, end] : std::views::reverse(passed)) {
    Read(first, static_cast<int64_t>(end - first));
  }
  if (position <= reached_) return;
  stretch_ = Stretch();
  next_ = position;
}

// Expects a chunk; false at the end of the stream.
bool Lookahead::Expect() {
  Chunk chunk{.group = next_group_};
  refs_.clear();
  shared_.clear();
  const uint64_t most_rows = std::clamp<uint64_t>(kElementsAtOnce / row_elements_, 1, kRowsAtOnce);
  while (NextRows(chunk)) {
    const uint64_t window_rows = chunk.window_end - stretch_.pass_position;
    const size_t rows = std::min({most_rows, stretch_.rows, window_rows});
    Locate(rows);
    const size_t taken = Append(rows, chunk);
    stretch_.position += taken;
    stretch_.pass_position += taken;
    stretch_.rows -= taken;
    chunk.end = stretch_.position;
    if (taken < rows) break;
  }
  if (chunk.rows_left == 0) return false;
  ++next_group_;
  reached_ = chunk.end;
  {
    MutexLock lock(mu_);
    chunks_.push_back(chunk);
    expected_bytes_ += chunk.bytes;
  }
  parts_.source->Expect(chunk.group, refs_);
  return true;
}

// True if the rows of the stretch belong to `chunk` too.
bool Lookahead::NextRows(Chunk& chunk) {
  while (stretch_.rows == 0) {
    if (!NextStretch()) return false;
  }
  const uint64_t end = has_windows_ ? order_.WindowEnd(stretch_.pass_position) : kInfinite;
  if (chunk.rows_left == 0) {
    chunk.pass_epoch = stretch_.pass_epoch;
    chunk.window_end = end;
    return true;
  }
  if (chunk.pass_epoch != stretch_.pass_epoch || chunk.window_end != end) return false;
  return has_windows_ || chunk.bytes < sizes_.chunk_bytes;
}

bool Lookahead::NextStretch() {
  if (next_ >= end_) return false;
  return parts_.has_cut() ? NextPositions() : NextBatch();
}

// This rank's rows of a batch; there may be none.
bool Lookahead::NextBatch() {
  const BatchPlace place = parts_.order.Place(next_++);
  const uint64_t first = std::min(parts_.slice.first_row, place.valid_rows);
  stretch_.position = place.index * parts_.plan.batch.size + first;
  stretch_.pass_epoch = place.pass_epoch;
  stretch_.pass_position = place.first_position + first;
  stretch_.rows = std::min(parts_.slice.num_rows, place.valid_rows - first);
  return true;
}

// The rest of a pass.
bool Lookahead::NextPositions() {
  const uint64_t size = order_.size();
  if (size == 0) return false;
  const uint64_t pass = size == kInfinite ? 0 : next_ / size;
  stretch_.position = next_;
  stretch_.pass_epoch = pass * pass_epochs_;
  stretch_.pass_position = next_ - (size == kInfinite ? 0 : pass * size);
  stretch_.rows = std::min(size - stretch_.pass_position, end_ - next_);
  next_ += stretch_.rows;
  return true;
}

// Locates the next rows: column after column, each of all rows.
void Lookahead::Locate(size_t rows) {
  ids_.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    ids_[i] = {.epoch = stretch_.pass_epoch, .record = stretch_.pass_position + i};
  }
  order_.Map(ids_, &memo_);
  std::span<const SampleId> samples = ids_;
  if (parts_.windows != nullptr) {
    parts_.windows->Locate(ids_, elements_);
    samples = elements_.ids;
  }
  const size_t columns = parts_.zip == nullptr ? 1 : parts_.zip->num_inputs();
  located_.resize(samples.size() * columns);
  starts_.resize(samples.size() * columns + 1);
  if (parts_.zip == nullptr) return parts_.source->LocateAll(samples, located_, starts_);
  zipped_.resize(samples.size() * columns);
  parts_.zip->Locate(samples, zipped_);
  parts_.source->LocateAll(zipped_, located_, starts_);
}

// Makes the first of the located rows those of the chunk, up to its size; returns their number. No
// chunk has rows of two epochs: each record would be in it twice.
size_t Lookahead::Append(size_t rows, Chunk& chunk) {
  if (chunk.rows_left == 0) chunk.epoch = ids_.front().epoch;
  size_t row = 0;
  for (; row < rows && (has_windows_ || chunk.bytes < sizes_.chunk_bytes); ++row) {
    if (has_epochs_ && ids_[row].epoch != chunk.epoch) break;
    if (parts_.windows == nullptr) AppendElement(row, chunk);
    for (size_t i = 0; parts_.windows != nullptr && i < row_elements_; ++i) {
      const uint32_t element = elements_.at[row * row_elements_ + i];
      const SampleId& id = elements_.ids[element];
      if (shared_.emplace(id.epoch, id.record).second) AppendElement(element, chunk);
    }
  }
  chunk.rows_left += static_cast<int64_t>(row);
  return row;
}

// The records of a located sample.
void Lookahead::AppendElement(size_t element, Chunk& chunk) {
  const size_t num_elements = parts_.windows == nullptr ? ids_.size() : elements_.ids.size();
  for (size_t i = element; i < located_.size(); i += num_elements) {
    refs_.push_back(located_[i]);
    chunk.bytes += starts_[i + 1] - starts_[i] + (has_windows_ ? 0 : kRangeBytes);
  }
}

std::deque<Lookahead::Chunk>::const_iterator Lookahead::ChunkOf(uint64_t position) const {
  return std::ranges::upper_bound(chunks_, position, {}, &Chunk::end);
}

uint64_t Lookahead::LeftInChunk(uint64_t position) const {
  MutexLock lock(mu_);
  const auto chunk = ChunkOf(position);
  return chunk == chunks_.end() ? UINT64_MAX : chunk->end - position;
}

void Lookahead::Read(uint64_t position, int64_t rows) {
  uint64_t group = 0;
  {
    MutexLock lock(mu_);
    const auto found = ChunkOf(position);
    if (found == chunks_.end()) return;
    Chunk& chunk = chunks_[static_cast<size_t>(found - chunks_.begin())];
    chunk.rows_left -= rows;
    if (chunk.rows_left > 0) return;
    group = chunk.group;
    expected_bytes_ -= chunk.bytes;
    chunks_.erase(found);
  }
  parts_.source->Forget(group);
}

}  // namespace millrace::pipeline
