#ifndef MILLRACE_PIPELINE_ORDER_INTERLEAVE_H_
#define MILLRACE_PIPELINE_ORDER_INTERLEAVE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

// interleave(cycle_length, block_length) as arithmetic (docs/semantics.md, S-ORDER-7).
//
// The stage visits its C slots in turn, and a visit takes up to B elements of the slot's file. A
// round is one visit of every slot. A file of n elements that is opened in round r keeps its slot
// for n / B + 1 rounds, independently of the other slots: n / B visits give B elements each and the
// last one the rest, maybe none, and finds the end. The next file in line goes to the slot that is
// free first, and of those free in the same round to the lowest. So a queue of (round, slot) tells
// for each file where and when it runs without looking at an element.
//
// How many elements a round gives only changes when a file is opened, has its last visit, or is
// gone: at most three times per file. Between, the count is constant, so element -> round is a
// binary search and a division, and then slot -> file another search: O(log files), in a few words
// per file.

namespace millrace::pipeline {

// One way through the files. Immutable, thread-safe.
class InterleaveTable {
 public:
  struct Element {
    uint64_t file = 0;   // in the order in which they are opened
    uint64_t index = 0;  // the number of the element in the file
  };
  // The place of the last element asked for, for the next call.
  struct Cursor {
    // Elements [begin, end) come from one visit.
    uint64_t begin = 0;
    uint64_t end = 0;
    Element first;
    // The round whose visits end where (ends[s], from the round's beginning), when they had to be
    // looked at one by one.
    uint64_t round = ~uint64_t{0};
    std::vector<uint64_t> ends;
  };

  // Lengths of the files in the order in which they are opened. REQUIRES: cycle_length > 0,
  // block_length > 0.
  InterleaveTable(std::span<const uint64_t> lengths, uint64_t cycle_length, uint64_t block_length);

  // Element `position` of the pass. REQUIRES: position < sum of the lengths; the cursor is new or
  // was used with this table only.
  Element At(uint64_t position, Cursor& cursor) const;

 private:
  struct Turn {  // a file in its slot
    uint64_t first_round = 0;
    uint64_t file = 0;
    uint64_t length = 0;
  };
  struct Stretch {  // rounds that give equally many elements
    uint64_t first_round = 0;
    uint64_t first_position = 0;
    uint64_t per_round = 0;
  };
  std::vector<uint64_t> PlaceTurns(std::span<const uint64_t> lengths);
  void MakeStretches();
  const Turn* TurnAt(uint64_t slot, uint64_t round) const;
  uint64_t Yield(uint64_t slot, uint64_t round) const;
  void SetVisit(uint64_t slot, uint64_t round, Cursor& cursor) const;

  uint64_t block_;
  uint64_t cycle_;
  std::vector<Turn> turns_;         // the turns, by slot, then by round
  std::vector<uint64_t> slot_end_;  // the end of each slot in turns_
  std::vector<Stretch> stretches_;
};

// The files under an interleave. Immutable, thread-safe.
struct InterleaveFiles {
  std::vector<uint64_t> first;    // number of each file's first record in the source
  std::vector<uint64_t> lengths;  // records of each
  uint64_t cycle_length = 1;
  uint64_t block_length = 1;
  bool shuffle = false;                          // true if the files are permuted in each pass
  std::shared_ptr<const InterleaveTable> table;  // without shuffle
};

// Tables of the last two epochs, and where the last element was. Thread-compatible.
class InterleaveMemo {
 public:
  // Borrows the files.
  explicit InterleaveMemo(const InterleaveFiles* files) : files_(*files) {}

  // Number in the source of element `position` of the pass that has this key.
  uint64_t RecordAt(uint64_t position, uint64_t key);

 private:
  struct Pass {
    uint64_t key = 0;
    uint64_t last_use = 0;
    std::vector<uint64_t> files;  // the files in the order in which they are opened, with shuffle
    std::optional<InterleaveTable> table;
    InterleaveTable::Cursor cursor;
  };
  Pass& PassOf(uint64_t key);

  const InterleaveFiles& files_;
  InterleaveTable::Cursor cursor_;
  std::array<Pass, 2> passes_;
  uint64_t uses_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_INTERLEAVE_H_
