// What the layers of random networks read is there when they run, in any segmentation.

#include "trainer/backend/onednn/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/philox.h"

namespace millrace::trainer {
namespace {

// Layers in a row. Each reads the result of the one before, and perhaps of an older one, and makes
// a result of its own, or works in place. Buffer 0 is the input; gradients come behind all results.
struct RandomNetwork {
  RandomNetwork(size_t layers, RandomStream& random) {
    uses.inputs = {0};
    uses.bytes = {1000 * (1 + random.Below(9))};
    uses.layers.resize(layers);
    std::vector<size_t> values = {0};
    for (LayerUses& layer : uses.layers) {
      layer.multiply_adds = static_cast<int64_t>(random.Below(1000));
      layer.forward = {values.back()};
      const size_t other = values[random.Below(values.size())];
      if (random.Below(4) == 0) layer.forward.push_back(other);
      const bool is_in_place = values.back() > 0 && random.Below(4) == 0;
      if (!is_in_place) {
        values.push_back(uses.bytes.size());
        uses.bytes.push_back(1000 * (1 + random.Below(9)));
      }
      layer.results = {values.back()};
      for (const size_t read : layer.forward) {
        if (random.Below(2) == 0) layer.backward.push_back(read);
      }
      if (random.Below(3) == 0) layer.backward.push_back(values.back());
      layer.forward.push_back(values.back());
    }
    uses.losses = {values.back()};
    num_values = uses.bytes.size();
    AddGradients();
  }
  void AddGradients() {
    uses.bytes.resize(2 * num_values);
    for (size_t i = 0; i < num_values; ++i) uses.bytes[num_values + i] = uses.bytes[i];
    for (LayerUses& layer : uses.layers) {
      for (const size_t value : layer.forward) layer.backward.push_back(num_values + value);
    }
    uses.losses.push_back(num_values + uses.losses[0]);
    uses.outputs = {num_values};
  }

  BufferUses uses;
  size_t num_values = 0;
};

// Memory that knows the buffer to which each of its bytes was given last.
class Stamps {
 public:
  Stamps(const BufferUses& uses, const ArenaPlan& plan)
      : uses_(uses), plan_(plan), owners_(plan.bytes, SIZE_MAX) {}

  void Write(size_t buffer) {
    std::fill_n(owners_.begin() + static_cast<std::ptrdiff_t>(plan_.offsets[buffer]),
                uses_.bytes[buffer], buffer);
  }
  void ExpectThere(size_t buffer) const {
    const auto begin = owners_.begin() + static_cast<std::ptrdiff_t>(plan_.offsets[buffer]);
    const auto end = begin + static_cast<std::ptrdiff_t>(uses_.bytes[buffer]);
    EXPECT_TRUE(std::all_of(begin, end, [&](size_t owner) { return owner == buffer; })) << buffer;
  }

 private:
  const BufferUses& uses_;
  const ArenaPlan& plan_;
  std::vector<size_t> owners_;
};

void RunForward(const LayerUses& layer, Stamps& stamps) {
  for (const size_t buffer : layer.forward) {
    if (buffer != layer.results[0]) stamps.ExpectThere(buffer);
  }
  stamps.Write(layer.results[0]);
}

// Gradients are there from their first use on.
void RunBackward(const LayerUses& layer, size_t num_values, std::set<size_t>& made,
                 Stamps& stamps) {
  for (const size_t buffer : layer.backward) {
    if (buffer >= num_values && made.insert(buffer).second) {
      stamps.Write(buffer);
    } else {
      stamps.ExpectThere(buffer);
    }
  }
}

void RunPasses(const RandomNetwork& network, const Segmentation& segmentation) {
  const BufferUses& uses = network.uses;
  const ArenaPlan plan = PlanArena(LivesOf(uses, segmentation));
  Stamps stamps(uses, plan);
  stamps.Write(0);
  for (const LayerUses& layer : uses.layers) RunForward(layer, stamps);
  stamps.ExpectThere(uses.losses[0]);
  stamps.Write(uses.losses[1]);
  std::set<size_t> made = {uses.losses[1]};
  for (size_t k = segmentation.segments.size(); k-- > 0;) {
    const Segment& segment = segmentation.segments[k];
    for (const size_t i : segment.again) RunForward(uses.layers[i], stamps);
    for (size_t i = segment.end; i-- > segment.begin;) {
      RunBackward(uses.layers[i], network.num_values, made, stamps);
    }
  }
  stamps.ExpectThere(uses.outputs[0]);
}

TEST(SegmentsTest, EveryLayerFindsWhatItReads) {
  RandomStream random(RandomKey{});
  for (int turn = 0; turn < 100; ++turn) {
    SCOPED_TRACE(turn);
    const RandomNetwork network(2 + random.Below(30), random);
    std::vector<size_t> cuts;
    for (size_t i = 1; i < network.uses.layers.size(); ++i) {
      if (random.Below(4) == 0) cuts.push_back(i);
    }
    RunPasses(network, CutLayers(network.uses, cuts));
    RunPasses(network, ChooseSegmentation(network.uses));
  }
}

// 64 layers with results of 1000 bytes: eight segments of eight keep eight results, and have eight.
TEST(SegmentsTest, AChainNeedsAboutTwiceTheRootOfItsLayers) {
  BufferUses uses;
  uses.inputs = {0};
  uses.bytes.assign(65, 1000);
  for (size_t i = 0; i < 64; ++i) uses.layers.push_back({{i, i + 1}, {i + 1}, {i}, 1});
  uses.losses = {64};
  const Segmentation chosen = ChooseSegmentation(uses);
  EXPECT_LE(MostLiveBytes(LivesOf(uses, chosen)), 18'000u);
  EXPECT_EQ(MostLiveBytes(LivesOf(uses, CutLayers(uses, {}))), 65'000u);
  for (const Segment& segment : chosen.segments) {
    EXPECT_LT(segment.again.size(), segment.end - segment.begin) << "its result is kept";
  }
  EXPECT_TRUE(chosen.segments.back().again.empty());
}

TEST(SegmentsTest, WhatNoLayerReadsBackwardIsNotMadeAgain) {
  BufferUses uses;
  uses.inputs = {0};
  uses.bytes.assign(5, 1000);
  for (size_t i = 0; i < 4; ++i) uses.layers.push_back({{i, i + 1}, {i + 1}, {}, 1});
  uses.losses = {4};
  uses.layers[1].backward = {1};
  const Segmentation cut = CutLayers(uses, {3});
  ASSERT_EQ(cut.segments.size(), 2u);
  EXPECT_EQ(cut.segments[0].again, std::vector<size_t>{0});
  uses.layers[2].backward = {2};
  EXPECT_EQ(CutLayers(uses, {3}).segments[0].again, (std::vector<size_t>{0, 1}));
}

}  // namespace
}  // namespace millrace::trainer
