#ifndef MILLRACE_TESTS_PIPELINE_RANDOM_RANDOM_PLAN_H_
#define MILLRACE_TESTS_PIPELINE_RANDOM_RANDOM_PLAN_H_

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/run.h"
#include "readers/example_builder.h"
#include "tests/pipeline/executor/fake_source.h"
#include "tests/sanitized.h"

// Plans drawn at random: their text, the records under them, and, as plain functions, what their
// stages behind the order do to a sample. A seed names a plan.

namespace millrace::pipeline {

// What a record holds.
struct MadeSample {
  int64_t number = 0;  // "id" of an Example, "value" of a range
  int64_t label = 0;   // 0 to 9
  std::vector<int64_t> tokens;
  int64_t beside = 0;  // of a zip: what its second input, a range, has there
};

struct MadeRow {
  SampleId id;
  const MadeSample* sample = nullptr;
  int64_t token() const { return sample->tokens[id.sub_index]; }
};

// A stage between the first cut and the batch that changes which rows there are.
struct RowStep {
  enum class Kind { kFilter, kUnbatch, kTake, kSkip, kShuffle };
  Kind kind = Kind::kFilter;
  uint64_t count = 0;
  std::string stage;
  std::function<bool(const MadeRow&)> keep;  // kFilter
};

struct RandomPlan {
  std::string text;
  std::vector<FakeData> files;        // one per source of files, which are in front of ranges
  std::vector<uint64_t> ranges;       // one per range
  std::vector<MadeSample> samples;    // of each record, numbered through all sources, or of a zip
  std::vector<RowStep> steps;         // from the first cut on, in order
  bool has_cut = false;               // also by a batch of extents that differ
  bool endless = false;               // what comes before the cut
  bool in_blocks = false;             // a global_shuffle of blocks, which order_model.h has not
  std::vector<std::string> features;  // fields of a batch whose values are known
};

// The plans of a test: [first, end), Rounds(plans) of them. MILLRACE_RANDOM_PLANS says how many
// instead, and MILLRACE_RANDOM_SEED from which on.
inline std::pair<uint64_t, uint64_t> SeedsFromEnvironment(uint64_t first, uint64_t plans) {
  const char* const from = std::getenv("MILLRACE_RANDOM_SEED");
  const char* const count = std::getenv("MILLRACE_RANDOM_PLANS");
  if (from != nullptr) first = std::strtoull(from, nullptr, 10);
  plans = count != nullptr ? std::strtoull(count, nullptr, 10) : Rounds(plans);
  return {first, first + plans};
}

class RandomPlanMaker {
 public:
  explicit RandomPlanMaker(uint64_t seed)
      : random_(seed), zipped_(std::mt19937_64(~seed)() % 7 == 0) {}

  RandomPlan Make() {
    numbers_ = OneIn(8);
    const uint64_t seed = Below(1000);
    lanes_ = uint64_t{1} << Below(4);
    wants_tokens_ = !numbers_ && OneIn(2);
    wants_image_ = !numbers_ && OneIn(3);
    const bool early_maps = OneIn(4);
    Size size = Root();
    if (early_maps) Parse();
    size = OrderSteps(size, 2, Below(8) == 0);
    if (!early_maps) Parse();
    plan_.endless = size.endless;
    if (OneIn(3)) {
      plan_.has_cut = false;
    } else {
      Cuts();
    }
    ImageMaps();
    Batch();
    BatchSteps();
    if (OneIn(2)) Stage("prefetch", absl::StrCat("batches: ", 1 + Below(4)));
    plan_.text = absl::StrCat("seed: ", seed, " lanes: ", lanes_, "\n", text_);
    return std::move(plan_);
  }

 private:
  struct Size {
    uint64_t elements = 0;  // about
    bool endless = false;
    bool shuffled = false;
  };

  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  // Appends a stage and returns its name.
  std::string Stage(const std::string& op, const std::string& options) {
    std::string name = absl::StrCat(op, "-", num_stages_++);
    absl::StrAppend(&text_, "stage { name: \"", name, "\" ", op, " { ", options, " } }\n");
    return name;
  }

  Size Root() {
    if (zipped_) return Zip();
    const uint64_t kind = Below(6);
    if (kind > 1) return Source(true);
    const bool mix = kind == 1;
    const uint64_t inputs = 1 + Below(3);
    const std::string before = std::exchange(text_, "");
    std::vector<std::string> texts;
    Size joined;
    uint64_t endless_inputs = 0;
    for (uint64_t i = 0; i < inputs; ++i) {
      Size size = Source(true);
      size = OrderSteps(size, 1, mix ? OneIn(3) : i + 1 == inputs && OneIn(6));
      endless_inputs += size.endless ? 1 : 0;
      joined.elements += size.elements;
      texts.push_back(absl::StrCat("input {\n", std::exchange(text_, ""), "}"));
      // Shares that are exact: their sum is a power of two.
      if (mix)
        texts.back() += absl::StrCat(" weight: ", inputs == 3 && i == 2   ? 2
                                                  : i == 1 && inputs == 2 ? 3
                                                                          : 1);
    }
    joined.endless = mix ? endless_inputs == inputs : endless_inputs > 0;
    text_ = before;
    Stage(mix ? "mix" : "concatenate", absl::StrJoin(texts, "\n"));
    return joined;
  }

  // Records beside numbers, of which it is known without an order which belong together.
  Size Zip() {
    Source(false);
    const std::vector<MadeSample> records = std::exchange(plan_.samples, {});
    const std::vector<size_t> first = ZipInput(records.size());
    const std::string first_text = std::exchange(text_, "");
    const uint64_t count = 4 + Below(50);
    plan_.ranges.push_back(count);
    Stage("range", absl::StrCat("count: ", count));
    const std::vector<size_t> second = ZipInput(count);
    const std::string second_text = std::exchange(text_, "");
    Stage("zip", absl::StrCat("input {\n", first_text, "}\ninput {\n", second_text, "}\nfield: \"",
                              numbers_ ? "value" : "packed", "\" field: \"beside\""));
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      plan_.samples.push_back(records[first[i]]);
      plan_.samples.back().beside = static_cast<int64_t>(second[i]);
    }
    return {.elements = plan_.samples.size()};
  }

  // One stage, or none, behind a source, and what it leaves.
  std::vector<size_t> ZipInput(uint64_t records) {
    const uint64_t kind = Below(4);
    const uint64_t count = 1 + Below(3);
    const uint64_t index = Below(count);
    std::vector<size_t> left;
    for (uint64_t i = 0; i < records * (kind == 1 ? count : 1); ++i) {
      const bool keeps = kind == 0 ? i % count == index : kind != 2 || i >= count;
      if (keeps) left.push_back(i % records);
    }
    if (kind == 0) Stage("shard", absl::StrCat("num_shards: ", count, " index: ", index));
    if (kind == 1) Stage("repeat", absl::StrCat("epochs: ", count));
    if (kind == 2) Stage("skip", absl::StrCat("count: ", count));
    return left;
  }

  Size Source(bool may_interleave) {
    const uint64_t records = OneIn(20) ? 1 : 4 + Below(50);
    for (uint64_t i = 0; i < records; ++i) {
      MadeSample& sample = plan_.samples.emplace_back();
      sample.number = static_cast<int64_t>(numbers_ ? i : plan_.samples.size() * 3);
      sample.label = static_cast<int64_t>(Below(10));
      for (uint64_t n = Below(7); n > 0; --n) {
        sample.tokens.push_back(static_cast<int64_t>(Below(100)));
      }
    }
    if (numbers_) {
      plan_.ranges.push_back(records);
      Stage("range", absl::StrCat("count: ", records));
    } else {
      plan_.files.push_back(Files(plan_.samples.size() - records));
      Stage("tfrecord", absl::StrCat("files: \"fake-", plan_.files.size(), "\""));
      if (may_interleave && OneIn(4)) {
        Stage("interleave", absl::StrCat("cycle_length: ", 1 + Below(5), " block_length: ",
                                         1 + Below(4), OneIn(2) ? " shuffle_files: true" : ""));
      }
    }
    return {.elements = records};
  }

  // Examples of the samples from `first` on.
  FakeData Files(size_t first) {
    FakeData data;
    data.records_per_shard = 1 + Below(20);
    data.fingerprint = Below(1000);
    for (size_t i = first; i < plan_.samples.size(); ++i) {
      const MadeSample& sample = plan_.samples[i];
      readers::ExampleBuilder example;
      example.AddInt("id", sample.number);
      example.AddInt("label", sample.label);
      example.AddInts("tokens", sample.tokens);
      std::string image(12, 'a');
      for (char& c : image) c = static_cast<char>(Below(256));
      example.AddBytes("image", image);
      example.AddBytes("spare", "never looked at");
      data.payloads.push_back(example.Serialize());
    }
    return data;
  }

  // Up to `most` steps, and a repeat without end if so wished and possible.
  Size OrderSteps(Size size, uint64_t most, bool endless) {
    for (uint64_t n = Below(most + 1); n > 0; --n) OrderStepOf(&size);
    if (!endless || size.endless || size.elements < 12) return size;
    Stage("repeat", "");
    size.endless = true;
    if (OneIn(3)) {
      Stage("take", absl::StrCat("count: ", 1 + Below(150)));
      size = {.elements = 20, .endless = false, .shuffled = size.shuffled};
    }
    return size;
  }

  void OrderStepOf(Size* size) {
    switch (Below(6)) {
      case 0:
        if (size->endless) return;
        Stage("shuffle", absl::StrCat("buffer_size: ", 1 + Below(30)));
        size->shuffled = true;
        return;
      case 1:
        if (size->endless || size->shuffled) return;
        if (OneIn(4)) {
          plan_.in_blocks = true;
          Stage("global_shuffle",
                absl::StrCat("block_bytes: ", 100 + Below(500), " window: ", 1 + Below(30)));
        } else {
          Stage("global_shuffle", "");
        }
        return;
      case 2: {
        const uint64_t shards = 1 + Below(3);
        Stage("shard", absl::StrCat("num_shards: ", shards, " index: ", Below(shards)));
        size->elements /= shards;
        return;
      }
      case 3: {
        const uint64_t epochs = 1 + Below(3);
        if (size->endless || size->elements * epochs > 200) return;
        Stage("repeat", absl::StrCat("epochs: ", epochs));
        size->elements *= epochs;
        return;
      }
      case 4: {
        const uint64_t count = 1 + Below(60);
        Stage("take", absl::StrCat("count: ", count));
        size->elements = std::min(size->elements, count);
        size->endless = false;
        return;
      }
      default: {
        const uint64_t count = 1 + Below(10);
        Stage("skip", absl::StrCat("count: ", count));
        size->elements -= std::min(size->elements, count);
      }
    }
  }

  void Parse() {
    if (numbers_) {
      plan_.features = {"value"};
      return;
    }
    std::string text =
        "feature { key: \"id\" dtype: INT64 } feature { key: \"label\" dtype: INT64 }";
    plan_.features = {"id"};
    if (wants_tokens_) {
      text += " feature { key: \"tokens\" dtype: INT64 shape: -1 }";
      plan_.features.emplace_back("tokens");
    }
    if (wants_image_) text += " feature { key: \"image\" dtype: BYTES }";
    if (wants_image_) text += " feature { key: \"spare\" dtype: BYTES }";
    Stage("parse_example", zipped_ ? "field: \"packed\" " + text : text);
  }

  // The "spare" feature is never parsed, by the rule `project`.
  void ImageMaps() {
    if (wants_image_) {
      Stage("decode_raw", "field: \"image\" output: \"spare\" shape: 4 shape: 3 shape: 1");
      Stage("flip", "field: \"spare\"");
      if (OneIn(2)) Stage("normalize", "field: \"spare\" mean: 3 stddev: 2");
    }
    if (!numbers_ && OneIn(3)) Stage("one_hot", "depth: 10");
  }

  void Cuts() {
    bool unbatch_may_stand = wants_tokens_;
    for (uint64_t n = 1 + Below(4); n > 0; --n) {
      const uint64_t kind = plan_.steps.empty() ? Below(2) : Below(6);
      if (kind == 0 && unbatch_may_stand) {
        AddStep(RowStep::Kind::kUnbatch, 0, Stage("unbatch", "field: \"tokens\""));
        unbatch_may_stand = false;
        split_ = true;
      } else if (kind <= 2) {
        AddFilter();
      } else if (kind == 3) {
        const uint64_t count = 1 + Below(100);
        AddStep(RowStep::Kind::kTake, count, Stage("take", absl::StrCat("count: ", count)));
        unbatch_may_stand = false;
        taken_ = true;
      } else if (kind == 4) {
        const uint64_t count = 1 + Below(20);
        AddStep(RowStep::Kind::kSkip, count, Stage("skip", absl::StrCat("count: ", count)));
        unbatch_may_stand = false;
      } else if (!plan_.endless || taken_) {
        const uint64_t count = 1 + Below(40);
        AddStep(RowStep::Kind::kShuffle, count,
                Stage("shuffle", absl::StrCat("buffer_size: ", count)));
        unbatch_may_stand = false;
      }
    }
    plan_.has_cut = true;
  }

  void AddStep(RowStep::Kind kind, uint64_t count, std::string stage) {
    plan_.steps.push_back({kind, count, std::move(stage), nullptr});
  }

  void AddFilter() {
    const auto low = static_cast<int64_t>(Below(5));
    std::string text;
    std::function<bool(const MadeRow&)> keep;
    if (zipped_ && OneIn(2)) {
      text = absl::StrCat("beside != ", low, " and beside < 30");
      keep = [low](const MadeRow& row) {
        return row.sample->beside != low && row.sample->beside < 30;
      };
    } else if (numbers_) {
      text = absl::StrCat("value < ", 3 * low, " or value >= ", 4 * low);
      keep = [low](const MadeRow& row) {
        return row.sample->number < 3 * low || row.sample->number >= 4 * low;
      };
    } else if (split_ && OneIn(2)) {
      text = absl::StrCat("tokens >= ", 10 * low);
      keep = [low](const MadeRow& row) { return row.token() >= 10 * low; };
    } else if (wants_tokens_ && !split_ && OneIn(2)) {
      text = absl::StrCat("len(tokens) > ", low % 3, " or label == 2");
      keep = [low](const MadeRow& row) {
        return static_cast<int64_t>(row.sample->tokens.size()) > low % 3 || row.sample->label == 2;
      };
    } else if (OneIn(2)) {
      text = absl::StrCat("not label in (", low, ", ", low + 3, ")");
      keep = [low](const MadeRow& row) {
        return row.sample->label != low && row.sample->label != low + 3;
      };
    } else {
      text = absl::StrCat("label > ", low);
      keep = [low](const MadeRow& row) { return row.sample->label > low; };
    }
    AddStep(RowStep::Kind::kFilter, 0, Stage("filter", absl::StrCat("predicate: \"", text, "\"")));
    plan_.steps.back().keep = std::move(keep);
  }

  void Batch() {
    const std::string drop = OneIn(3) ? " drop_remainder: true" : "";
    const std::string size = absl::StrCat("size: ", lanes_ * (1 + Below(6)), drop);
    const bool varies = wants_tokens_ && !split_;
    if (varies) plan_.has_cut = true;
    switch (varies ? 1 + Below(3) : Below(3)) {
      case 0:
        Stage("batch", size);
        return;
      case 1:
        Stage("padded_batch",
              size + (varies ? " padding { field: \"tokens\" int_value: -1 }" : ""));
        return;
      case 2:
        Stage("ragged_batch", size);
        return;
      default:
        Stage("bucket_by_length",
              absl::StrCat("field: \"tokens\" boundary: 2 boundary: 5 batch_size: ",
                           lanes_ * (1 + Below(4)), " batch_size: ", lanes_ * (1 + Below(4)),
                           " batch_size: ", lanes_ * (1 + Below(4)), drop));
    }
  }

  void BatchSteps() {
    bool endless = plan_.endless;
    for (uint64_t n = Below(4); n > 0; --n) {
      const uint64_t kind = Below(3);
      if (kind == 0 && !endless) {
        const uint64_t epochs = OneIn(5) ? 0 : 1 + Below(3);
        endless = epochs == 0;
        Stage("repeat", absl::StrCat("epochs: ", epochs));
      } else if (kind == 1) {
        Stage("take", absl::StrCat("count: ", 1 + Below(6)));
        // Batches of an endless input cannot be repeated behind a cut.
        endless = plan_.endless && plan_.has_cut;
      } else {
        Stage("skip", absl::StrCat("count: ", 1 + Below(3)));
      }
    }
  }

  std::mt19937_64 random_;
  const bool zipped_;
  RandomPlan plan_;
  std::string text_;
  int num_stages_ = 0;
  uint64_t lanes_ = 1;
  bool numbers_ = false, wants_tokens_ = false, wants_image_ = false;
  bool split_ = false, taken_ = false;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_RANDOM_RANDOM_PLAN_H_
