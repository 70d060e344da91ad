#include "augment/batch_mixing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/digest.h"
#include "pipeline/memory_records.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

// Stages that mix the rows of a batch. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kClasses = 5;
constexpr int64_t kPixels = 2 * 3;

// Image i of the data.
float Pixel(uint64_t image, int64_t pixel) { return static_cast<float>(image * 10 + pixel); }

OpenOptions WithData(uint64_t images) {
  std::vector<std::string> records;
  for (uint64_t i = 0; i < images; ++i) {
    std::string bytes;
    for (int64_t p = 0; p < kPixels; ++p) {
      const float value = Pixel(i, p);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    records.push_back(bytes);
  }
  OpenOptions options;
  options.memory["memory"] = MemoryRecords::Make(records);
  return options;
}

// Pairs of an image and its number.
std::string PlanText(const std::string& before, const std::string& behind, uint64_t images = 30) {
  return absl::StrCat(
      "seed: 7 stage { zip { field: [\"record\", \"number\"] input { stage { memory {} } } input { "
      "stage { range { count: ",
      images,
      " } } } } }\n"
      "stage { decode_raw { output: \"image\" dtype: FLOAT32 shape: [2, 3, 1] } }\n",
      before, behind);
}

std::shared_ptr<Context> Threads(int threads) {
  ContextOptions options;
  options.threads = threads;
  auto context = MakeContext(options);
  EXPECT_TRUE(context.ok()) << context.status();
  return *std::move(context);
}

std::unique_ptr<Pipeline> OpenText(const std::string& text, OpenOptions options, int threads = 2) {
  auto pipeline = Pipeline::Open(Make(text), Threads(threads), options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

absl::Status OpenError(const std::string& text, const OpenOptions& options) {
  const auto pipeline = Pipeline::Open(Make(text), Threads(1), options);
  EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument) << pipeline.status();
  return pipeline.status();
}

struct Row {
  std::vector<float> pixels, label;
  uint64_t record = 0;
  friend bool operator==(const Row&, const Row&) = default;
};
// (batch, row) of every valid row.
using Rows = std::map<std::pair<uint64_t, int64_t>, Row>;

void AddRows(const Batch& batch, Rows* rows) {
  const auto pixels = batch.Find("image").as<float>();
  const auto labels = batch.Find("number").as<float>();
  const auto classes = static_cast<int64_t>(labels.size()) / batch.num_rows();
  for (int64_t r = 0; r < batch.num_rows(); ++r) {
    if (batch.valid()[r] == 0) {
      for (int64_t p = 0; p < kPixels; ++p) EXPECT_EQ(pixels[r * kPixels + p], 0);
      continue;
    }
    const auto of = [r](std::span<const float> all, int64_t size) {
      return std::vector<float>(all.begin() + r * size, all.begin() + (r + 1) * size);
    };
    (*rows)[{batch.index(), batch.first_global_row() + r}] = {
        of(pixels, kPixels), of(labels, classes), batch.ids()[r].record};
  }
}

struct Seen {
  Rows rows;
  uint64_t digest = 0;
  std::string token;  // of batch `save_at`
};

void Drain(Pipeline& pipeline, uint64_t save_at, Seen* seen) {
  StreamDigest digest;
  for (;;) {
    const auto batch = pipeline.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    AddRows(**batch, &seen->rows);
    digest.Add(**batch);
    if ((*batch)->index() == save_at) seen->token = (*batch)->resume_token();
  }
  seen->digest += digest.value();
}

// All ranks of a world.
Seen See(const std::string& text, uint64_t images, int world = 1, int threads = 2,
         const std::string& token = "", uint64_t save_at = 1) {
  Seen seen;
  for (int rank = 0; rank < world; ++rank) {
    OpenOptions options = WithData(images);
    options.rank = rank;
    options.world = world;
    options.resume_token = token;
    Drain(*OpenText(text, options, threads), save_at, &seen);
  }
  return seen;
}

// What is not mixed: one row of `number` as one_hot makes it.
Row Plain(uint64_t record, int64_t classes) {
  Row row;
  for (int64_t p = 0; p < kPixels; ++p) row.pixels.push_back(Pixel(record, p));
  row.label.resize(static_cast<size_t>(classes));
  row.label[record] = 1;
  row.record = record;
  return row;
}

// S-MIX-1, S-MIX-2: what the ops of augment/batch_mixing.h make of groups, drawn as S-MIX-4 says.
TEST(BatchMixingTest, GroupsAreMixedByTheirOwnDraws) {
  const std::string text =
      PlanText("",
               "stage { batch { size: 8 } } stage { name: \"m\" mixup { field: \"image\" "
               "label: \"number\" alpha: 0.4 group: 4 num_classes: 30 probability: 0.8 } }");
  const Seen seen = See(text, 30);
  ASSERT_EQ(seen.rows.size(), 30u);
  int mixed = 0;
  for (uint64_t first = 0; first < 30; first += 4) {
    const uint64_t rows = std::min<uint64_t>(4, 30 - first);
    RandomStream random(
        {.seed = 7, .op = HashName("m"), .record = first / 8, .sub_index = first % 8});
    const auto mixture = augment::DrawMixture({.mixup_alpha = double{0.4f}, .probability = 0.8f},
                                              Shape{2, 3, 1}, random);
    if (mixture) ++mixed;
    for (uint64_t r = 0; r < rows; ++r) {
      Row expected = Plain(first + r, 30);
      const Row other = Plain(first + (r + rows - 1) % rows, 30);
      for (size_t p = 0; mixture && p < expected.pixels.size(); ++p) {
        expected.pixels[p] = other.pixels[p] * mixture->others + expected.pixels[p] * mixture->kept;
      }
      for (size_t c = 0; mixture && c < expected.label.size(); ++c) {
        expected.label[c] = other.label[c] * mixture->others + expected.label[c] * mixture->kept;
      }
      EXPECT_EQ(seen.rows.at({first / 8, static_cast<int64_t>((first + r) % 8)}), expected)
          << first;
    }
  }
  EXPECT_GT(mixed, 3);
}

std::string Mixers(const std::string& common) {
  return absl::StrCat("stage { cutmix { label: \"number\" ", common, " } } stage { mixup { label: ",
                      "\"number\" alpha: 0.3 group: 4 } } stage { mixup_or_cutmix { label: ",
                      "\"number\" mixup_alpha: 0.2 group: 2 probability: 0.9 } }");
}

// S-MIX-3.
TEST(BatchMixingTest, BitsAreTheSameForEveryWorldNumberOfThreadsAndResume) {
  const std::string text =
      PlanText("stage { shuffle { buffer_size: 9 } } stage { repeat { epochs: 3 } }",
               "stage { batch { size: 8 } }" + Mixers("group: 4 num_classes: 30"));
  const Seen whole = See(text, 30);
  ASSERT_EQ(whole.rows.size(), 90u);
  for (const int threads : {1, 3, 8}) EXPECT_EQ(See(text, 30, 1, threads).rows, whole.rows);
  const Seen two = See(text, 30, 2);
  EXPECT_EQ(two.rows, whole.rows);
  EXPECT_EQ(two.digest, whole.digest);
  for (const uint64_t at : {0u, 3u, 6u}) {
    const std::string token = See(text, 30, 1, 2, "", at).token;
    for (const int world : {1, 2}) {
      const Seen rest = See(text, 30, world, 2, token);
      for (const auto& [place, row] : rest.rows) EXPECT_EQ(row, whole.rows.at(place));
      EXPECT_EQ(rest.rows.size(), 90 - 8 * (at + 1));
    }
  }
}

// S-MIX-3 behind a cut, where batches are short and lanes own the rows.
TEST(BatchMixingTest, BitsAreTheSameBehindACut) {
  const std::string text =
      "lanes: 2 " + PlanText("stage { filter { predicate: \"number != 3 and number < 27\" } }",
                             "stage { batch { size: 8 } } stage { repeat { epochs: 2 } }" +
                                 Mixers("group: 4 num_classes: 30"));
  const Seen whole = See(text, 30);
  ASSERT_EQ(whole.rows.size(), 52u);
  EXPECT_EQ(See(text, 30, 1, 8).rows, whole.rows);
  EXPECT_EQ(See(text, 30, 2).rows, whole.rows);
  const std::string token = See(text, 30, 1, 2, "", 4).token;
  ASSERT_FALSE(token.empty());
  Rows rest;
  for (const auto& [place, row] : whole.rows) {
    if (place.first > 4) rest.emplace(place, row);
  }
  ASSERT_GT(rest.size(), 10u);
  for (const int world : {1, 2}) EXPECT_EQ(See(text, 30, world, 2, token).rows, rest);
}

// S-MIX-3, S-CUT-21: more ranks than lanes.
TEST(BatchMixingTest, BitsAreTheSameWhereRanksDivideRowsBehindACut) {
  const std::string filter =
      PlanText("stage { filter { predicate: \"number != 3\" } }",
               "stage { batch { size: 8 } }" + Mixers("group: 4 num_classes: 30"));
  EXPECT_EQ(See(filter, 30, 2).rows, See(filter, 30).rows);
  const std::string buckets =
      PlanText("",
               "stage { bucket_by_length { field: \"image\" boundary: 9 batch_size: [8, 4] } } "
               "stage { mixup { label: \"number\" num_classes: 30 group: 2 } }");
  const Seen whole = See(buckets, 30);
  ASSERT_EQ(whole.rows.size(), 30u);
  EXPECT_EQ(See(buckets, 30, 2).rows, whole.rows);
}

TEST(BatchMixingTest, RanksThatDivideRowsTearNoGroupAndMoveNoRow) {
  OpenOptions options = WithData(30);
  options.world = 4;
  EXPECT_MESSAGE(OpenError(
      PlanText("",
               "stage { bucket_by_length { field: \"image\" boundary: 9 batch_size: [8, 4] } } "
               "stage { mixup { label: \"number\" num_classes: 30 group: 2 } }"),
      options));
  options.world = 2;
  EXPECT_MESSAGE(OpenError(
      "on_damage { policy: \"skip\" } " +
          PlanText(
              "stage { filter { predicate: \"number != 3\" } }",
              "stage { batch { size: 8 } } stage { mixup { label: \"number\" num_classes: 30 } }"),
      options));
}

// S-MIX-2: a group that is short mixes what it has, and one row stays as it is.
TEST(BatchMixingTest, ShortGroupsMixTheRowsThatTheyHave) {
  const std::string mix = "stage { mixup { label: \"number\" group: 4 num_classes: 7 } }";
  const Seen seen = See(PlanText("", "stage { batch { size: 4 } }" + mix, 5), 5);
  ASSERT_EQ(seen.rows.size(), 5u);
  EXPECT_EQ(seen.rows.at({1, 0}), Plain(4, 7));
  EXPECT_NE(seen.rows.at({0, 0}), Plain(0, 7));
  const Seen three = See(PlanText("", "stage { batch { size: 4 } }" + mix, 7), 7);
  // Row 0 takes of row 2, the last that there is.
  const Row& first = three.rows.at({1, 0});
  EXPECT_GT(first.label[6], 0);
  EXPECT_EQ(first.label[5], 0);
  EXPECT_NEAR(first.label[4] + first.label[6], 1, 1e-6);
  EXPECT_EQ(
      See(PlanText("", "stage { batch { size: 4 drop_remainder: true } }" + mix, 7), 7).rows.size(),
      4u);
}

// S-MIX-4: no two epochs, batches or groups share a draw.
TEST(BatchMixingTest, EveryGroupHasItsOwnLambda) {
  const std::string text =
      PlanText("",
               "stage { batch { size: 8 } } stage { repeat { epochs: 4 } } stage { mixup { "
               "label: \"number\" num_classes: 30 } }");
  std::map<float, int> lambdas;
  for (const auto& [place, row] : See(text, 30).rows) ++lambdas[row.label[row.record]];
  EXPECT_EQ(lambdas.size(), 4 * 15u);
  for (const auto& [lambda, rows] : lambdas) EXPECT_EQ(rows, 2) << lambda;
}

TEST(BatchMixingTest, LabelsMayBeSoftBefore) {
  const std::string text = PlanText(
      "stage { one_hot { field: \"number\" depth: 30 } } "
      "stage { label_smoothing { field: \"number\" smoothing: 0.3 } }",
      "stage { batch { size: 6 } } stage { cutmix { label: \"number\" } }");
  for (const auto& [place, row] : See(text, 30).rows) {
    float sum = 0;
    for (const float y : row.label) sum += y;
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

// S-DAMAGE-4: a row that is empty takes no part.
TEST(BatchMixingTest, MaskedRowsTakeNoPart) {
  // Labels from 5 on are damage.
  const std::string text =
      absl::StrCat("on_damage { policy: \"mask\" max_share: 1 } ",
                   PlanText("",
                            "stage { batch { size: 4 } } stage { mixup { label: \"number\" "
                            "group: 4 num_classes: 5 } }",
                            6));
  const Seen seen = See(text, 6);
  ASSERT_EQ(seen.rows.size(), 5u);
  EXPECT_EQ(seen.rows.at({1, 0}), Plain(4, kClasses));
}

// --- errors ---

absl::Status MixError(const std::string& stages) { return ErrorOf(kSource + stages); }

TEST(BatchMixingTest, WrongPlacesAndOptionsAreToldByPlace) {
  EXPECT_MESSAGE(MixError(std::string("stage { mixup {} }\n") + kBatch));
  const std::string batch = "stage { batch { size: 12 } }\n";
  EXPECT_MESSAGE(MixError(batch + "stage { mixup { group: 5 } }"));
  EXPECT_MESSAGE(MixError("stage { batch { size: 7 } }\nstage { cutmix {} }"));
  EXPECT_MESSAGE(ErrorOf("lanes: 4 " + std::string(kSource) + batch + "stage { mixup {} }"));
  EXPECT_MESSAGE(MixError(batch + "stage { mixup { group: 1 } }"));
  EXPECT_MESSAGE(MixError(batch + "stage { mixup { alpha: 0 } }"));
  EXPECT_MESSAGE(MixError(batch + "stage { mixup_or_cutmix { cutmix_alpha: nan } }"));
  EXPECT_MESSAGE(MixError(batch + "stage { mixup_or_cutmix { switch_probability: 2 } }"));
  EXPECT_MESSAGE(MixError(batch + "stage { cutmix { probability: -1 } }"));
  EXPECT_MESSAGE(MixError(batch + "stage { cutmix { field: \"label\" } }"));
  EXPECT_MESSAGE(
      MixError("stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [4, 6] } }\n"
               "stage { mixup { group: 4 } }"));
}

// S-MIX-5.
TEST(BatchMixingTest, RowsThatMoveWithTheWorldAreRefused) {
  const std::string mix = "stage { mixup { label: \"number\" num_classes: 30 } }";
  const auto text = [](const std::string& before, const std::string& behind) {
    return "on_damage { policy: \"skip\" max_share: 1 }\n" + PlanText(before, behind);
  };
  EXPECT_MESSAGE(OpenError(text("", "stage { batch { size: 4 } }" + mix), WithData(30)));
  // Without a field whose extents differ it is a batch like any other.
  EXPECT_MESSAGE(OpenError(text("", "stage { padded_batch { size: 4 } }" + mix), WithData(30)));
  OpenText(
      text("stage { filter { predicate: \"number > 1\" } }", "stage { batch { size: 4 } }" + mix),
      WithData(30));
}

// S-MIX-3, S-MIX-5: fields of differing extents give the rows to lanes, as a filter does.
TEST(BatchMixingTest, SkippedRowsOfAPaddedBatchMoveWithinTheirLanes) {
  // Labels from 25 on are damage; images[i % 3 + 1] is of another length for each record.
  const std::string text =
      "lanes: 2 on_damage { policy: \"skip\" max_share: 1 }\n"
      "seed: 7 stage { zip { field: [\"record\", \"number\", \"words\"] input { stage { memory {} "
      "} } "
      "input { stage { range { count: 30 } } } input { stage { name: \"words\" memory {} } } } }\n"
      "stage { decode_raw { output: \"image\" dtype: FLOAT32 shape: [2, 3, 1] } }\n"
      "stage { decode_raw { field: \"words\" output: \"words\" shape: -1 } }\n"
      "stage { padded_batch { size: 8 } }"
      "stage { mixup { label: \"number\" group: 4 num_classes: 25 } }";
  const auto see = [&](int world) {
    Seen seen;
    for (int rank = 0; rank < world; ++rank) {
      OpenOptions options = WithData(30);
      std::vector<std::string> words;
      for (size_t i = 0; i < 30; ++i) words.emplace_back(i % 3 + 1, 'w');
      options.memory["words"] = MemoryRecords::Make(words);
      options.rank = rank;
      options.world = world;
      Drain(*OpenText(text, options), 0, &seen);
    }
    return seen.rows;
  };
  const Rows whole = see(1);
  EXPECT_EQ(whole.size(), 25u);
  EXPECT_EQ(see(2), whole);
}

TEST(BatchMixingTest, FieldsAndWorldsThatDoNotFitAreToldWhenItIsOpened) {
  const std::string open = PlanText("", "stage { batch { size: 8 } }\n");
  EXPECT_MESSAGE(OpenError(open + "stage { mixup { label: \"number\" } }", WithData(30)));
  EXPECT_MESSAGE(OpenError(open + "stage { mixup {} }", WithData(30)));
  OpenOptions options = WithData(30);
  options.world = 4;
  EXPECT_MESSAGE(
      OpenError(open + "stage { mixup { label: \"number\" num_classes: 30 group: 4 } }", options));
}

// S-USER-5, by the example of docs/pipeline.md.
TEST(BatchMixingTest, WorldsThatWouldTearAGroupAreRefused) {
  const auto text = [](int group, int size = 256) {
    return PlanText("", absl::StrCat("stage { batch { size: ", size, " } } stage { mixup { label: ",
                                     "\"number\" num_classes: 30 group: ", group, " } }"));
  };
  OpenOptions options = WithData(30);
  for (const int world : {1, 2, 4, 8}) {
    options.world = world;
    for (const int group : {2, 4, 8, 16, 32}) OpenText(text(group), options);
  }
  for (const int world : {3, 5, 6, 7}) {
    options.world = world;
    EXPECT_MESSAGE(OpenError(text(2), options)) << world;
  }
  for (const int world : {1, 2, 3, 4, 5, 6, 8}) {
    options.world = world;
    OpenText(text(2, 240), options);
  }
}

TEST(BatchMixingTest, ExplainShowsWhatIsMixed) {
  const auto text = Explain(
      Make(PlanText("", "stage { batch { size: 8 } }\n") +
           "stage { mixup { label: \"number\" num_classes: 30 alpha: 0.25 group: 4 } } stage { "
           "mixup_or_cutmix { label: \"number\" } }"),
      nullptr, [] {
        OpenOptions options = WithData(30);
        options.rank = kNoRank;
        return options;
      }());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("mixup of image and number within groups of 4 rows: alpha 0.25, "
                               "probability 1  [mixup]"));
  EXPECT_THAT(*text,
              HasSubstr("mixup_or_cutmix of image and number within groups of 2 rows: alpha 1 "
                        "and 1, cutmix with probability 0.5, probability 1"));
  EXPECT_THAT(*text, HasSubstr("one_hot"));
}

TEST(BatchMixingTest, ExplainRefusesWhatOpeningRefuses) {
  OpenOptions options = WithData(30);
  options.rank = kNoRank;
  const auto text = Explain(
      Make(PlanText("", "stage { batch { size: 8 } }\n") + "stage { mixup {} }"), nullptr, options);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(text.status());
}

}  // namespace
}  // namespace millrace::pipeline
