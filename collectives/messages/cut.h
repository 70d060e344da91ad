#ifndef MILLRACE_COLLECTIVES_MESSAGES_CUT_H_
#define MILLRACE_COLLECTIVES_MESSAGES_CUT_H_

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collectives/core/ordered_reduction.h"
#include "collectives/messages/transport_communicator.h"

namespace millrace::collectives {

// The division of a call's data into a share per rank, and of shares into pieces, of which each
// round moves one per rank.
class Cut {
 public:
  struct Piece {
    size_t offset;  // in the whole data
    size_t bytes;   // 0: the share has no more
  };

  // Shares of about the same size, cut at 64 bytes; or exactly equal blocks.
  static Cut IntoShares(size_t bytes, int size, const TransportOptions& options) {
    return Cut(bytes, size, options, /*blocks=*/false);
  }
  static Cut IntoBlocks(size_t bytes, int size, const TransportOptions& options) {
    return Cut(bytes, size, options, /*blocks=*/true);
  }

  int size() const { return size_; }
  size_t num_rounds() const { return (largest_ + piece_ - 1) / piece_; }
  // The most that a rank receives in a round.
  size_t round_bytes() const { return std::min(piece_, largest_) * (size_ - 1); }
  size_t piece_bytes() const { return std::min(piece_, largest_); }

  Piece piece(int rank, size_t round) const {
    const auto [begin, end] = Share(rank);
    const size_t at = std::min(end, begin + round * piece_);
    return {at, std::min(piece_, end - at)};
  }

 private:
  static constexpr size_t kAlign = 64;  // a multiple of every element's size

  Cut(size_t bytes, int size, const TransportOptions& options, bool blocks)
      : bytes_(bytes), size_(size), blocks_(blocks) {
    const size_t fits = options.round_bytes / std::max(1, size - 1);
    piece_ = std::max(kAlign, std::min(options.piece_bytes, fits) / kAlign * kAlign);
    const auto [begin, end] = Share(0);
    largest_ = end - begin;
  }

  std::pair<size_t, size_t> Share(int rank) const {
    if (!blocks_) return ShareOf(bytes_, rank, size_);
    const size_t block = bytes_ / size_;
    return {block * rank, block * (rank + 1)};
  }

  size_t bytes_;
  int size_;
  bool blocks_;  // true if the shares are exactly equal blocks
  size_t piece_ = kAlign;
  size_t largest_ = 0;  // bytes of the largest share
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_CUT_H_
