#include "cli/live/profile_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace millrace::cli {
namespace {

using pipeline::PipelineProfile;

// A profile whose numbers are all different, as far as one op, one file and one cause go.
PipelineProfile Profile() {
  PipelineProfile profile;
  profile.now_ns = 1;
  profile.elapsed_ns = 2;
  profile.batches = 3;
  profile.rows = 4;
  profile.workers = 5;
  profile.worker_goal = 6;
  profile.goal_ns = 7;
  profile.busy_ns = 8;
  profile.items[3] = {9, 10};
  profile.serial_ns = 11;
  profile.work_ns = 12;
  profile.clocked_ns = 13;
  profile.clocked_cpu_ns = 14;
  profile.worked_rows = 15;
  pipeline::OpProfile op;
  op.stage = "decode_image";
  op.summary = "decode_image + flip";
  op.busy_ns = 16;
  op.sampled_runs = 17;
  op.sampled_rows = 18;
  op.sampled_ns = 19;
  op.row_ns.Add(1000, 3);
  op.row_ns.Add(77'000);
  op.weighed_rows = 20;
  op.bytes_in = 21;
  op.bytes_out = 22;
  op.slowest = {23, 24, {25, 26, 27}, "a.tfrecord", 28};
  profile.ops.push_back(op);
  profile.wait_ns[1] = 29;
  profile.waits = 30;
  profile.waits_ns.Add(31);
  profile.ring = 32;
  profile.ring_goal = 33;
  profile.ready_ns = 34;
  profile.reads.groups = 35;
  profile.reads.requests = 36;
  profile.reads.bytes = 37;
  profile.reads.ns = 38;
  profile.reads.in_flight = 39;
  profile.reads.any_ns = 40;
  profile.reads.best_window_bytes = 41;
  profile.reads.group_ns.Add(42);
  profile.reads.slowest.push_back({"b.tfrecord", 43, 44, 45});
  profile.reads.files = 46;
  profile.reads.median_file_ns = 47;
  profile.memory = {48, 49, 50, 51, 52, 53};
  profile.hand_over = {54, 55};
  profile.copies = {56, 57, 58, 59};
  return profile;
}

TEST(ProfileJson, MembersHaveTheNamesOfTheProfileAndItsNumbers) {
  const nlohmann::ordered_json json = ProfileJson(Profile());
  EXPECT_EQ(json["elapsed_ns"], 2);
  EXPECT_EQ(json["items"]["process"]["busy_ns"], 10);
  EXPECT_EQ(json["wait_ns"]["reading"], 29);
  EXPECT_EQ(json["ops"][0]["slowest"]["first"]["sub_index"], 27);
  EXPECT_EQ(json["ops"][0]["row_ns"]["count"], 4);
  EXPECT_EQ(json["ops"][0]["row_ns"]["max"], 77'000);
  EXPECT_EQ(json["ops"][0]["row_ns"]["bins"].size(), 2u);
  EXPECT_EQ(json["reads"]["slowest"][0]["file"], "b.tfrecord");
  EXPECT_EQ(json["memory"]["batch_bytes"], 53);
  EXPECT_EQ(json["hand_over"]["ns"], 55);
  EXPECT_EQ(json["copies"]["wait_ns"], 59);
}

TEST(ProfileJson, AProfileReadBackIsTheSame) {
  const nlohmann::ordered_json json = ProfileJson(Profile());
  const PipelineProfile read = ProfileOfJson(json);
  EXPECT_EQ(ProfileJson(read).dump(), json.dump());
  EXPECT_EQ(read.ops[0].row_ns.max(), 77'000u);
  EXPECT_EQ(read.ops[0].row_ns.Quantile(0.5), Profile().ops[0].row_ns.Quantile(0.5));
}

TEST(ProfileJson, MembersThatAreNotThereOrOfAnotherTypeAreZero) {
  const auto json = nlohmann::ordered_json::parse(
      R"({"rows": 7, "busy_ns": "many", "ops": 3, "reads": null, "waits_ns": {"bins": [[1]]},
          "later": {"than": "this"}})");
  const PipelineProfile read = ProfileOfJson(json);
  EXPECT_EQ(read.rows, 7);
  EXPECT_EQ(read.busy_ns, 0);
  EXPECT_TRUE(read.ops.empty());
  EXPECT_EQ(read.reads.groups, 0);
  EXPECT_EQ(read.waits_ns.count(), 0u);
}

}  // namespace
}  // namespace millrace::cli
