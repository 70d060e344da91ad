#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/readers/http/http_server.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

// OpenOptions::http: what a program says of requests reaches those for shards and their .idx files.

namespace millrace::pipeline {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class OpenHttpTest : public testing::Test {
 protected:
  OpenHttpTest() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    options_.index_folder = folder_ / "index";
    options_.http.sign = [](std::string_view, uint64_t, uint64_t,
                            std::vector<std::string>& headers) {
      headers.push_back("X-Signed: yes");
    };
  }

  // A shard of the numbers 0 to 3.
  std::string Shard() const {
    auto writer = readers::TfRecordWriter::Open(folder_ / "a");
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE((*writer)->Write({reinterpret_cast<const char*>(&i), 8}).ok());
    }
    EXPECT_TRUE((*writer)->Close().ok());
    return ReadFile(folder_ / "a");
  }

  // Answers with `idx` for names that end so, else with the shard.
  readers::Answer Serve(const std::string& idx) const {
    return
        [shard = readers::Good(Shard()), index = readers::Good(idx)](readers::Exchange& exchange) {
          (exchange.request().find(".idx") != std::string::npos ? index : shard)(exchange);
        };
  }

  absl::StatusOr<std::vector<int64_t>> FirstBatch(const std::string& source) {
    const Plan plan = Make("stage { tfrecord { " + source +
                           " } }\nstage { decode_raw { output: \"x\" dtype: INT64 } }\n" + kBatch);
    auto context = MakeContext();
    if (!context.ok()) return context.status();
    const auto pipeline = Pipeline::Open(plan, *context, options_);
    if (!pipeline.ok()) return pipeline.status();
    const auto batch = (*pipeline)->Next();
    if (!batch.ok()) return batch.status();
    const auto values = (*batch)->Find("x").as<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }

  const TempFolder folder_;
  OpenOptions options_;
};

TEST_F(OpenHttpTest, EveryRequestOfAPipelineIsSigned) {
  const readers::ScriptServer server({Serve("")});
  const auto batch = FirstBatch("files: \"" + server.Url("a") + "\"");
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(*batch, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(server.requests(), Not(SizeIs(0)));
  EXPECT_THAT(server.requests(), Each(HasSubstr("X-Signed: yes\r\n")));
}

TEST_F(OpenHttpTest, SoAreThoseForTheIndexOfDali) {
  const readers::ScriptServer server({Serve("0 24\n72 24\n")});
  const auto batch =
      FirstBatch("files: \"" + server.Url("a") + "\" dali_index: \"" + server.Url("a.idx") + "\"");
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(*batch, ElementsAre(0, 3, 0, 0));
  EXPECT_THAT(server.requests(), Each(HasSubstr("X-Signed: yes\r\n")));
}

TEST_F(OpenHttpTest, AnIndexBehindAUrlIsNamedWithoutItsSecrets) {
  const readers::ScriptServer server({Serve("0 24\n25 24\n")});
  const auto batch = FirstBatch("files: \"" + server.Url("a") + "\" dali_index: \"" +
                                server.Url("a.idx?token=hush") + "\"");
  EXPECT_MESSAGE(batch.status());
  EXPECT_THAT(std::string(batch.status().message()), Not(HasSubstr("hush")));
}

TEST_F(OpenHttpTest, OptionsThatCannotBeAreNamed) {
  options_.http.max_attempts = 0;
  const absl::Status status = options_.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(status);
}

}  // namespace
}  // namespace millrace::pipeline
