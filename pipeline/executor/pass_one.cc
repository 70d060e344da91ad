#include "pipeline/executor/pass_one.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxScanAhead = uint64_t{1} << 22;
constexpr uint64_t kKeptWindow = 1
                                 << 16;  // positions over which the fraction of kept rows is taken

}  // namespace

void PassOne::Begin(std::unique_ptr<Settler> settler, std::span<const uint64_t> lane_ends,
                    EmptyStreamWatch empty_stream) {
  settler_ = std::move(settler);
  board_.Reset(*settler_, lane_ends);
  empty_stream_ = std::move(empty_stream);
  settled_ = settler_->ended();
  more_closed_ = true;  // perhaps; the first turn tells
}

void PassOne::Clear() {
  closed_.clear();
  settling_ = more_closed_ = settled_ = false;
  examined_rows_ = kept_rows_ = 0;
}

std::unique_ptr<ClosedWork> PassOne::TakeClosed() {
  std::unique_ptr<ClosedWork> work = std::move(closed_.front());
  closed_.pop_front();
  return work;
}

size_t PassOne::ClosedRoom(int ring_length) const {
  const size_t limit = budget_.Fits(0) ? static_cast<size_t>(ring_length) : 1;
  return closed_.size() < limit ? limit - closed_.size() : 0;
}

uint64_t PassOne::ScanAhead(uint64_t rows_per_lane, size_t room, uint64_t least) const {
  using Wide = unsigned __int128;
  const Wide wanted = static_cast<Wide>(rows_per_lane) * room;
  const Wide ahead = wanted * (examined_rows_ + 1) / (kept_rows_ + 1);
  return std::max(least, static_cast<uint64_t>(std::min<Wide>(ahead, kMaxScanAhead)));
}

void PassOne::Append(const ScanClaim& claim, std::span<ScanRun* const> runs) {
  uint64_t first = claim.first;
  for (ScanRun* const run : runs) {
    const uint64_t end = first + static_cast<uint64_t>(run->num_rows());
    run->block = board_.Append(claim, first, end);
    first = end;
  }
}

void PassOne::PutFindings(const ScanRun& run, Examined found) {
  empty_stream_.LookedAt(run.ids, found.num_kept);
  examined_rows_ += static_cast<uint64_t>(run.num_rows());
  kept_rows_ += found.num_kept;
  if (examined_rows_ >= kKeptWindow) {
    examined_rows_ /= 2;
    kept_rows_ /= 2;
  }
  ScanBlock& block = *run.block;
  found.lane = block.found.lane;
  found.first = block.found.first;
  found.end = block.found.end;
  block.found = std::move(found);
  block.done = true;
}

PassOne::Turn PassOne::TakeTurn(size_t room) {
  Turn turn;
  turn.settler = settler_.get();
  turn.heads = board_.TakeHeads();
  for (const Examined& found : turn.heads.found) {
    empty_stream_.CameBy(found.lane, found.end - found.first, found.num_kept);
  }
  turn.room = room;
  turn.end_is_due = std::exchange(end_is_due_, false);
  const bool takes = more_closed_ && room > 0;
  turn.idle = settled_ || (turn.heads.empty() && !takes && !turn.end_is_due);
  return turn;
}

void PassOne::EndTurn(std::vector<std::unique_ptr<ClosedWork>> closed, bool more) {
  for (auto& work : closed) closed_.push_back(std::move(work));
  more_closed_ = more;
  settled_ = !more && settler_->ended();
  reached_end_ = settler_->reached_end();
  board_.Update(*settler_);
}

}  // namespace millrace::pipeline
