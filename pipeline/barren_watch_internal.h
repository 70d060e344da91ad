#ifndef MILLRACE_PIPELINE_BARREN_WATCH_INTERNAL_H_
#define MILLRACE_PIPELINE_BARREN_WATCH_INTERNAL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

// Notices an endless input of a cut that no batch can be made of: it comes round again and again,
// and nothing passes.

namespace millrace::pipeline {

// Thread-compatible: under a lock of the executor.
class BarrenWatch {
 public:
  // `epoch_size` as Order::EpochSize says, 0: not known, and nothing is noticed; dealt to
  // `num_lanes` lanes, of which `lanes` are looked at.
  void Reset(uint64_t epoch_size, uint64_t num_lanes, const std::vector<uint64_t>& lanes) {
    epoch_size_ = epoch_size;
    rows_per_lane_ = epoch_size / num_lanes + 1;
    barren_rows_.clear();
    for (const uint64_t lane : lanes) barren_rows_[lane] = 0;
  }

  // `rows` positions of a lane were looked at, and `kept` rows passed.
  void Add(uint64_t lane, uint64_t rows, uint64_t kept) {
    uint64_t& barren = barren_rows_[lane];
    barren = kept > 0 ? 0 : barren + rows;
  }

  // True when nothing passed in whole epochs, or when a lane had nothing for so long that it can
  // have no share: an order that repeats itself gives it the same records each time. In a shuffled
  // order with one record that passes, it would have come by e^-kLaneEpochs.
  bool barren() const {
    if (epoch_size_ == 0 || barren_rows_.empty()) return false;
    const auto [least, most] =
        std::ranges::minmax_element(barren_rows_, {}, [](const auto& lane) { return lane.second; });
    return least->second >= kEpochs * rows_per_lane_ || most->second >= kLaneEpochs * epoch_size_;
  }

 private:
  static constexpr uint64_t kEpochs = 4;
  static constexpr uint64_t kLaneEpochs = 64;

  uint64_t epoch_size_ = 0;
  uint64_t rows_per_lane_ = 1;                // of an epoch
  std::map<uint64_t, uint64_t> barren_rows_;  // by lane: since a row passed
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BARREN_WATCH_INTERNAL_H_
