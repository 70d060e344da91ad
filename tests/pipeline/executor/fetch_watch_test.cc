#include "pipeline/executor/fetch_watch.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/metric_table.h"
#include "tests/pipeline/executor/executor_fixture.h"

namespace millrace::pipeline {
namespace {

// Two shards of three records: the first behind a URL, the second not.
class HalfLocalSource final : public FakeSource {
 public:
  HalfLocalSource() : FakeSource(Data()) {}
  const std::vector<std::string>& files() const override { return names_; }
  std::optional<readers::FetchFacts> fetches() const override { return readers::FetchFacts(); }

 private:
  static FakeData Data() {
    FakeData data = MakeFakeData(6);
    data.records_per_shard = 3;
    return data;
  }

  const std::vector<std::string> names_ = {"http://host/a", "b"};
};

class FetchWatchTest : public testing::Test {
 protected:
  // Makes `records` those of [first, first + 2).
  void Locate(uint64_t first) {
    const std::vector<SampleId> ids = {{.epoch = 0, .record = first},
                                       {.epoch = 0, .record = first + 1}};
    EXPECT_EQ(LocateRun(source_, {}, ids, 1, records_), 2);
  }
  int64_t Counted() {
    watch_.Look();
    return context_->metrics().counter(metric::kFetchedRecordBytes).value();
  }
  int64_t FrameOf(uint64_t record) const {
    return static_cast<int64_t>(source_.FramedBytes(source_.Locate(record)));
  }

  const HalfLocalSource source_;
  const std::shared_ptr<Context> context_ = FakeContext(1);
  FetchWatch watch_{source_, *context_};
  RunRecords records_;
};

TEST_F(FetchWatchTest, RecordsOfLocalShardsAreNotCounted) {
  Locate(2);
  watch_.Read(records_);
  EXPECT_EQ(Counted(), FrameOf(2));
}

TEST_F(FetchWatchTest, RecordsThatAreReadAgainByThemselvesAreCountedOnce) {
  Locate(0);
  watch_.Read(records_);
  records_.alone = true;
  watch_.Read(records_);
  EXPECT_EQ(Counted(), FrameOf(0) + FrameOf(1));
}

}  // namespace
}  // namespace millrace::pipeline
