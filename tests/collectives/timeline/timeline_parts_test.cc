#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "collectives/timeline.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/temp_folder.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;

class TimelineParts : public ::testing::Test {
 protected:
  TimelineParts() {
    timeline_.Add({1'000'000, 2'000'000, 7, 0, 3, Line::kReducer, Event::kWaiting});
  }

  TimelinePart Of(int rank, int64_t offset = 0) const { return {rank, &timeline_, offset, path_}; }
  // The ranks whose events are in a file, and when they begin.
  static std::map<int, double> RanksIn(const std::string& path) {
    std::ifstream file(path);
    std::map<int, double> ranks;
    const nlohmann::json trace = nlohmann::json::parse(file);
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "X") ranks[event["pid"]] = event["ts"];
    }
    return ranks;
  }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/trace.json";
  Timeline timeline_;
};

TEST_F(TimelineParts, ComeIntoOneFileOnRank0sClock) {
  ASSERT_TRUE(Of(0).Write().ok());
  ASSERT_TRUE(Of(3, 5'000'000).Write().ok());
  EXPECT_EQ(RanksIn(Of(3).FileOf(3)), (std::map<int, double>{{3, 6000}}));
  const auto merged = Of(2).Merge({0, 3}, std::chrono::hours(1));  // both are there
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(*merged, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(RanksIn(path_), (std::map<int, double>{{0, 1000}, {2, 1000}, {3, 6000}}));
  EXPECT_EQ(Files(), std::set<std::string>{"trace.json"});
}

TEST_F(TimelineParts, AreAwaited) {
  std::thread late([this] { EXPECT_TRUE(Of(1).Write().ok()); });
  const auto merged = Of(0).Merge({1}, std::chrono::hours(1));
  late.join();
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(*merged, (std::vector<int>{0, 1}));
}

TEST_F(TimelineParts, OfRanksThatDoNotComeOrAreTornAreLeftOut) {
  ASSERT_TRUE(Of(2).Write().ok());
  std::filesystem::resize_file(Of(2).FileOf(2), std::filesystem::file_size(Of(2).FileOf(2)) - 1);
  std::ofstream(Of(3).FileOf(3)) << "{}";
  std::ofstream(Of(4).FileOf(4)).flush();
  const auto merged = Of(0).Merge({1, 2, 3, 4}, milliseconds(50));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(*merged, std::vector<int>{0});
  EXPECT_EQ(RanksIn(path_), (std::map<int, double>{{0, 1000}}));
}

TEST_F(TimelineParts, OfAnEarlierRunAreForgotten) {
  ASSERT_TRUE(Of(1).Write().ok());
  Of(1).Forget();
  EXPECT_TRUE(Files().empty());
}

TEST_F(TimelineParts, ThatCannotBeWrittenAreErrorsAtOnce) {
  TimelinePart part = Of(0);
  part.path = folder_.path() + "/none/trace.json";
  EXPECT_EQ(part.Write().code(), absl::StatusCode::kNotFound);
  const auto merged = part.Merge({1}, std::chrono::hours(1));
  EXPECT_EQ(merged.status().code(), absl::StatusCode::kNotFound) << merged.status();
}

}  // namespace
}  // namespace millrace::collectives
