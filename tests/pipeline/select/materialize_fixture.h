#ifndef MILLRACE_TESTS_PIPELINE_SELECT_MATERIALIZE_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_SELECT_MATERIALIZE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "readers/example_builder.h"
#include "readers/read_engine.h"
#include "readers/record_writer.h"
#include "tests/temp_folder.h"

// Data sets for `filter { materialize: true }`: one with all records, and as its oracle one whose
// files have only those that the filter keeps. Both hold each record's number in the first.

namespace millrace::pipeline {

// Reads as the pread pool does and counts; or every read fails.
class CountingIo final : public IoEngine {
 public:
  CountingIo() : io_(*readers::MakePreadEngine(2)) {}
  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    reads += static_cast<int>(requests.size());
    if (!fails) return io_->Submit(std::move(requests), std::move(done));
    done(std::vector<absl::Status>(requests.size(), absl::UnavailableError("the disk is gone")));
  }

  std::atomic<int> reads = 0;
  std::atomic<bool> fails = false;

 private:
  const std::shared_ptr<IoEngine> io_;
};

// Batches as numbers of records (of a window, its last), row by row; -1 for a row without a sample.
struct Stream {
  std::map<uint64_t, std::map<int64_t, int64_t>> batches;  // by index, then by row
  std::vector<uint64_t> epochs;
  std::vector<std::string> tokens;
  absl::Status end;
};

class MaterializeTest : public testing::Test {
 protected:
  static constexpr int kShards = 6;

  void SetUp() override {
    for (const char* part : {"all", "kept"}) std::filesystem::create_directory(folder_ / part);
    io_ = std::make_shared<CountingIo>();
  }

  // Of the record with this number; shard 3 has no record with label 1 or 4.
  static int64_t Label(int number, int shard) { return shard == 3 ? 2 : number % 5; }
  static bool IsKept(int number, int shard) {
    return Label(number, shard) == 1 || Label(number, shard) == 4;
  }
  static constexpr char kKeep[] = "label in (1, 4)";

  static std::string Example(int number, int64_t label) {
    readers::ExampleBuilder example;
    example.AddInt("label", label);
    example.AddInt("number", number);
    std::vector<int64_t> tokens;
    for (int t = 0; t < 1 + number % 3; ++t) tokens.push_back(number);
    example.AddInts("tokens", tokens);
    return example.Serialize();
  }

  // Shard s has 20 + s records.
  void WriteData() {
    int number = 0;
    for (int shard = 0; shard < kShards; ++shard) {
      const std::string name = absl::StrCat("data-", shard);
      auto all = *readers::TfRecordWriter::Open(folder_ / absl::StrCat("all/", name));
      auto kept = *readers::TfRecordWriter::Open(folder_ / absl::StrCat("kept/", name));
      for (int i = 0; i < 20 + shard; ++i, ++number) {
        const std::string example = Example(number, Label(number, shard));
        ASSERT_TRUE(all->Write(example).ok());
        if (!IsKept(number, shard)) continue;
        ASSERT_TRUE(kept->Write(example).ok());
      }
      ASSERT_TRUE(all->Close().ok());
      ASSERT_TRUE(kept->Close().ok());
    }
  }

  std::string Source(const std::string& part, const std::string& pattern = "data-*") const {
    return absl::StrCat("stage { tfrecord { files: \"", folder_ / absl::StrCat(part, "/", pattern),
                        "\" } }\n");
  }
  static std::string Filter(std::string_view predicate = kKeep) {
    return absl::StrCat("stage { filter { predicate: \"", std::string(predicate),
                        "\" materialize: true } }\n");
  }
  static constexpr char kParse[] =
      "stage { parse_example { feature { key: \"label\" dtype: INT64 }\n"
      "  feature { key: \"number\" dtype: INT64 } } }\n";
  static constexpr char kBatch[] = "stage { batch { size: 8 } }\n";

  // A plan over all records with the filter in it.
  std::string Plain(std::string_view predicate = kKeep) const {
    return absl::StrCat(Source("all"), kParse, Filter(predicate), kBatch);
  }

  std::shared_ptr<Context> MakeTestContext(int threads = 2) {
    ContextOptions options;
    options.threads = threads;
    options.io = io_;
    options.log = [this](LogLevel, std::string_view message) { log_ += std::string(message); };
    return *MakeContext(std::move(options));
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& text,
                                                 OpenOptions options = {}) {
    const auto plan = Plan::FromText(text, "p");
    if (!plan.ok()) return plan.status();
    if (options.index_folder.empty()) options.index_folder = folder_ / "index";
    return Pipeline::Open(*plan, MakeTestContext(1 + options.rank), options);
  }

  static void AddRows(const Batch& batch, std::map<int64_t, int64_t>* rows) {
    const auto numbers = batch.Find("number").as<int64_t>();
    const auto size = static_cast<int64_t>(numbers.size()) / batch.num_rows();  // of a window
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (batch.valid()[row] == 0) continue;
      rows->emplace(batch.first_global_row() + row, numbers[(row + 1) * size - 1]);
    }
  }

  static void Drain(Pipeline& pipeline, Stream* stream) {
    while (true) {
      const auto batch = pipeline.Next();
      if (!batch.ok()) stream->end = batch.status();
      if (!batch.ok() || !batch->has_value()) return;
      AddRows(**batch, &stream->batches[(*batch)->index()]);
      stream->epochs.push_back((*batch)->epoch());
      stream->tokens.push_back((*batch)->resume_token());
    }
  }

  // All ranks of a world.
  Stream Run(const std::string& text, int world = 1, const std::string& token = "") {
    Stream stream;
    for (int rank = 0; rank < world; ++rank) {
      OpenOptions options;
      options.rank = rank;
      options.world = world;
      options.resume_token = token;
      const auto pipeline = Open(text, options);
      EXPECT_TRUE(pipeline.ok()) << pipeline.status() << "\n" << text;
      if (pipeline.ok()) Drain(**pipeline, &stream);
    }
    return stream;
  }

  // The files of selections in the folder of indexes.
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "index")) {
      if (entry.path().extension() == ".select") files.push_back(entry.path());
    }
    return files;
  }

  const TempFolder folder_;
  std::shared_ptr<CountingIo> io_;
  std::string log_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_SELECT_MATERIALIZE_FIXTURE_H_
