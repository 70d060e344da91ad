#ifndef MILLRACE_TESTS_PIPELINE_ORDER_ORDER_MODEL_H_
#define MILLRACE_TESTS_PIPELINE_ORDER_ORDER_MODEL_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "base/philox.h"
#include "pipeline/order/order.h"
#include "pipeline/plan/physical.h"

// The oracle of an order: iterators that pull from one another, as tf.data describes its stages. A
// repeat begins its input again when it has come to its end; each source and each join counts how
// often it is begun. Nothing here jumps.

namespace millrace::pipeline::model {

using Kind = OrderStep::Kind;
using Rows = std::vector<SampleId>;

class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual std::optional<Rows> Pull() = 0;
};
using Factory = std::function<std::unique_ptr<Iterator>()>;

// How often each root was begun; all iterators of a model share it.
using Begun = std::vector<uint64_t>;

// The key of a stage in an epoch, as S-ORDER-4 words it.
inline uint64_t KeyOf(uint64_t seed, uint64_t stage, uint64_t epoch) {
  return Mix64(Mix64(Mix64(seed) + stage) + epoch);
}

// A source whose records come in an order that depends on the epoch.
class SourceIterator final : public Iterator {
 public:
  using OrderOf = std::function<std::vector<uint64_t>(uint64_t epoch)>;
  SourceIterator(OrderOf order_of, uint64_t& begun)
      : order_of_(std::move(order_of)), begun_(begun) {}
  std::optional<Rows> Pull() override {
    if (!begun_here_) {
      epoch_ = begun_++;
      records_ = order_of_(epoch_);
      begun_here_ = true;
    }
    if (next_ == records_.size()) return std::nullopt;
    return Rows{{epoch_, records_[next_++]}};
  }

 private:
  const OrderOf order_of_;
  uint64_t& begun_;
  bool begun_here_ = false;
  std::vector<uint64_t> records_;
  size_t next_ = 0;
  uint64_t epoch_ = 0;
};

// repeat, take and skip.
class StepIterator final : public Iterator {
 public:
  StepIterator(OrderStep step, Factory inner)
      : step_(std::move(step)), make_(std::move(inner)), inner_(make_()) {}
  std::optional<Rows> Pull() override {
    if (step_.kind == Kind::kTake) return pulled_++ < step_.count ? inner_->Pull() : std::nullopt;
    if (step_.kind == Kind::kSkip) {
      for (; pulled_ < step_.count; ++pulled_) {
        if (!inner_->Pull()) return std::nullopt;
      }
      return inner_->Pull();
    }
    while (true) {
      if (auto rows = inner_->Pull()) return rows;
      if (++pulled_ == step_.count) return std::nullopt;
      inner_ = make_();
    }
  }

 private:
  const OrderStep step_;
  const Factory make_;
  std::unique_ptr<Iterator> inner_;
  uint64_t pulled_ = 0;
};

// Reads to the end of its input, of `size` elements, with its last element.
class ShardIterator final : public Iterator {
 public:
  ShardIterator(const OrderStep& step, uint64_t size, const Factory& inner)
      : step_(step), size_(size), inner_(inner()) {}
  std::optional<Rows> Pull() override {
    const uint64_t wanted = step_.second + delivered_ * step_.count;
    if (wanted >= size_) return std::nullopt;
    while (pulled_ < wanted) Next();
    auto row = Next();
    ++delivered_;
    const bool last = size_ != kInfinite && wanted + step_.count >= size_;
    while (last && pulled_ < size_) Next();
    return row;
  }

 private:
  std::optional<Rows> Next() {
    ++pulled_;
    return inner_->Pull();
  }
  const OrderStep step_;
  const uint64_t size_;
  std::unique_ptr<Iterator> inner_;
  uint64_t pulled_ = 0, delivered_ = 0;
};

// An array of slots: takes one more than it gives until it is full, and is emptied at the end of
// its input, which has `size` elements.
class ShuffleIterator final : public Iterator {
 public:
  ShuffleIterator(uint64_t buffer, uint64_t size, uint64_t seed, uint64_t stage,
                  const uint64_t& begun, const Factory& inner)
      : buffer_(buffer), size_(size), seed_(seed), stage_(stage), begun_(begun), inner_(inner()) {
    slots_.reserve(std::min(buffer, uint64_t{1} << 16));
  }
  std::optional<Rows> Pull() override {
    if (output_ == 0) key_ = KeyOf(seed_, stage_, begun_);
    if (empty_ != nullptr) *std::exchange(empty_, nullptr) = Next();
    if (pulled_ < size_ && slots_.size() < buffer_) slots_.push_back(Next());
    if (pulled_ == size_) return Drain();
    const unsigned __int128 draw = Mix64(key_ + output_++);
    const auto slot = static_cast<size_t>((draw * slots_.size()) >> 64);
    empty_ = &slots_[slot];  // filled when more is asked for
    return Rows{*empty_};
  }

 private:
  SampleId Next() {
    ++pulled_;
    return inner_->Pull()->front();
  }
  std::optional<Rows> Drain() {
    if (drained_ == slots_.size()) return std::nullopt;
    ++output_;
    return Rows{slots_[Permutation(slots_.size(), Mix64(key_ - 1))(drained_++)]};
  }
  const uint64_t buffer_, size_, seed_, stage_;
  const uint64_t& begun_;
  std::unique_ptr<Iterator> inner_;
  Rows slots_;
  SampleId* empty_ = nullptr;
  uint64_t key_ = 0, output_ = 0, pulled_ = 0, drained_ = 0;
};

// Takes all `size` elements, puts them into another order, gives them.
class GlobalShuffleIterator final : public Iterator {
 public:
  // `order(key)`: which element is given when.
  using OrderOf = std::function<std::vector<uint64_t>(uint64_t key)>;
  GlobalShuffleIterator(uint64_t size, uint64_t seed, uint64_t stage, OrderOf order,
                        const uint64_t& begun, const Factory& inner)
      : size_(size),
        seed_(seed),
        stage_(stage),
        order_of_(std::move(order)),
        begun_(begun),
        inner_(inner()) {}
  std::optional<Rows> Pull() override {
    if (next_ == 0) {
      order_ = order_of_(KeyOf(seed_, stage_, begun_));
      while (all_.size() < size_) all_.push_back(inner_->Pull()->front());
    }
    if (next_ == size_) return std::nullopt;
    return Rows{all_[order_[next_++]]};
  }

 private:
  const uint64_t size_, seed_, stage_;
  const OrderOf order_of_;
  const uint64_t& begun_;
  std::unique_ptr<Iterator> inner_;
  std::vector<uint64_t> order_;
  Rows all_;
  uint64_t next_ = 0;
};

// tf.data's sequential kernel, line by line; returns records numbered through `lengths`. File
// opening[i] is opened as the i-th.
inline std::vector<uint64_t> InterleaveKernel(const std::vector<uint64_t>& lengths,
                                              const std::vector<uint64_t>& opening,
                                              uint64_t cycle_length, uint64_t block_length) {
  struct Open {
    uint64_t next, end;
  };
  std::vector<uint64_t> first(lengths.size() + 1, 0);
  for (size_t f = 0; f < lengths.size(); ++f) first[f + 1] = first[f] + lengths[f];
  std::vector<std::optional<Open>> slots(cycle_length);
  std::vector<uint64_t> out;
  size_t opened = 0, num_open = 0, slot = 0, in_block = 0;
  const auto advance = [&] {
    slot = (slot + 1) % cycle_length;
    in_block = 0;
  };
  while (opened < opening.size() || num_open > 0) {
    if (slots[slot].has_value()) {
      if (slots[slot]->next < slots[slot]->end) {
        out.push_back(slots[slot]->next++);
        if (++in_block == block_length) advance();
      } else {
        slots[slot].reset();
        --num_open;
        advance();
      }
    } else if (opened < opening.size()) {
      const uint64_t file = opening[opened++];
      slots[slot] = Open{first[file], first[file + 1]};
      ++num_open;
    } else {
      advance();
    }
  }
  return out;
}

// The batch stage.
class BatchIterator final : public Iterator {
 public:
  BatchIterator(uint64_t size, bool drop, const Factory& inner)
      : size_(size), drop_(drop), inner_(inner()) {}
  std::optional<Rows> Pull() override {
    Rows batch;
    while (!ended_ && batch.size() < size_) {
      const auto row = inner_->Pull();
      ended_ = !row.has_value();
      if (row) batch.push_back(row->front());
    }
    if (batch.empty() || (drop_ && batch.size() < size_)) return std::nullopt;
    return batch;
  }

 private:
  const uint64_t size_;
  const bool drop_;
  std::unique_ptr<Iterator> inner_;
  bool ended_ = false;
};

// Something that can be iterated again and again.
struct Stream {
  Factory make;
  uint64_t size = 0;  // of a pass; kInfinite without end
  size_t root = 0;    // index into Begun
};

class JoinIterator final : public Iterator {
 public:
  // `choose(position)` is the input of the position in the pass, or nullopt where it ends.
  // `epochs[j]`: by how many epochs an input goes on from pass to pass of the join.
  using Choose = std::function<std::optional<size_t>(uint64_t position)>;
  JoinIterator(const std::vector<Stream>& inputs, std::vector<uint64_t> epochs, Choose choose,
               size_t root, Begun& begun)
      : streams_(inputs),
        epochs_(std::move(epochs)),
        choose_(std::move(choose)),
        root_(root),
        begun_(begun) {}
  std::optional<Rows> Pull() override {
    if (inputs_.empty()) {
      const uint64_t epoch = begun_[root_]++;
      for (size_t j = 0; j < streams_.size(); ++j) {
        begun_[streams_[j].root] = epoch * epochs_[j];
        inputs_.push_back(streams_[j].make());
      }
    }
    const std::optional<size_t> input = choose_(position_++);
    return input ? inputs_[*input]->Pull() : std::nullopt;
  }

 private:
  const std::vector<Stream> streams_;
  const std::vector<uint64_t> epochs_;
  const Choose choose_;
  const size_t root_;
  Begun& begun_;
  std::vector<std::unique_ptr<Iterator>> inputs_;
  uint64_t position_ = 0;
};

// Builds the iterators of a plan's order. Everything it returns borrows it.
class Model {
 public:
  Model(std::vector<OrderSource> sources, uint64_t seed)
      : sources_(std::move(sources)), seed_(seed), begun_(kMaxRoots, 0) {}

  Stream Build(const OrderPlan& plan) {
    Stream stream = plan.root == OrderPlan::Root::kSource ? Source(plan) : Join(plan);
    for (const OrderStep& step : plan.steps) stream = Behind(step, stream);
    return stream;
  }

  // The first `max_batches` batches of the plan.
  std::vector<Rows> Batches(const PhysicalPlan& plan, size_t max_batches) {
    const Stream records = Build(plan.order);
    Factory make = [&] {
      return std::make_unique<BatchIterator>(plan.batch.size, plan.batch.drop_remainder,
                                             records.make);
    };
    for (const OrderStep& step : plan.batch_order) {
      make = [step, make] { return std::make_unique<StepIterator>(step, make); };
    }
    Reset();
    const auto stream = make();
    std::vector<Rows> batches;
    while (batches.size() < max_batches) {
      auto rows = stream->Pull();
      if (!rows) break;
      batches.push_back(*std::move(rows));
    }
    return batches;
  }

  // The first `max_rows` rows of an order.
  Rows Elements(const OrderPlan& plan, size_t max_rows) {
    const Stream stream = Build(plan);
    Reset();
    const auto pass = stream.make();
    Rows rows;
    while (rows.size() < max_rows) {
      const auto row = pass->Pull();
      if (!row) break;
      rows.push_back(row->front());
    }
    return rows;
  }

 private:
  void Reset() { std::ranges::fill(begun_, 0); }

  static constexpr size_t kMaxRoots = 64;  // begun_ must not move

  Stream Source(const OrderPlan& plan) {
    uint64_t first = 0;
    for (size_t s = 0; s < plan.source; ++s) first += sources_[s].num_records;
    const OrderSource& source = sources_[plan.source];
    const bool interleaved = !plan.steps.empty() && plan.steps[0].kind == Kind::kInterleave;
    const OrderStep step = interleaved ? plan.steps[0] : OrderStep{};
    const auto order_of = [first, source, interleaved, step, seed = seed_](uint64_t epoch) {
      std::vector<uint64_t> records;
      for (uint64_t r = 0; r < source.num_records; ++r) records.push_back(r);
      if (interleaved) {
        const size_t files = source.shard_records.size();
        std::vector<uint64_t> opening(files);
        const Permutation order(std::max<size_t>(files, 1), KeyOf(seed, step.key, epoch));
        for (size_t f = 0; f < files; ++f) opening[f] = step.shuffle_files ? order(f) : f;
        records = InterleaveKernel(source.shard_records, opening, step.count, step.second);
      }
      for (uint64_t& record : records) record += first;
      return records;
    };
    const size_t root = num_roots_++;
    uint64_t& begun = begun_[root];
    return {[order_of, &begun] { return std::make_unique<SourceIterator>(order_of, begun); },
            source.num_records, root};
  }

  Stream Join(const OrderPlan& plan) {
    std::vector<Stream> inputs;
    std::vector<uint64_t> epochs;
    bool endless = false;
    for (const OrderPlan& input : plan.inputs) {
      inputs.push_back(Build(input));
      epochs.push_back(uint64_t{1} << 32);
      endless |= inputs.back().size == kInfinite;
      if (inputs.back().size == kInfinite) continue;
      Count(inputs.back());
      epochs.back() = std::max<uint64_t>(begun_[inputs.back().root], 1);
    }
    const size_t root = num_roots_++;
    const bool mix = plan.root == OrderPlan::Root::kMix;
    const auto choose = mix ? MixChoice(plan) : ConcatenateChoice(inputs);
    Stream stream{
        [=, this] { return std::make_unique<JoinIterator>(inputs, epochs, choose, root, begun_); },
        kInfinite, root};
    const bool all_endless =
        std::ranges::all_of(inputs, [](const Stream& input) { return input.size == kInfinite; });
    if (mix ? !all_endless : !endless) stream.size = Count(stream);
    return stream;
  }

  static JoinIterator::Choose ConcatenateChoice(const std::vector<Stream>& inputs) {
    std::vector<uint64_t> sizes;
    for (const Stream& input : inputs) sizes.push_back(input.size);
    return [sizes](uint64_t position) -> std::optional<size_t> {
      for (size_t j = 0; j < sizes.size(); ++j) {
        if (position < sizes[j]) return j;
        position -= sizes[j];
      }
      return std::nullopt;
    };
  }

  // Weights must be exact in units of 2^-20 of their sum.
  JoinIterator::Choose MixChoice(const OrderPlan& plan) const {
    double sum = 0;
    for (const double weight : plan.weights) sum += weight;
    const uint64_t key = Mix64(Mix64(seed_) + plan.key);
    return [weights = plan.weights, sum, key](uint64_t position) -> std::optional<size_t> {
      const uint64_t block = position / 1024;
      uint64_t point = Permutation(1024, Mix64(key + block))(position % 1024) * 1024;
      for (uint64_t bit = 0; bit < 10; ++bit) {
        if ((block >> bit) % 2 != 0) point += uint64_t{512} >> bit;
      }
      double end = 0;
      size_t j = 0;
      while ((end += weights[j] / sum * 1048576) <= static_cast<double>(point)) ++j;
      return j;
    };
  }

  Stream Behind(const OrderStep& step, const Stream& in) {
    Stream out = in;
    uint64_t& begun = begun_[in.root];
    switch (step.kind) {
      case Kind::kInterleave:
        return in;  // Source did it
      case Kind::kShard:
        out.make = [=] { return std::make_unique<ShardIterator>(step, in.size, in.make); };
        break;
      case Kind::kShuffle:
        out.make = [=, this, &begun] {
          return std::make_unique<ShuffleIterator>(step.count, in.size, seed_, step.key, begun,
                                                   in.make);
        };
        return out;
      case Kind::kGlobalShuffle:
        out.make = [=, this, &begun] {
          return std::make_unique<GlobalShuffleIterator>(in.size, seed_, step.key,
                                                         GlobalOrder(in.size), begun, in.make);
        };
        return out;
      default:
        out.make = [=] { return std::make_unique<StepIterator>(step, in.make); };
        break;
    }
    if (step.kind == Kind::kRepeat && step.count == 0) out.size = kInfinite;
    if (step.kind == Kind::kTake) out.size = 0;
    if (out.size != kInfinite) out.size = Count(out);
    return out;
  }

  static GlobalShuffleIterator::OrderOf GlobalOrder(uint64_t size) {
    return [size](uint64_t key) {
      std::vector<uint64_t> order(size);
      for (uint64_t i = 0; i < size; ++i) order[i] = Permutation(size, key)(i);
      return order;
    };
  }

  // Runs a pass from the beginning of time to its end.
  uint64_t Count(const Stream& stream) {
    Reset();
    const auto pass = stream.make();
    uint64_t size = 0;
    while (pass->Pull()) ++size;
    return size;
  }

  const std::vector<OrderSource> sources_;
  const uint64_t seed_;
  Begun begun_;
  size_t num_roots_ = 0;
};

}  // namespace millrace::pipeline::model

#endif  // MILLRACE_TESTS_PIPELINE_ORDER_ORDER_MODEL_H_
