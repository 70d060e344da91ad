#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "readers/example_view.h"
#include "tests/readers/example/sequence_oracle.h"
#include "tests/sanitized.h"

namespace millrace::readers {
namespace {

using internal::WireError;

// libprotobuf writes to standard error about keys that are not UTF-8.
class SequenceParser : public testing::Test {
 private:
  google::protobuf::LogSilencer silencer_;
};

// Both parsers take `bytes` and see the same, or both refuse them.
void ExpectAgreement(std::string_view bytes) {
  // An exact heap copy, so that a sanitizer sees a read past the end.
  const std::vector<char> copy(bytes.begin(), bytes.end());
  WireError error;
  const auto ours = ParseSequenceWithMillrace({copy.data(), copy.size()}, &error);
  const auto theirs = ParseSequenceWithProtobuf(bytes);
  ASSERT_EQ(ours.has_value(), theirs.has_value())
      << testing::PrintToString(std::string(bytes)) << ": " << error.ToString();
  ASSERT_TRUE(ours == theirs) << testing::PrintToString(std::string(bytes));
  EXPECT_TRUE(ours.has_value() || error.offset <= bytes.size());
  WireError check_error;
  EXPECT_EQ(internal::CheckSequenceExample({copy.data(), copy.size()}, &check_error),
            ours.has_value());
}

TEST_F(SequenceParser, RandomSequencesReadLikeLibprotobuf) {
  std::mt19937_64 random(1);
  for (int i = 0; i < Rounds(1000); ++i) {
    ExpectAgreement(RandomSequenceExample(random).SerializeAsString());
    if (HasFatalFailure()) return;
  }
}

TEST_F(SequenceParser, IsSeenWhole) {
  oracle::SequenceExample example;
  (*example.mutable_context()->mutable_feature())["id"].mutable_int64_list()->add_value(7);
  auto& list = (*example.mutable_feature_lists()->mutable_feature_list())["words"];
  list.add_feature()->mutable_bytes_list()->add_value("one");
  list.add_feature();
  auto& last = *list.add_feature()->mutable_float_list();
  last.add_value(0.5f);
  last.add_value(2);
  const std::string bytes = example.SerializeAsString();
  const auto lists = ViewFeatureLists(bytes);
  ASSERT_TRUE(lists.ok()) << lists.status();
  ASSERT_EQ(lists->size(), 1u);
  const std::vector<FeatureValues> words = {std::vector<std::string_view>{"one"}, std::monostate(),
                                            std::vector<float>{0.5f, 2}};
  EXPECT_EQ(lists->at("words"), words);
  EXPECT_EQ(ViewExample(bytes)->size(), 1u);
  EXPECT_EQ(ViewFeatureLists(bytes.substr(0, bytes.size() - 1)).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(SequenceParser, EveryTruncationIsJudgedLikeLibprotobuf) {
  std::mt19937_64 random(2);
  for (int i = 0; i < Rounds(20); ++i) {
    const std::string bytes = RandomSequenceExample(random).SerializeAsString();
    for (size_t size = 0; size < std::min<size_t>(bytes.size(), 900); ++size) {
      ExpectAgreement(std::string_view(bytes).substr(0, size));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SequenceParser, FlippedBytesAreJudgedLikeLibprotobuf) {
  std::mt19937_64 random(3);
  for (int i = 0; i < Rounds(20000); ++i) {
    std::string bytes = RandomSequenceExample(random).SerializeAsString();
    if (bytes.empty()) continue;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      const size_t span = random() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 32);
      bytes[random() % span] = static_cast<char>(random());
    }
    ExpectAgreement(bytes);
    if (HasFatalFailure()) return;
  }
}

TEST_F(SequenceParser, OfAListGivenTwiceTheLaterCounts) {
  const std::string one = StepOf(Ints(Varint(1)));
  const std::string bytes = WrapLists(Entry("k", one + one) + Entry("k", StepOf(Ints(Varint(2)))));
  WireError error;
  const auto parsed = ParseSequenceWithMillrace(bytes, &error);
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->lists.at("k").size(), 1u);
  EXPECT_EQ(parsed->lists.at("k")[0].ints, std::vector<int64_t>{2});
  ExpectAgreement(bytes);
  // Also when the map itself comes in two parts.
  ExpectAgreement(WrapLists(Entry("k", one)) + WrapLists(Entry("k", "")));
}

TEST_F(SequenceParser, StepsOfTwoValuesInOneEntryAreJoined) {
  const std::string one = StepOf(Ints(Varint(1)));
  ExpectAgreement(WrapLists(Message(1, Message(2, one) + Message(1, "k") + Message(2, one + one))));
}

TEST_F(SequenceParser, ListsOfOneStepAreJoinedAndOfTwoStepsAreNot) {
  const std::string twice = StepOf(Ints(Varint(1)) + Ints(Varint(2)));
  WireError error;
  const auto parsed = ParseSequenceWithMillrace(WrapLists(Entry("k", twice + twice)), &error);
  ASSERT_EQ(parsed->lists.at("k").size(), 2u);
  EXPECT_EQ(parsed->lists.at("k")[1].ints, (std::vector<int64_t>{1, 2}));
  ExpectAgreement(WrapLists(Entry("k", twice + twice)));
  // A list of another kind discards the earlier one of its own step only.
  ExpectAgreement(WrapLists(Entry("k", twice + StepOf(Ints(Varint(1)) + Message(1, "")))));
}

TEST_F(SequenceParser, ContextAndListsMayHaveTheSameKeysAndComeInAnyOrder) {
  const std::string context = Wrap(Entry("k", Ints(Varint(7))));
  const std::string lists = WrapLists(Entry("k", StepOf(Ints(Varint(8)))));
  ExpectAgreement(context + lists);
  ExpectAgreement(lists + context + lists + context);
}

TEST_F(SequenceParser, UnknownAndOddFieldsAreSkipped) {
  const std::string unknown = Tag(7, 0) + Varint(1) + Message(8, "abc") + Tag(9, 3) + Tag(9, 4);
  const std::string step = StepOf(unknown + Ints(Varint(5)) + unknown);
  ExpectAgreement(unknown + WrapLists(unknown + Entry("k", unknown + step + unknown)) + unknown);
  ExpectAgreement(Tag(2, 0) + Varint(3) + WrapLists(Tag(1, 5) + "abcd"));
  ExpectAgreement(WrapLists(Entry("k", Tag(1, 0) + Varint(3) + StepOf(""))));
}

TEST_F(SequenceParser, GroupsNestAsDeeplyAsLibprotobufAllows) {
  for (const int depth : {1, 93, 94, 95, 96, 97, 98, 99, 100, 101}) {
    std::string groups;
    for (int i = 0; i < depth; ++i) groups += Tag(5, 3);
    for (int i = 0; i < depth; ++i) groups += Tag(5, 4);
    ExpectAgreement(WrapLists(groups));
    ExpectAgreement(WrapLists(Entry("k", groups)));
    ExpectAgreement(WrapLists(Entry("k", StepOf(groups))));
    ExpectAgreement(WrapLists(Entry("k", StepOf(Message(3, groups)))));
  }
}

TEST_F(SequenceParser, DamageIsToldWithItsByte) {
  const auto error_of = [](std::string_view bytes) {
    WireError error;
    EXPECT_FALSE(internal::CheckSequenceExample(bytes, &error));
    return error.ToString();
  };
  EXPECT_EQ(error_of("\x12\x05"), "byte 1: length runs past its message");
  EXPECT_EQ(error_of(WrapLists(Entry("\xff", ""))),
            "byte 6: key is not UTF-8, in feature '<0xFF>'");
  EXPECT_EQ(error_of(WrapLists(Entry("k", StepOf(Message(2, Message(1, "abc")))))),
            "byte 15: packed floats not of 4 bytes each, in feature 'k'");
}

// Sentences of the wire grammar itself: mostly well-formed fields with few numbers, nested.
std::string RandomFields(std::mt19937_64& random, int depth) {
  std::string out;
  for (uint64_t n = random() % 4; n > 0; --n) {
    const auto field = static_cast<uint32_t>(1 + random() % 3);
    switch (random() % 10) {
      case 0:
        out += Tag(field, 0) + Varint(random() >> (random() % 64));
        break;
      case 1:
        out += Message(field, std::string(random() % 9, static_cast<char>(random() % 128)));
        break;
      default:
        out += Message(field, depth > 0 ? RandomFields(random, depth - 1) : "");
    }
  }
  return out;
}

TEST_F(SequenceParser, RandomWireSentencesAreJudgedLikeLibprotobuf) {
  std::mt19937_64 random(4);
  int accepted = 0;
  for (int i = 0; i < Rounds(30000); ++i) {
    const std::string bytes = RandomFields(random, 7);
    ExpectAgreement(bytes);
    if (HasFatalFailure()) return;
    accepted += ParseSequenceWithProtobuf(bytes).has_value() ? 1 : 0;
  }
  EXPECT_GT(accepted, Rounds(3000));
}

}  // namespace
}  // namespace millrace::readers
