// bucket_by_length with a number of the sample for its length, against a plain model of the rule.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

namespace millrace::pipeline {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kBoundaries[] = {3, 8};
constexpr size_t kSizes[] = {4, 3, 2};

class BucketKeyTest : public testing::Test {
 protected:
  BucketKeyTest() {
    std::mt19937 random(7);
    std::string lines;
    for (int64_t id = 0; id < 200; ++id) {
      keys_.push_back(static_cast<int64_t>(random() % 14) - 2);
      lines += absl::StrCat("{\"id\":", id, ",\"n\":", keys_.back(), ",\"x\":[");
      for (int64_t i = 0; i < id % 5; ++i) absl::StrAppend(&lines, i == 0 ? "" : ",", id);
      lines += "]}\n";
    }
    WriteFile(folder_ / "a.jsonl", lines);
  }

  std::string Text(const std::string& bucket, const std::string& feature = "") const {
    return absl::StrCat("lanes: 1 stage { text { files: '", folder_ / "a.jsonl",
                        "' } }\nstage { parse_json { feature { key: 'id' dtype: INT64 } "
                        "feature { key: 'n' dtype: INT64 } ",
                        feature, " } }\nstage { bucket_by_length { ", bucket, " } }\n");
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& text,
                                                 const std::string& token = "") const {
    OpenOptions open;
    open.index_folder = folder_ / "index";
    open.resume_token = token;
    return Pipeline::Open(Make(text), *MakeContext(), open);
  }

  struct Batches {
    std::vector<Ids> ids;
    std::vector<std::string> tokens;
  };
  static Batches Drain(Pipeline& pipeline) {
    Batches batches;
    while (true) {
      const auto batch = pipeline.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) return batches;
      const auto ids = (*batch)->Get<int64_t>("id");
      EXPECT_TRUE(ids.ok()) << ids.status();
      Ids& valid = batches.ids.emplace_back();
      for (size_t row = 0; row < ids->size(); ++row) {
        if ((*batch)->valid()[row] != 0) valid.push_back((*ids)[row]);
      }
      batches.tokens.push_back((*batch)->resume_token());
    }
  }

  // Of one lane: a bucket is given out when it is full, and those that are open at the end.
  std::vector<Ids> Model() const {
    std::vector<Ids> batches, open(std::size(kSizes));
    for (size_t id = 0; id < keys_.size(); ++id) {
      size_t bucket = 0;
      while (bucket < std::size(kBoundaries) && keys_[id] >= kBoundaries[bucket]) ++bucket;
      open[bucket].push_back(static_cast<int64_t>(id));
      if (open[bucket].size() == kSizes[bucket]) batches.push_back(std::exchange(open[bucket], {}));
    }
    std::ranges::copy_if(open, std::back_inserter(batches),
                         [](const Ids& ids) { return !ids.empty(); });
    return batches;
  }

  const TempFolder folder_;
  std::vector<int64_t> keys_;
};

constexpr char kBucket[] = "key: 'n' boundary: [3, 8] batch_size: [4, 3, 2]";

// S-BATCH-10, S-BATCH-11.
TEST_F(BucketKeyTest, ANumberOfTheSampleIsItsLength) {
  for (const char* feature : {"", "feature { key: 'x' dtype: INT64 shape: -1 }"}) {
    const auto pipeline = Open(Text(kBucket, feature));
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    EXPECT_EQ(Drain(**pipeline).ids, Model()) << feature;
  }
}

TEST_F(BucketKeyTest, ATokenGoesOnWithTheSameBatches) {
  const Batches whole = Drain(**Open(Text(kBucket)));
  for (const size_t at : {size_t{0}, size_t{5}, whole.ids.size() - 2}) {
    const Batches rest = Drain(**Open(Text(kBucket), whole.tokens[at]));
    EXPECT_EQ(rest.ids, std::vector<Ids>(whole.ids.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                         whole.ids.end()));
  }
}

TEST_F(BucketKeyTest, AKeyIsOneWholeNumberAndStandsAlone) {
  const auto error = [&](const std::string& bucket, const std::string& feature = "") {
    return Open(Text(bucket + " boundary: [3] batch_size: [4, 3]", feature)).status();
  };
  EXPECT_MESSAGE(error("key: 'y'"));
  EXPECT_MESSAGE(error("key: 'x'", "feature { key: 'x' dtype: INT64 shape: -1 }"));
  EXPECT_MESSAGE(error("key: 'f'", "feature { key: 'f' dtype: FLOAT32 }"));
}

}  // namespace
}  // namespace millrace::pipeline
