#include "trainer/backend/onednn/segments.h"

#include <algorithm>
#include <array>
#include <utility>

namespace millrace::trainer {
namespace {

// True for buffers that one segment alone uses, and not the last one, to which the losses belong.
std::vector<bool> LostBuffers(const BufferUses& uses, const std::vector<Segment>& segments) {
  const auto last = static_cast<int64_t>(segments.size()) - 1;
  std::vector<Interval> users(uses.bytes.size());
  const auto use = [&](const std::vector<size_t>& buffers, int64_t segment) {
    for (const size_t buffer : buffers) users[buffer].Extend(segment);
  };
  use(uses.inputs, last);
  use(uses.losses, last);
  use(uses.outputs, last);
  for (int64_t k = 0; k <= last; ++k) {
    for (size_t i = segments[k].begin; i < segments[k].end; ++i) {
      use(uses.layers[i].forward, k);
      use(uses.layers[i].backward, k);
    }
  }
  std::vector<bool> is_lost;
  for (const Interval& user : users) is_lost.push_back(user.first == user.last && user.last < last);
  return is_lost;
}

// The layers whose lost results the backward pass reads, or other layers among them.
std::vector<size_t> LayersToRunAgain(const BufferUses& uses, const std::vector<bool>& is_lost,
                                     const Segment& segment) {
  std::vector<bool> is_needed(is_lost.size());
  const auto need = [&](const std::vector<size_t>& buffers) {
    for (const size_t buffer : buffers) is_needed[buffer] = is_lost[buffer];
  };
  for (size_t i = segment.begin; i < segment.end; ++i) need(uses.layers[i].backward);
  std::vector<size_t> again;
  for (size_t i = segment.end; i-- > segment.begin;) {
    const LayerUses& layer = uses.layers[i];
    const auto is_wanted = [&](size_t buffer) { return is_needed[buffer]; };
    if (std::ranges::none_of(layer.results, is_wanted)) continue;
    again.push_back(i);
    need(layer.forward);
  }
  std::ranges::reverse(again);
  return again;
}

// Bytes at the places between layers: place i is before layer i.
class Places {
 public:
  explicit Places(const BufferUses& uses);

  // Bytes of the results of layers [begin, end).
  size_t MadeBytes(size_t begin, size_t end) const { return made_[end] - made_[begin]; }
  // The place that the fewest bytes cross, among those in (begin, end] before which layers from
  // `begin` on make at least half of `bytes`.
  size_t Narrowest(size_t begin, size_t end, size_t bytes) const;

 private:
  std::vector<size_t> made_;  // before the place
  std::vector<int64_t> crossing_;
};

Places::Places(const BufferUses& uses) {
  const size_t layers = uses.layers.size();
  std::vector<Interval> lives(uses.bytes.size());
  for (size_t i = 0; i < layers; ++i) {
    for (const size_t buffer : uses.layers[i].forward) {
      lives[buffer].Extend(static_cast<int64_t>(i));
    }
  }
  for (const size_t buffer : uses.losses) lives[buffer].Extend(static_cast<int64_t>(layers));
  made_.resize(layers + 2);
  crossing_.resize(layers + 2);
  for (size_t buffer = 0; buffer < lives.size(); ++buffer) {
    const Interval& life = lives[buffer];
    if (life.IsEmpty()) continue;
    made_[life.first + 1] += uses.bytes[buffer];
    crossing_[life.first + 1] += static_cast<int64_t>(uses.bytes[buffer]);
    crossing_[life.last + 1] -= static_cast<int64_t>(uses.bytes[buffer]);
  }
  for (size_t i = 1; i < made_.size(); ++i) {
    made_[i] += made_[i - 1];
    crossing_[i] += crossing_[i - 1];
  }
}

size_t Places::Narrowest(size_t begin, size_t end, size_t bytes) const {
  size_t best = end;
  for (size_t place = end; place > begin && 2 * MadeBytes(begin, place) >= bytes; --place) {
    if (crossing_[place] < crossing_[best]) best = place;
  }
  return best;
}

// Cuts such that each segment but the last makes half of `bytes` to `bytes`, or is one layer.
std::vector<size_t> CutsOf(const Places& places, size_t layers, size_t bytes) {
  std::vector<size_t> cuts;
  size_t begin = 0;
  for (size_t place = 1; place < layers; ++place) {
    if (places.MadeBytes(begin, place) < bytes) continue;
    begin = places.Narrowest(begin, place, bytes);
    cuts.push_back(begin);
    place = begin;
  }
  return cuts;
}

struct Choice {
  std::vector<size_t> cuts;
  double bytes = 0;           // that live at a time
  int64_t multiply_adds = 0;  // that are done again
};

Choice MakeChoice(const BufferUses& uses, std::vector<size_t> cuts) {
  const Segmentation segmentation = CutLayers(uses, cuts);
  Choice choice = {std::move(cuts)};
  choice.bytes = static_cast<double>(MostLiveBytes(LivesOf(uses, segmentation)));
  for (const Segment& segment : segmentation.segments) {
    for (const size_t i : segment.again) choice.multiply_adds += uses.layers[i].multiply_adds;
  }
  return choice;
}

}  // namespace

Segmentation CutLayers(const BufferUses& uses, const std::vector<size_t>& cuts) {
  Segmentation result;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    result.segments.push_back({begin, cut, {}});
    begin = cut;
  }
  result.segments.push_back({begin, uses.layers.size(), {}});
  result.is_lost = LostBuffers(uses, result.segments);
  for (Segment& segment : result.segments) {
    segment.again = LayersToRunAgain(uses, result.is_lost, segment);
  }
  return result;
}

// Tries segments of equal bytes, more and more of them.
Segmentation ChooseSegmentation(const BufferUses& uses) {
  constexpr size_t kMostSegments = 32;
  constexpr double kNearly = 1.05;
  const Places places(uses);
  const size_t layers = uses.layers.size();
  std::vector<Choice> choices = {MakeChoice(uses, {})};
  for (size_t count = 2; count <= kMostSegments; ++count) {
    const size_t bytes = places.MadeBytes(0, layers) / count;
    choices.push_back(MakeChoice(uses, CutsOf(places, layers, bytes)));
  }
  const double least = std::ranges::min_element(choices, {}, &Choice::bytes)->bytes;
  std::erase_if(choices, [&](const Choice& choice) { return choice.bytes > kNearly * least; });
  return CutLayers(uses, std::ranges::min_element(choices, {}, &Choice::multiply_adds)->cuts);
}

// Times count the layers' passes. A buffer that is lost has an interval in each direction.
std::vector<BufferLife> LivesOf(const BufferUses& uses, const Segmentation& segmentation) {
  std::vector<std::array<Interval, 2>> intervals(uses.bytes.size());
  int64_t time = -1;
  size_t direction = 0;
  const auto use = [&](const std::vector<size_t>& buffers) {
    for (const size_t buffer : buffers) {
      intervals[buffer][segmentation.is_lost[buffer] ? direction : 0].Extend(time);
    }
    ++time;
  };
  use(uses.inputs);
  for (const LayerUses& layer : uses.layers) use(layer.forward);
  use(uses.losses);
  direction = 1;
  const std::vector<Segment>& segments = segmentation.segments;
  for (size_t k = segments.size(); k-- > 0;) {
    for (const size_t i : segments[k].again) use(uses.layers[i].forward);
    for (size_t i = segments[k].end; i-- > segments[k].begin;) use(uses.layers[i].backward);
  }
  for (const size_t buffer : uses.outputs) intervals[buffer][0].Extend(time);
  for (const size_t buffer : uses.afterwards) {
    if (!segmentation.is_lost[buffer]) intervals[buffer][0].Extend(time);
  }
  std::vector<BufferLife> lives;
  for (size_t buffer = 0; buffer < intervals.size(); ++buffer) {
    lives.push_back({uses.bytes[buffer], {}});
    for (const Interval& interval : intervals[buffer]) {
      if (!interval.IsEmpty()) lives.back().intervals.push_back(interval);
    }
    if (lives.back().intervals.empty()) lives.back().bytes = 0;
  }
  return lives;
}

}  // namespace millrace::trainer
