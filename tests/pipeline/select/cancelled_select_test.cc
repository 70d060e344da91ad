#include "tests/pipeline/select/materialize_fixture.h"

// Opening a plan ends where its caller wants that, and keeps nothing half made.

namespace millrace::pipeline {
namespace {

class CancelledSelectTest : public MaterializeTest {
 protected:
  int NumFiles(const std::string& ending) const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "index")) {
      count += entry.path().extension() == ending ? 1 : 0;
    }
    return count;
  }

  std::string Bucketed() const {
    return absl::StrCat(Source("all"), kParse,
                        "stage { bucket_by_length { key: \"label\" boundary: [2] "
                        "batch_size: [8, 6] keep_lengths: true } }\n");
  }
};

TEST_F(CancelledSelectTest, ASearchThroughAllRecordsEndsAndIsNotKept) {
  WriteData();
  OpenOptions options;
  options.cancels = [this] { return io_->reads > 0; };  // once it looks at records
  for (const auto& [text, ending] :
       {std::pair(Plain(), ".select"), std::pair(Bucketed(), ".lengths")}) {
    io_->reads = 0;
    const absl::Status status = Open(text, options).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(NumFiles(ending), 0);
    EXPECT_TRUE(Open(text).ok());
    EXPECT_EQ(NumFiles(ending), 1);
  }
  EXPECT_EQ(log_, "");
}

TEST_F(CancelledSelectTest, AnOpenPipelineAsksNobody) {
  WriteData();
  OpenOptions options;
  std::atomic<int> asked = 0;
  options.cancels = [&] { return ++asked < 0; };
  auto pipeline = *Open(Plain(), options);
  const int asked_to_open = asked;
  EXPECT_GT(asked_to_open, 0);
  Stream stream;
  Drain(*pipeline, &stream);
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  EXPECT_EQ(asked, asked_to_open);
}

}  // namespace
}  // namespace millrace::pipeline
