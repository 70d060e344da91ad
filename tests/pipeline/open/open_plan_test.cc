#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/readers/http/nginx.h"
#include "tests/sanitized.h"
#include "tests/temp_folder.h"

// Text plans of every kind of stage, from files to batches: the same stream for every number of
// threads, ring and world, and from every token.

namespace millrace::pipeline {
namespace {

constexpr int kShards = 5;
constexpr int kPerShard = 23;

// Records of five shards: a label, a score, and 0 to 6 tokens.
class OpenPlanTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (int shard = 0; shard < kShards; ++shard) WriteShard(shard);
  }
  static void TearDownTestSuite() { delete folder_; }

  static void WriteShard(int shard) {
    auto writer = readers::TfRecordWriter::Open(*folder_ / absl::StrCat("data-", shard));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int i = 0; i < kPerShard; ++i) {
      const int number = shard * kPerShard + i;
      std::vector<int64_t> tokens;
      for (int t = 0; t < (number * 7 + shard) % 7; ++t) tokens.push_back(100 * number + t);
      readers::ExampleBuilder example;
      example.AddInt("label", number % 5);
      example.AddFloat("score", static_cast<float>(number) / 100);
      example.AddInts("tokens", tokens);
      ASSERT_TRUE((*writer)->Write(example.Serialize()).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }

  static std::string Files(std::string_view pattern) {
    return absl::StrCat("stage { tfrecord { files: \"", *folder_ / pattern, "\" } }\n");
  }
  static std::string Join(std::string_view kind, std::string_view more) {
    return absl::StrCat("stage { ", std::string(kind), " { input { ", Files("data-[012]"),
                        "stage { global_shuffle {} } } input { ", Files("data-[34]"), " } ",
                        std::string(more), " } }\n");
  }
  // Labels and scores of three shards beside the labels of two, as "beside", and numbers.
  static std::string Zipped(const std::string& order, const std::string& stages) {
    return absl::StrCat(
        "seed: 3 lanes: 8\nstage { zip { input { ", Files("data-[012]"),
        "stage { global_shuffle {} } } input { ", Files("data-[34]"),
        "stage { shuffle { buffer_size: 9 } } stage { repeat {} } }\n"
        "  input { stage { range { count: 60 } } } field: [\"one\", \"two\", \"number\"] } }\n",
        order,
        "stage { parse_example { field: \"one\" feature { key: \"label\" dtype: INT64 }\n"
        "  feature { key: \"score\" dtype: FLOAT32 } } }\n"
        "stage { parse_example { field: \"two\"\n"
        "  feature { key: \"label\" name: \"beside\" dtype: INT64 } } }\n",
        stages);
  }
  static std::string Text(const std::string& source, bool tokens, const std::string& stages) {
    return absl::StrCat("seed: 3 lanes: 8\n", source,
                        "stage { parse_example { feature { key: \"label\" dtype: INT64 }\n"
                        "  feature { key: \"score\" dtype: FLOAT32 }\n",
                        tokens ? "  feature { key: \"tokens\" dtype: INT64 shape: -1 }\n" : "",
                        "} }\n", stages);
  }

  static std::vector<std::pair<std::string, std::string>> Plans() {
    const std::string all = Files("data-*");
    const std::string batch = "stage { batch { size: 16 } }\n";
    const std::string filter = "stage { filter { predicate: \"label in (1, 3, 4)\" } }\n";
    return {
        {"interleave",
         Text(absl::StrCat(all,
                           "stage { interleave { cycle_length: 3 block_length: 2 "
                           "shuffle_files: true } } stage { shuffle { buffer_size: 20 } }\n"),
              false, absl::StrCat("stage { repeat { epochs: 2 } }\n", batch))},
        {"concatenate", Text(Join("concatenate", ""), false, batch)},
        {"mix", Text(Join("mix", "weight: [0.7, 0.3]"), false, batch)},
        {"zip",
         Zipped("stage { shuffle { buffer_size: 15 } } stage { repeat { epochs: 2 } }\n", batch)},
        {"zip_filter", Zipped("", absl::StrCat(filter, batch, "stage { repeat { epochs: 2 } }\n"))},
        {"filter", Text(absl::StrCat(all, "stage { global_shuffle {} }\n"), false,
                        absl::StrCat(filter, batch, "stage { repeat { epochs: 2 } }\n"))},
        {"mixed_filter",
         Text(Join("mix", ""), false,
              absl::StrCat(filter,
                           "stage { skip { count: 3 } } stage { shuffle { buffer_size: 24 "
                           "} } stage { take { count: 50 } }\n",
                           batch))},
        {"unbatch",
         Text(all, true, absl::StrCat("stage { unbatch { field: \"tokens\" } }\n", filter, batch))},
        {"padded", Text(all, true,
                        absl::StrCat(filter,
                                     "stage { padded_batch { size: 16 padding { field: \"tokens\" "
                                     "int_value: -1 } } }\n"))},
        {"ragged", Text(all, true, "stage { ragged_batch { size: 16 } }\n")},
        {"bucket",
         Text(absl::StrCat(all, "stage { shuffle { buffer_size: 30 } }\n"), true,
              "stage { bucket_by_length { field: \"tokens\" boundary: [2, 5] batch_size: [16, 8, "
              "8] } }\nstage { repeat { epochs: 2 } }\n")},
        {"range",
         "stage { range { count: 100 } } stage { shuffle { buffer_size: 10 } }\n"
         "stage { batch { size: 8 } }\n"},
        {"range_filter",
         "lanes: 8 stage { range { count: 300 } }\n"
         "stage { filter { predicate: \"value >= 20\" } }\n"
         "stage { batch { size: 16 drop_remainder: true } }\n"},
    };
  }

  struct Stream {
    std::vector<uint64_t> digests;
    std::vector<std::string> tokens;
  };

  static std::unique_ptr<Pipeline> OpenText(const std::string& text, int threads,
                                            OpenOptions options = {}) {
    const auto plan = Plan::FromText(text, "plan");
    EXPECT_TRUE(plan.ok()) << plan.status();
    ContextOptions context_options;
    context_options.threads = threads;
    auto context = MakeContext(std::move(context_options));
    EXPECT_TRUE(context.ok()) << context.status();
    options.index_folder = *folder_ / "index";
    auto pipeline = Pipeline::Open(*plan, *context, options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status() << "\n" << text;
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  static const std::string& folder() { return folder_->path(); }
  static Stream Drain(Pipeline& pipeline) {
    Stream stream;
    while (true) {
      const auto batch = pipeline.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) return stream;
      StreamDigest digest;
      digest.Add(**batch);
      stream.digests.push_back(digest.value());
      stream.tokens.push_back((*batch)->resume_token());
    }
  }

 private:
  static TempFolder* folder_;
};

TempFolder* OpenPlanTest::folder_ = nullptr;

// S-RANDOM-2, S-RANK-2.
TEST_F(OpenPlanTest, EveryWorldAndEveryNumberOfThreadsGivesTheSameStream) {
  for (const auto& [name, text] : Plans()) {
    const Stream whole = Drain(*OpenText(text, 1));
    ASSERT_GT(whole.digests.size(), 2u) << name;
    for (const int world : {1, 2, 3, 8}) {
      std::vector<uint64_t> sums(whole.digests.size(), 0);
      for (int rank = 0; rank < world; ++rank) {
        OpenOptions options;
        options.rank = rank;
        options.world = world;
        options.prefetch_batches = 1 + rank % 3;
        const Stream part = Drain(*OpenText(text, 1 + rank, options));
        ASSERT_EQ(part.digests.size(), sums.size()) << name << " " << world;
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += part.digests[i];
      }
      EXPECT_EQ(sums, whole.digests) << name << " world " << world;
    }
  }
}

// S-STATE-1, S-STATE-10, S-STATE-20.
TEST_F(OpenPlanTest, EveryTokenGoesOnAtAnotherWorld) {
  for (const auto& [name, text] : Plans()) {
    const Stream whole = Drain(*OpenText(text, 2));
    for (size_t i = 0; i < whole.tokens.size(); i += TakesFewSettings() ? 3 : 1) {
      std::vector<uint64_t> sums(whole.digests.size() - i - 1, 0);
      for (int rank = 0; rank < 2; ++rank) {
        OpenOptions options;
        options.rank = rank;
        options.world = 2;
        options.resume_token = whole.tokens[i];
        const Stream part = Drain(*OpenText(text, 2, options));
        ASSERT_EQ(part.digests.size(), sums.size()) << name << " after " << i;
        for (size_t k = 0; k < sums.size(); ++k) sums[k] += part.digests[k];
      }
      EXPECT_TRUE(
          std::equal(sums.begin(), sums.end(), whole.digests.begin() + static_cast<int64_t>(i) + 1))
          << name << " after " << i;
    }
  }
}

// S-ERROR-6.
TEST_F(OpenPlanTest, ShardsBehindUrlsAreTheSameStream) {
  if (!readers::Nginx::IsThere()) GTEST_SKIP() << "no " << readers::Nginx::kProgram;
  const readers::Nginx nginx(folder());
  std::string urls;
  for (int shard = 0; shard < kShards; ++shard) {
    absl::StrAppend(&urls, "files: \"", nginx.Url(absl::StrCat("data-", shard)), "\" ");
  }
  const std::string stages =
      "stage { filter { predicate: \"label < 3\" materialize: true } }\n"
      "stage { batch { size: 16 } }\n";
  const std::string order = "stage { global_shuffle { block_bytes: 200 } }\n";
  const std::string source = absl::StrCat("stage { tfrecord { ", urls, "} }\n", order);
  const Stream local = Drain(*OpenText(Text(Files("data-*") + order, false, stages), 2));
  ASSERT_GT(local.digests.size(), 3u);
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(Drain(*OpenText(Text(source, false, stages), 2)).digests, local.digests);
  }
  OpenOptions options;
  options.resume_token = local.tokens[1];
  EXPECT_EQ(Drain(*OpenText(Text(source, false, stages), 2, options)).digests.size(),
            local.digests.size() - 2);
}

TEST_F(OpenPlanTest, EveryWayToReadGivesTheSameStream) {
  const auto text = [&](const std::string& options) {
    const std::string files = absl::StrCat("files: \"", folder(), "/data-*\" ", options);
    return Text(absl::StrCat("stage { tfrecord { ", files, " } }\n"), false,
                "stage { batch { size: 16 } }\n");
  };
  const Stream whole = Drain(*OpenText(text(""), 2));
  for (const auto* options :
       {"io: \"pread\"", "io: \"mmap\"", "io: \"direct\"", "drop_behind: true",
        "io: \"mmap\" drop_behind: true", "access_point_bytes: 65536"}) {
    EXPECT_EQ(Drain(*OpenText(text(options), 2)).digests, whole.digests) << options;
  }
  const auto unknown = Plan::FromText(text("io: \"mmpa\""), "plan");
  EXPECT_MESSAGE(unknown.status());
}

// A file whose reads wait until they are let go.
class HangingFile : public RandomAccessFile {
 public:
  absl::StatusOr<size_t> ReadAt(uint64_t, std::span<std::byte> out) const override {
    go_.get_future().wait();
    return out.size();
  }
  uint64_t size() const override { return 100; }
  const std::string& path() const override { return path_; }
  void Go() const { go_.set_value(); }

 private:
  const std::string path_ = "hanging.tfrecord";
  mutable std::promise<void> go_;
};

TEST(MakeContextTest, AReadThatHangsIsLoggedAndCounted) {
  std::promise<std::string> logged;
  std::atomic<int> num_logged = 0;
  ContextOptions options;
  options.read_deadline = std::chrono::milliseconds(1);
  options.log = [&](LogLevel, std::string_view message) {
    if (num_logged++ == 0) logged.set_value(std::string(message));
  };
  const auto context = *MakeContext(std::move(options));
  const auto file = std::make_shared<HangingFile>();
  std::byte out[7];
  std::promise<void> done;
  context->io().Submit({{file, 5, out}}, [&](const auto&) { done.set_value(); });
  EXPECT_THAT(logged.get_future().get(),
              testing::HasSubstr("reading 7 bytes of hanging.tfrecord at offset 5"));
  EXPECT_EQ(context->metrics().gauge(metric::kReadsOverdueNow).value(), 1);
  file->Go();
  done.get_future().wait();
  EXPECT_EQ(context->metrics().gauge(metric::kReadsOverdueNow).value(), 0);
  EXPECT_EQ(context->metrics().counter(metric::kReadsOverdue).value(), 1);
}

TEST_F(OpenPlanTest, AFilterKeepsWhatItsPredicateSays) {
  const std::string text =
      Text(Files("data-*"), false,
           "stage { filter { predicate: \"label in (1, 3) and score < 0.5\" } }\n"
           "stage { batch { size: 8 } }\n");
  const auto pipeline = OpenText(text, 2);
  int64_t rows = 0;
  while (true) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      if ((*batch)->valid()[row] == 0) continue;
      const int64_t label = (*batch)->Find("label").as<int64_t>()[row];
      EXPECT_TRUE(label == 1 || label == 3);
      ++rows;
    }
  }
  EXPECT_EQ(rows, 20);  // numbers 0 to 49, two of five
}

}  // namespace
}  // namespace millrace::pipeline
