#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "readers/example_view.h"
#include "tests/readers/example/example_oracle.h"
#include "tests/sanitized.h"

namespace millrace::readers {
namespace {

using internal::FeatureKind;
using internal::WireError;

// libprotobuf writes to standard error about keys that are not UTF-8.
class ExampleParser : public testing::Test {
 private:
  google::protobuf::LogSilencer silencer_;
};

// Both parsers take `bytes` and see the same, or both refuse them.
void ExpectAgreement(std::string_view bytes) {
  // An exact heap copy, so that a sanitizer sees a read past the end.
  const std::vector<char> copy(bytes.begin(), bytes.end());
  WireError error;
  const auto ours = ParseWithMillrace({copy.data(), copy.size()}, &error);
  const auto theirs = ParseWithProtobuf(bytes);
  ASSERT_EQ(ours.has_value(), theirs.has_value())
      << testing::PrintToString(std::string(bytes)) << ": " << error.ToString();
  ASSERT_EQ(ours, theirs) << testing::PrintToString(std::string(bytes));
  EXPECT_TRUE(ours.has_value() || error.offset <= bytes.size());
  WireError check_error;
  EXPECT_EQ(internal::CheckExample({copy.data(), copy.size()}, &check_error), ours.has_value());
}

WireError ErrorOf(std::string_view bytes) {
  WireError error;
  EXPECT_FALSE(internal::CheckExample(bytes, &error));
  return error;
}

std::string TwoInts() { return Message(3, Message(1, Varint(5) + Varint(300))); }

TEST_F(ExampleParser, RandomExamplesReadLikeLibprotobuf) {
  std::mt19937_64 random(1);
  for (int i = 0; i < Rounds(500); ++i) ExpectAgreement(RandomExample(random).SerializeAsString());
}

TEST_F(ExampleParser, EmptyExampleHasNoFeatures) {
  WireError error;
  EXPECT_EQ(ParseWithMillrace("", &error), ExampleValues());
  ExpectAgreement("");
  ExpectAgreement(Wrap(""));
}

TEST_F(ExampleParser, AnEmptyPackedListIsViewedAsNoValues) {
  const auto view = ViewExample(Wrap(Entry("k", Message(2, Message(1, "")))));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(std::get<std::vector<float>>(view->at("k")).empty());
}

TEST_F(ExampleParser, UnpackedListsReadLikePackedOnes) {
  const std::string ints = Message(3, Tag(1, 0) + Varint(5) + Tag(1, 0) + Varint(300));
  WireError error;
  EXPECT_EQ(ParseWithMillrace(Wrap(Entry("k", ints)), &error),
            ParseWithMillrace(Wrap(Entry("k", TwoInts())), &error));
  ExpectAgreement(Wrap(Entry("k", ints)));
  ExpectAgreement(Wrap(Entry("k", Message(2, Tag(1, 5) + std::string("\0\0\x80\x3f", 4)))));
}

TEST_F(ExampleParser, PackedAndUnpackedMayAlternate) {
  ExpectAgreement(
      Wrap(Entry("k", Message(3, Tag(1, 0) + Varint(1) + Message(1, Varint(2) + Varint(3)) +
                                     Tag(1, 0) + Varint(uint64_t(-4))))));
}

TEST_F(ExampleParser, LaterDuplicateKeyWins) {
  const std::string bytes = Wrap(Entry("k", TwoInts()) + Entry("k", Message(1, Message(1, "x"))));
  WireError error;
  const auto parsed = ParseWithMillrace(bytes, &error);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->at("k").kind, FeatureKind::kBytes);
  ExpectAgreement(bytes);
  // Also when the map itself comes in two parts.
  ExpectAgreement(Wrap(Entry("k", TwoInts())) + Wrap(Entry("k", Message(2, ""))));
}

TEST_F(ExampleParser, ListsOfOneKindInOneFeatureAreJoined) {
  ExpectAgreement(Wrap(Entry("k", TwoInts() + TwoInts())));
  // Also over two values in one entry, with the key in between.
  ExpectAgreement(
      Wrap(Message(1, Message(2, TwoInts()) + Message(1, "k") + Message(2, TwoInts()))));
}

TEST_F(ExampleParser, ListOfAnotherKindDiscardsTheEarlierOne) {
  const std::string bytes = Message(1, Message(1, "x"));
  ExpectAgreement(Wrap(Entry("k", TwoInts() + bytes)));
  ExpectAgreement(Wrap(Entry("k", TwoInts() + bytes + TwoInts())));
}

TEST_F(ExampleParser, EntriesWithoutKeyOrValueHaveTheEmptyOnes) {
  ExpectAgreement(Wrap(Message(1, Message(2, TwoInts()))));
  ExpectAgreement(Wrap(Message(1, Message(1, "k"))));
  ExpectAgreement(Wrap(Message(1, "")));
  ExpectAgreement(Wrap(Message(1, Message(1, "k") + Message(1, "other") + Message(2, TwoInts()))));
}

TEST_F(ExampleParser, UnknownFieldsOfEveryWireTypeAreSkipped) {
  const std::string group =
      Tag(9, 3) + Tag(10, 3) + Tag(1, 0) + Varint(1) + Tag(10, 4) + Message(3, "abc") + Tag(9, 4);
  const std::string unknown = Tag(7, 0) + Varint(1) + Tag(7, 1) + std::string(8, 'x') +
                              Message(8, "abc") + group + Tag(7, 5) + std::string(4, 'x');
  ExpectAgreement(unknown + Wrap(unknown + Entry("k", TwoInts()) + unknown) + unknown);
  ExpectAgreement(Wrap(Entry("k", unknown + TwoInts() + unknown)));
  ExpectAgreement(Wrap(Entry("k", Message(3, unknown + Tag(1, 0) + Varint(3)))));
  WireError error;
  EXPECT_EQ(ParseWithMillrace(unknown + Wrap(Entry("k", TwoInts())), &error)->size(), 1u);
}

TEST_F(ExampleParser, KnownFieldsOfAnotherWireTypeAreSkipped) {
  ExpectAgreement(Tag(1, 0) + Varint(3) + Wrap(Tag(1, 5) + "abcd" + Entry("k", TwoInts())));
  ExpectAgreement(Wrap(Entry("k", Tag(3, 0) + Varint(3))));
  ExpectAgreement(Wrap(Entry("k", Message(1, Tag(1, 0) + Varint(3)))));
}

TEST_F(ExampleParser, GroupsNestAsDeeplyAsLibprotobufAllows) {
  for (const int depth : {1, 95, 96, 97, 98, 99, 100, 101, 200}) {
    std::string groups;
    for (int i = 0; i < depth; ++i) groups += Tag(5, 3);
    for (int i = 0; i < depth; ++i) groups += Tag(5, 4);
    ExpectAgreement(groups);
    ExpectAgreement(Wrap(groups));
    ExpectAgreement(Wrap(Entry("k", groups)));
    ExpectAgreement(Wrap(Entry("k", Message(3, groups))));
  }
}

TEST_F(ExampleParser, MalformedInputIsToldWithItsByte) {
  EXPECT_EQ(ErrorOf("\x0a").ToString(), "byte 1: length cut off");
  EXPECT_EQ(ErrorOf("\x0a\x05").ToString(), "byte 1: length runs past its message");
  EXPECT_EQ(ErrorOf(Wrap("") + "\x0c").ToString(), "byte 2: end of a group that was not begun");
  EXPECT_EQ(ErrorOf(std::string("\x02\x00", 2)).ToString(), "byte 0: field number 0");
  EXPECT_EQ(ErrorOf("\x0f").ToString(), "byte 0: unknown wire type");
  EXPECT_EQ(ErrorOf("\xff\xff\xff\xff\xff\x01").ToString(), "byte 0: tag longer than 5 bytes");
  EXPECT_EQ(ErrorOf(Tag(5, 3)).ToString(), "byte 1: group without end");
  EXPECT_EQ(ErrorOf(Tag(5, 3) + Tag(6, 4)).ToString(), "byte 1: end of another group");
  EXPECT_EQ(ErrorOf(Tag(5, 1) + "abc").ToString(), "byte 1: fixed-size value cut off");
  EXPECT_EQ(ErrorOf(Tag(5, 0) + std::string(10, '\xff')).ToString(), "byte 1: bad varint");
  EXPECT_EQ(ErrorOf(Wrap(Entry("\xff", TwoInts()))).ToString(),
            "byte 6: key is not UTF-8, in feature '<0xFF>'");
  const std::string odd = Wrap(Entry("k", Message(2, Message(1, "abc"))));
  EXPECT_EQ(ErrorOf(odd).ToString(), "byte 13: packed floats not of 4 bytes each, in feature 'k'");
}

TEST_F(ExampleParser, TheFeatureOfAFaultIsNamed) {
  const std::string good = Entry("first", TwoInts());
  EXPECT_THAT(ErrorOf(Wrap(good + Entry("image", Message(3, Message(1, "\xff"))))).ToString(),
              testing::HasSubstr("bad varint, in feature 'image'"));
  // The entry ends inside its value.
  const std::string cut = Message(1, "box") + "\x12\x7f";
  EXPECT_THAT(ErrorOf(Wrap(good + Message(1, cut))).ToString(),
              testing::HasSubstr("length runs past its message, in feature 'box'"));
  // Two parts of one value, the second of which is wrong.
  const std::string parts =
      Message(1, "two") + Message(2, TwoInts()) + Message(2, Message(2, Message(1, "abc")));
  EXPECT_THAT(ErrorOf(Wrap(Message(1, parts))).ToString(), testing::HasSubstr("feature 'two'"));
}

TEST_F(ExampleParser, OverlongNumbersAreTakenOrRefusedLikeLibprotobuf) {
  for (const std::string& number :
       {std::string("\x85\x80\x80\x80\x00", 5), std::string("\x85\x80\x80\x80\x10", 5),
        std::string("\x85\x80\x80\x80\x80\x00", 6), std::string("\xff\xff\xff\xff\x7f", 5),
        std::string(9, '\xff') + '\x01', std::string(9, '\xff') + '\x7f',
        std::string(10, '\xff')}) {
    ExpectAgreement(Tag(5, 2) + number + "hello");
    ExpectAgreement(Tag(5, 0) + number);
    ExpectAgreement(number + std::string("\0\0\0\0\0\0\0\0", 8));
    ExpectAgreement(Wrap(Entry("k", Message(3, Message(1, number)))));
  }
}

TEST_F(ExampleParser, KeysMustBeUtf8LikeInLibprotobuf) {
  for (const char* key : {"\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x8e\xb2", "\xc0\x80",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe0\x80\x80",
                          "\xf0\x80\x80\x80", "\xc3", "\xe2\x82", "\x80", "a\xffz"}) {
    ExpectAgreement(Wrap(Entry(key, TwoInts())));
  }
}

TEST_F(ExampleParser, EveryTruncationIsJudgedLikeLibprotobuf) {
  std::mt19937_64 random(2);
  for (int i = 0; i < Rounds(20); ++i) {
    const std::string bytes = RandomExample(random).SerializeAsString();
    for (size_t size = 0; size < std::min<size_t>(bytes.size(), 600); ++size) {
      ExpectAgreement(std::string_view(bytes).substr(0, size));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_F(ExampleParser, FlippedBytesAreJudgedLikeLibprotobuf) {
  std::mt19937_64 random(3);
  for (int i = 0; i < Rounds(20000); ++i) {
    std::string bytes = RandomExample(random).SerializeAsString();
    if (bytes.empty()) continue;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      const size_t span = random() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 24);
      bytes[random() % span] = static_cast<char>(random());
    }
    ExpectAgreement(bytes);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Sentences of the wire grammar itself: mostly well-formed fields with few numbers, nested.
std::string RandomFields(std::mt19937_64& random, int depth) {
  std::string out;
  for (uint64_t n = random() % 4; n > 0; --n) {
    const auto field = static_cast<uint32_t>(1 + random() % 4);
    switch (random() % 8) {
      case 0:
        out += Tag(field, 0) + Varint(random() >> (random() % 64));
        break;
      case 1:
        out += Tag(field, 5) + std::string(4, static_cast<char>(random()));
        break;
      case 2:
        out += Tag(field, 3) + (depth > 0 ? RandomFields(random, depth - 1) : "") + Tag(field, 4);
        break;
      case 3:
        out += Message(field, std::string(random() % 9, static_cast<char>(random() % 128)));
        break;
      default:
        out += Message(field, depth > 0 ? RandomFields(random, depth - 1) : "");
    }
  }
  return out;
}

TEST_F(ExampleParser, RandomWireSentencesAreJudgedLikeLibprotobuf) {
  std::mt19937_64 random(4);
  int accepted = 0;
  for (int i = 0; i < Rounds(30000); ++i) {
    const std::string bytes = RandomFields(random, 6);
    ExpectAgreement(bytes);
    if (testing::Test::HasFatalFailure()) return;
    accepted += ParseWithProtobuf(bytes).has_value() ? 1 : 0;
  }
  EXPECT_GT(accepted, Rounds(3000));
}

}  // namespace
}  // namespace millrace::readers
