#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RANGE_MAP_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RANGE_MAP_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "tests/trainer/backend/cuda/order/log.h"

namespace millrace::trainer::cuda::order {

// What is known of each byte, in pieces of bytes of which the same is known; Known() of bytes that
// were never set.
template <typename Known>
class RangeMap {
 public:
  // Calls `body(begin, end, known)` for the pieces of `range`, in ascending order; it may change
  // what is known.
  template <typename Body>
  void Visit(const Range& range, const Body& body) {
    Cut(range.begin);
    Cut(range.end());
    uint64_t begin = range.begin;
    while (begin < range.end()) {
      auto piece = pieces_.lower_bound(begin);
      if (piece == pieces_.end() || piece->first > begin) {
        const uint64_t next = piece == pieces_.end() ? range.end() : piece->first;
        const uint64_t end = std::min(range.end(), next);
        piece = pieces_.emplace_hint(piece, begin, std::pair(end, Known()));
      }
      body(begin, piece->second.first, piece->second.second);
      begin = piece->second.first;
    }
  }
  // Makes one piece of `range`.
  void Set(const Range& range, Known known) {
    if (range.bytes == 0) return;
    Cut(range.begin);
    Cut(range.end());
    pieces_.erase(pieces_.lower_bound(range.begin), pieces_.lower_bound(range.end()));
    pieces_[range.begin] = {range.end(), std::move(known)};
  }

 private:
  // Lets a piece begin at `at` if one holds it.
  void Cut(uint64_t at) {
    const auto next = pieces_.upper_bound(at);
    if (next == pieces_.begin()) return;
    auto& [begin, piece] = *std::prev(next);
    if (begin == at || piece.first <= at) return;
    pieces_.emplace_hint(next, at, piece);
    piece.first = at;
  }

  std::map<uint64_t, std::pair<uint64_t, Known>> pieces_;  // by begin: end, known
};

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RANGE_MAP_H_
