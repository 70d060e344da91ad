#include <gmock/gmock.h>
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "pipeline/cut/state.h"
#include "tests/pipeline/cut/settler_fixture.h"

// The settler's state as text: what it takes, what it costs, and that nothing else is accepted or
// does harm. That it goes on with the same stream is in settler_test.cc.

namespace millrace::pipeline {
namespace {

std::string Decoded(const std::string& text) {
  std::string bytes;
  EXPECT_TRUE(absl::WebSafeBase64Unescape(text, &bytes));
  return bytes;
}

// Behind the checksum: what a forger could write.
std::string WithChecksum(std::string body) {
  const uint64_t hash = XXH3_64bits(body.data(), body.size());
  for (int i = 0; i < 4; ++i) body += static_cast<char>(hash >> (8 * i));
  return absl::WebSafeBase64Escape(body);
}

// A state that was taken goes on without harm, whatever it says.
void ExpectHarmless(const CutCase& cut, const std::string& state) {
  auto settler = *MakeSettler(cut, 0, 1);
  const absl::Status restored = settler->Restore(state);
  if (!restored.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(restored) || absl::IsFailedPrecondition(restored))
        << restored;
    return;
  }
  if (!ReopenAll(cut, *settler).ok()) return;
  Feeder feeder(cut, *settler, 1);
  for (int i = 0; i < 20 && feeder.Next().has_value(); ++i) {
  }
}

std::vector<std::string> StatesOf(const CutCase& cut) {
  std::vector<std::string> states;
  for (const std::vector<std::string>& batch : RunWorld(cut, 1, 20, 1).states) {
    states.push_back(batch[0]);
  }
  return states;
}

TEST(SettlerStateTest, NumbersComeBack) {
  StateWriter writer;
  const uint64_t numbers[] = {0, 1, 127, 128, 1 << 20, ~uint64_t{0}, uint64_t{1} << 63};
  for (const uint64_t number : numbers) writer.Number(number);
  auto reader = StateReader::Open(writer.Finish());
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const uint64_t number : numbers) EXPECT_EQ(reader->Number(), number);
  EXPECT_TRUE(reader->at_end());
  EXPECT_EQ(reader->Number(), 0u);
  EXPECT_FALSE(reader->ok());
}

TEST(SettlerStateTest, NumberOfMoreThan64BitsIsDamage) {
  auto reader = StateReader::Open(WithChecksum(std::string("\1") + std::string(9, '\xFF') + "\2"));
  ASSERT_TRUE(reader.ok());
  reader->Number();
  EXPECT_FALSE(reader->ok());
}

TEST(SettlerStateTest, AnotherVersionIsInvalidArgument) {
  EXPECT_TRUE(absl::IsInvalidArgument(StateReader::Open(WithChecksum("\2rest")).status()));
}

// S-STATE-12.
TEST(SettlerStateTest, GarbageIsInvalidArgument) {
  const CutCase cut = RandomCut(3);
  for (const std::string_view state : {"", "A", "AAAA", "hello world", "=", "_-_-_-_-_-_-"}) {
    auto settler = *MakeSettler(cut, 0, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(settler->Restore(state))) << state;
  }
}

TEST(SettlerStateTest, EveryTruncationIsInvalidArgument) {
  const CutCase cut = RandomCut(11);
  for (const std::string& state : StatesOf(cut)) {
    for (size_t size = 0; size < state.size(); ++size) {
      auto settler = *MakeSettler(cut, 0, 1);
      EXPECT_TRUE(absl::IsInvalidArgument(settler->Restore(state.substr(0, size))));
    }
  }
}

// S-STATE-12: 32 bits of checksum let one random change in 4e9 through.
TEST(SettlerStateTest, EveryChangedCharacterIsInvalidArgument) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const CutCase cut = RandomCut(seed);
    for (const std::string& state : StatesOf(cut)) {
      std::string changed = state;
      changed[random() % changed.size()] = static_cast<char>(random());
      if (changed == state) continue;
      auto settler = *MakeSettler(cut, 0, 1);
      EXPECT_TRUE(absl::IsInvalidArgument(settler->Restore(changed)));
    }
  }
}

TEST(SettlerStateTest, ForgedStatesDoNoHarm) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const CutCase cut = RandomCut(seed);
    for (const std::string& state : StatesOf(cut)) {
      std::string body = Decoded(state);
      body.resize(body.size() - 4);
      for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
        const size_t at = 6 + random() % body.size();  // mostly behind the shape's hash
        if (at >= body.size()) {
          body.resize(body.size() - random() % 3);
        } else {
          body[at] = static_cast<char>(random());
        }
      }
      ExpectHarmless(cut, WithChecksum(body));
    }
  }
}

TEST(SettlerStateTest, HugeCountsAllocateNothing) {
  CutCase cut = RandomCut(3);
  cut.plan.cut->settle = {{SettleStep::Kind::kShuffle, uint64_t{1} << 40, 0, 0, "shuffle"}};
  const std::vector<std::string> states = StatesOf(cut);
  ASSERT_FALSE(states.empty());
  std::string body = Decoded(states[0]);
  for (size_t at = 6; at + 14 < body.size(); ++at) {
    std::string forged = body.substr(0, at) + std::string("\xFF\xFF\xFF\xFF\xFF\x0F", 6);
    ExpectHarmless(cut, WithChecksum(forged));
  }
}

// S-STATE-12.
TEST(SettlerStateTest, StateOfAnotherPlanIsInvalidArgument) {
  const CutCase cut = RandomCut(2);
  const std::string state = StatesOf(cut).at(0);
  std::vector<CutCase> others;
  for (int i = 0; i < 6; ++i) others.push_back(RandomCut(2));
  others[0].plan.batch.size += cut.plan.lanes;
  others[1].plan.cut->settle.push_back({SettleStep::Kind::kSkip, 1, 0, 0, "skip"});
  others[2].plan.seed += 1;
  others[3].lane_sizes[0] += 1;
  others[4].plan.batch_order.emplace_back();
  others[5].plan.cut->num_filters += 1;
  for (const CutCase& other : others) {
    auto settler = *MakeSettler(other, 0, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(settler->Restore(state)));
  }
  EXPECT_TRUE((*MakeSettler(cut, 0, 1))->Restore(state).ok());
}

// S-STATE-13.
TEST(SettlerStateTest, SizeIsBoundedByLanesAndOpenRows) {
  CutCase cut = RandomCut(3);
  cut.plan.lanes = 8;
  cut.plan.batch.kind = BatchSpec::Kind::kFixed;
  cut.plan.batch.size = 64;
  cut.plan.batch_order.clear();
  cut.plan.cut->settle = {{SettleStep::Kind::kShuffle, 4000, 0, 0, "shuffle"}};
  cut.plan.cut->num_filters = 0;
  cut.lane_sizes.assign(8, 1000);
  const WorldRun run = RunWorld(cut, 1, 200, 1);
  ASSERT_FALSE(run.states.empty());
  for (const std::vector<std::string>& states : run.states) {
    EXPECT_LE(states[0].size(), 2048 + 16 * (8 + 4000));
  }
  EXPECT_LE(run.states[0][0].size(), 2048 + 16 * (8 + 64u));
}

}  // namespace
}  // namespace millrace::pipeline
