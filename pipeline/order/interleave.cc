#include "pipeline/order/interleave.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/permutation.h"

namespace millrace::pipeline {

InterleaveTable::InterleaveTable(std::span<const uint64_t> lengths, uint64_t cycle_length,
                                 uint64_t block_length) {
  // More slots than files stay empty; a block longer than all files is as good as endless.
  const uint64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  cycle_ = std::max<uint64_t>(std::min<uint64_t>(cycle_length, lengths.size()), 1);
  block_ = std::min(block_length, longest + 1);
  const std::vector<uint64_t> slot_of = PlaceTurns(lengths);
  // Sorts the turns by slot; they are in order of their rounds already.
  slot_end_.assign(cycle_, 0);
  for (const uint64_t slot : slot_of) ++slot_end_[slot];
  uint64_t end = 0;
  std::vector<uint64_t> next(cycle_);
  for (uint64_t slot = 0; slot < cycle_; ++slot) {
    next[slot] = end;
    end = slot_end_[slot] += end;
  }
  std::vector<Turn> sorted(turns_.size());
  for (size_t file = 0; file < turns_.size(); ++file) sorted[next[slot_of[file]]++] = turns_[file];
  turns_ = std::move(sorted);
  MakeStretches();
}

// Gives each file its round; returns each file's slot.
std::vector<uint64_t> InterleaveTable::PlaceTurns(std::span<const uint64_t> lengths) {
  using Free = std::pair<uint64_t, uint64_t>;  // round, slot
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (uint64_t slot = 0; slot < cycle_; ++slot) free.push({0, slot});
  std::vector<uint64_t> slot_of;
  slot_of.reserve(lengths.size());
  turns_.reserve(lengths.size());
  for (const uint64_t length : lengths) {
    const auto [round, slot] = free.top();
    free.pop();
    turns_.push_back({.first_round = round, .file = turns_.size(), .length = length});
    slot_of.push_back(slot);
    free.push({round + length / block_ + 1, slot});
  }
  return slot_of;
}

void InterleaveTable::MakeStretches() {
  using Change = std::pair<uint64_t, int64_t>;  // round, elements per round from then on
  std::vector<Change> changes;
  changes.reserve(3 * turns_.size());
  for (const Turn& turn : turns_) {
    const uint64_t last_round = turn.first_round + turn.length / block_;
    const auto block = static_cast<int64_t>(block_);
    const auto rest = static_cast<int64_t>(turn.length % block_);
    changes.push_back({turn.first_round, block});
    changes.push_back({last_round, rest - block});
    changes.push_back({last_round + 1, -rest});
  }
  std::ranges::sort(changes, {}, &Change::first);
  uint64_t round = 0, position = 0, per_round = 0, last = 0;
  for (size_t i = 0; i < changes.size();) {
    position += (changes[i].first - round) * per_round;
    round = changes[i].first;
    for (; i < changes.size() && changes[i].first == round; ++i) {
      per_round += static_cast<uint64_t>(changes[i].second);
    }
    if (per_round != last && per_round > 0) stretches_.push_back({round, position, per_round});
    last = per_round;
  }
  stretches_.shrink_to_fit();
}

const InterleaveTable::Turn* InterleaveTable::TurnAt(uint64_t slot, uint64_t round) const {
  const Turn* begin = turns_.data() + (slot == 0 ? 0 : slot_end_[slot - 1]);
  const Turn* end = turns_.data() + slot_end_[slot];
  const Turn* turn = std::upper_bound(begin, end, round,
                                      [](uint64_t r, const Turn& t) { return r < t.first_round; });
  return turn == begin ? nullptr : turn - 1;
}

// Elements that the visit gives.
uint64_t InterleaveTable::Yield(uint64_t slot, uint64_t round) const {
  const Turn* turn = TurnAt(slot, round);
  if (turn == nullptr) return 0;
  const uint64_t visits = round - turn->first_round;
  const uint64_t full = turn->length / block_;
  if (visits < full) return block_;
  return visits == full ? turn->length % block_ : 0;
}

void InterleaveTable::SetVisit(uint64_t slot, uint64_t round, Cursor& cursor) const {
  const Turn* turn = TurnAt(slot, round);
  cursor.first = {.file = turn->file, .index = (round - turn->first_round) * block_};
}

InterleaveTable::Element InterleaveTable::At(uint64_t position, Cursor& cursor) const {
  if (position < cursor.begin || position >= cursor.end) {
    const auto stretch =
        std::ranges::upper_bound(stretches_, position, {}, &Stretch::first_position) - 1;
    const uint64_t rounds = (position - stretch->first_position) / stretch->per_round;
    const uint64_t round = stretch->first_round + rounds;
    const uint64_t round_begin = stretch->first_position + rounds * stretch->per_round;
    const uint64_t offset = position - round_begin;
    if (stretch->per_round == cycle_ * block_) {  // every visit is a full one
      const uint64_t slot = offset / block_;
      cursor.begin = round_begin + slot * block_;
      cursor.end = cursor.begin + block_;
      SetVisit(slot, round, cursor);
    } else {
      if (cursor.round != round) {
        cursor.round = round;
        cursor.ends.resize(cycle_);
        uint64_t end = 0;
        for (uint64_t s = 0; s < cycle_; ++s) cursor.ends[s] = end += Yield(s, round);
      }
      const auto slot = static_cast<uint64_t>(std::ranges::upper_bound(cursor.ends, offset) -
                                              cursor.ends.begin());
      cursor.begin = round_begin + (slot == 0 ? 0 : cursor.ends[slot - 1]);
      cursor.end = round_begin + cursor.ends[slot];
      SetVisit(slot, round, cursor);
    }
  }
  return {.file = cursor.first.file, .index = cursor.first.index + (position - cursor.begin)};
}

InterleaveMemo::Pass& InterleaveMemo::PassOf(uint64_t key) {
  ++uses_;
  for (Pass& pass : passes_) {
    if (!pass.table.has_value() || pass.key != key) continue;
    pass.last_use = uses_;
    return pass;
  }
  Pass& pass = passes_[0].last_use <= passes_[1].last_use ? passes_[0] : passes_[1];
  pass.key = key;
  pass.last_use = uses_;
  pass.cursor = {};
  const uint64_t num_files = files_.lengths.size();
  const Permutation order(num_files, key);
  std::vector<uint64_t> lengths(num_files);
  pass.files.resize(num_files);
  for (uint64_t i = 0; i < num_files; ++i) {
    pass.files[i] = order(i);
    lengths[i] = files_.lengths[pass.files[i]];
  }
  pass.table.emplace(lengths, files_.cycle_length, files_.block_length);
  return pass;
}

uint64_t InterleaveMemo::RecordAt(uint64_t position, uint64_t key) {
  if (!files_.shuffle) {
    const InterleaveTable::Element element = files_.table->At(position, cursor_);
    return files_.first[element.file] + element.index;
  }
  Pass& pass = PassOf(key);
  const InterleaveTable::Element element = pass.table->At(position, pass.cursor);
  return files_.first[pass.files[element.file]] + element.index;
}

}  // namespace millrace::pipeline
