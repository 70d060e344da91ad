#include "cli/live/snapshot.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::cli {
namespace {

TEST(NameOfFile, TellsFilesOfOneNameApartByTheirFolder) {
  EXPECT_EQ(NameOfFile("examples/imagenet/train.pbtxt"), "imagenet_train");
  EXPECT_EQ(NameOfFile("/train.pbtxt"), "train");
}

TEST(NameOfFile, HasNoCharacterThatAFileNameOrATerminalMinds) {
  EXPECT_EQ(NameOfFile("/a b/\xc3\xa4\x1b[2J.pbtxt"), "a_b_____2J");
  EXPECT_EQ(NameOfFile("/.config/job.pbtxt"), "_.config_job");
  EXPECT_EQ(NameOfFile("/" + std::string(100, 'x') + "/job.pbtxt").size(), 40u);
}

Snapshot Written() {
  Snapshot snapshot;
  snapshot.pid = 4711;
  snapshot.command = "train";
  snapshot.name = "imagenet_train";
  snapshot.file = "imagenet/train.pbtxt";
  snapshot.world = 8;
  snapshot.elapsed_seconds = 12.5;
  RankSnapshot rank;
  rank.rank = 3;
  rank.records_bad = 2;
  rank.steps = StepFigures{10, 100, 0.5, 0.25, 9, 640, 1.5, 0.5};
  rank.profile.rows = 640;
  rank.options.settings.threads = "threads: $0";
  rank.options.uint8_saved_bytes = 11;
  rank.host.device_read_bytes = 12;
  rank.host.busy_core_seconds = 2.5;
  rank.fetched_bytes = 13;
  snapshot.ranks.push_back(rank);
  return snapshot;
}

TEST(Snapshot, ReadBackIsTheSame) {
  const std::string text = ToJson(Written());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto read = SnapshotOfJson(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), text);
  EXPECT_EQ(read->ranks[0].steps->loss, 0.25);
  EXPECT_EQ(read->ranks[0].profile.rows, 640);
  EXPECT_EQ(read->ranks[0].options.settings.threads, "threads: $0");
  EXPECT_EQ(read->ranks[0].host.device_read_bytes, 12);
  EXPECT_FALSE(read->ranks[0].host.call_read_bytes.has_value());
}

TEST(Snapshot, ALossThatIsNotKnownOrNoNumberIsNull) {
  Snapshot snapshot = Written();
  snapshot.ranks[0].steps->loss.reset();
  EXPECT_NE(ToJson(snapshot).find("\"loss\":null"), std::string::npos);
  EXPECT_FALSE(SnapshotOfJson(ToJson(snapshot))->ranks[0].steps->loss.has_value());
}

TEST(Snapshot, TextThatIsNoObjectIsDataLoss) {
  for (const char* const text : {"", "[]", "{\"pid\": 1", "7"}) {
    EXPECT_EQ(SnapshotOfJson(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace millrace::cli
