#ifndef MILLRACE_TESTS_PIPELINE_OPEN_DAMAGE_FILES_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_OPEN_DAMAGE_FILES_FIXTURE_H_

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/temp_folder.h"

// Real files under each policy, damaged. The oracle is the list of records that was written:
// whatever is done to a file, what is delivered is records as they were, in their order, and none
// is missing but those that were touched.

namespace millrace::pipeline {

// What is done to a file.
struct Harm {
  std::string bytes;
  std::set<size_t> touched;  // records
  std::string what;
};

class DamageFilesFixture : public testing::Test {
 protected:
  DamageFilesFixture(size_t num_records, size_t payload_bytes, std::string compression)
      : payload_bytes_(payload_bytes), compression_(std::move(compression)) {
    std::mt19937_64 random(4);
    for (size_t i = 0; i < num_records; ++i) {
      std::string payload(payload_bytes, '\0');
      // Noise that deflate can shrink: where it stores bytes as they are, a splice may show them
      // twice.
      for (char& c : payload) c = static_cast<char>('a' + random() % 64);
      payloads_.push_back(std::move(payload));
    }
  }

  // A file of its own each time: two that are written within one tick of the clock look alike.
  void Write(std::string_view bytes) {
    shard_ = folder_ / ("shard-" + std::to_string(++num_shards_));
    std::ofstream(shard_, std::ios::binary) << bytes;
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& policy) {
    const Plan plan = *Plan::FromText(
        absl::StrCat("stage { tfrecord { files: \"", shard_, "\" compression: \"", compression_,
                     "\" } } stage { decode_raw { output: \"bytes\" shape: ", payload_bytes_,
                     " } } stage { batch { size: 5 } } on_damage { policy: \"", policy, "\" ",
                     policy == "fail" ? "" : "max_share: 1 ", "}"),
        "p");
    OpenOptions options;
    options.index_folder = folder_ / "index";
    options.quarantine_file = quarantine_;
    return Pipeline::Open(plan, context_, options);
  }

  // Valid rows in the order of the stream; `damaged` counts.
  absl::Status Read(const std::string& policy, std::vector<std::string>& rows, size_t& damaged) {
    auto pipeline = Open(policy);
    if (!pipeline.ok()) return pipeline.status();
    while (true) {
      const auto batch = (*pipeline)->Next();
      if (!batch.ok()) return batch.status();
      if (!batch->has_value()) return absl::OkStatus();
      damaged += (*batch)->damaged().size();
      const auto bytes = (*batch)->Find("bytes").as<uint8_t>();
      for (size_t row = 0; row < static_cast<size_t>((*batch)->num_rows()); ++row) {
        if ((*batch)->valid()[row] == 0) continue;
        const auto* first = reinterpret_cast<const char*>(bytes.data()) + row * payload_bytes_;
        rows.emplace_back(first, payload_bytes_);
      }
    }
  }

  // A record that was touched may be there all the same where a rest of it was enough.
  void ExpectOthersUnchanged(const Harm& harm, const std::vector<std::string>& rows) {
    auto at = rows.begin();
    for (size_t i = 0; i < payloads_.size(); ++i) {
      const bool there = at != rows.end() && *at == payloads_[i];
      if (there) ++at;
      ASSERT_TRUE(there || harm.touched.contains(i)) << "record " << i;
    }
    ASSERT_EQ(at, rows.end()) << "a row that was never written";
  }

  const size_t payload_bytes_;
  const std::string compression_;
  const TempFolder folder_;
  const std::shared_ptr<Context> context_ = *MakeContext();
  std::vector<std::string> payloads_;
  std::string shard_;
  int num_shards_ = 0;
  std::string quarantine_;  // empty: none
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_OPEN_DAMAGE_FILES_FIXTURE_H_
