#include "readers/expand_files.h"

#include <random>

#include "readers/names/names.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ExpandFilesTest : public testing::Test {
 protected:
  ExpandFilesTest() {
    for (const char* name : {"train-2.tfrecord", "train-0.tfrecord", "train-1.tfrecord",
                             "eval-0.tfrecord", "odd[1].tfrecord", ".hidden.tfrecord"}) {
      WriteFile(folder_ / name, "x");
    }
    std::filesystem::create_directory(folder_ / "train-folder.tfrecord");
  }

  absl::StatusOr<std::vector<std::string>> Expand(const std::vector<std::string>& names) const {
    std::vector<std::string> patterns;
    for (const std::string& name : names) patterns.push_back(folder_ / name);
    return ExpandFiles(patterns);
  }
  absl::Status Error(const std::string& pattern) const {
    const auto files = Expand({pattern});
    EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
    return files.status();
  }

  const TempFolder folder_;
};

TEST_F(ExpandFilesTest, ListingEndsWhereTheCallerWantsThat) {
  const std::vector<std::string> patterns = {folder_ / "train-*", folder_ / "eval-*"};
  int asked = 0;
  ASSERT_TRUE(ExpandFiles(patterns, [&] { return ++asked < 0; }).ok());
  EXPECT_GT(asked, 2);
  for (int last = 1; last < asked; ++last) {
    int now = 0;
    const auto files = ExpandFiles(patterns, [&] { return ++now >= last; });
    EXPECT_TRUE(absl::IsCancelled(files.status())) << last << ": " << files.status();
  }
  EXPECT_TRUE(ExpandFiles(patterns).ok());  // the next call has no part in it
}

TEST_F(ExpandFilesTest, PatternsGiveSortedFilesWithoutFoldersAndHiddenNames) {
  EXPECT_THAT(Expand({"train-*"}).value(),
              ElementsAre(folder_ / "train-0.tfrecord", folder_ / "train-1.tfrecord",
                          folder_ / "train-2.tfrecord"));
  EXPECT_EQ(Expand({"*"})->size(), 5u);
}

TEST_F(ExpandFilesTest, FoldersAreLeftOutUnderEveryName) {
  std::filesystem::create_directory(folder_ / "a*b");
  WriteFile(folder_ / "a*b/train-9.tfrecord", "x");
  std::filesystem::create_directory(folder_ / "a*b/train-x");
  std::filesystem::create_symlink("train-folder.tfrecord", folder_ / "train-7.tfrecord");
  std::filesystem::create_symlink("train-0.tfrecord", folder_ / "train-8.tfrecord");
  std::filesystem::create_symlink("nowhere", folder_ / "train-9.tfrecord");
  EXPECT_THAT(Expand({"train-[789fx]*"}).value(),
              ElementsAre(folder_ / "train-8.tfrecord", folder_ / "train-9.tfrecord"));
  EXPECT_THAT(Expand({"a?b/train-*"}).value(), ElementsAre(folder_ / "a*b/train-9.tfrecord"));
  EXPECT_THAT(Expand({"./train-[0f]*"}).value(), ElementsAre(folder_ / "./train-0.tfrecord"));
  for (const char* folders : {"train-fold*", "*/", "a?b/train-x*", "train-folder.tfrecord/"}) {
    EXPECT_EQ(Expand({folders}).status().code(), absl::StatusCode::kNotFound) << folders;
  }
}

TEST_F(ExpandFilesTest, ManyPatternsAreOneSortedListWithoutDuplicates) {
  EXPECT_THAT(Expand({"train-[12]*", "train-1.tfrecord", "eval-*"}).value(),
              ElementsAre(folder_ / "eval-0.tfrecord", folder_ / "train-1.tfrecord",
                          folder_ / "train-2.tfrecord"));
}

TEST_F(ExpandFilesTest, NameOfAnExistingFileIsTakenAsItIs) {
  EXPECT_THAT(Expand({"odd[1].tfrecord"}).value(), ElementsAre(folder_ / "odd[1].tfrecord"));
}

TEST_F(ExpandFilesTest, NoPatternIsInvalid) {
  EXPECT_EQ(ExpandFiles({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ExpandFilesTest, MissingNameShowsTheNearest) {
  const absl::Status error = Error("trian-1.tfrecord");
  EXPECT_MESSAGE(error);
  EXPECT_THAT(std::string(error.message()), Not(HasSubstr("hidden")));
}

TEST_F(ExpandFilesTest, MissingPatternShowsNearestNamesToo) {
  EXPECT_MESSAGE(Error("tran-*.tfrecord"));
}

TEST_F(ExpandFilesTest, NamesThatAreFarAreNotCalledNear) {
  std::filesystem::create_directory(folder_ / "mixed");
  for (const char* name : {"x.tfr", "tfvenv", "chroot"}) WriteFile(folder_ / "mixed/" + name, "x");
  EXPECT_MESSAGE(Error("mixed/nope*.tfrecord"));
  EXPECT_MESSAGE(Error("mixed/nope*"));
  EXPECT_MESSAGE(Error("validation-*.tfrecord"));
}

TEST_F(ExpandFilesTest, OneMissingPatternAmongGoodOnesIsAnError) {
  const auto files = Expand({"train-*", "test-*"});
  EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(files.status());
}

TEST_F(ExpandFilesTest, FoldersAreExplained) {
  EXPECT_MESSAGE(Error("no/such.tfrecord"));
  EXPECT_MESSAGE(Error("no/such-*.tfrecord"));
  EXPECT_MESSAGE(Error("train-folder.tfrecord"));
  EXPECT_MESSAGE(Error("train-folder.tfrecord/a"));
}

// What the pattern of URLs stands for, which is not asked for.
std::vector<std::string> Urls(const std::string& pattern) {
  const auto files = ExpandFiles(std::vector<std::string>{pattern});
  EXPECT_TRUE(files.ok()) << files.status();
  return files.value_or(std::vector<std::string>());
}

std::vector<std::string> Braces(std::string_view pattern) {
  return internal::ExpandBraces(pattern).value();
}

// The right sides are bash's: echo PATTERN.
TEST(ExpandBraces, StandForWhatBashMakesOfThem) {
  EXPECT_THAT(Braces("a{b,c}d"), ElementsAre("abd", "acd"));
  EXPECT_THAT(Braces("{a,b}{1..3}"), ElementsAre("a1", "a2", "a3", "b1", "b2", "b3"));
  EXPECT_THAT(Braces("{x,y{1,2},}z"), ElementsAre("xz", "y1z", "y2z", "z"));
  EXPECT_THAT(Braces("s-{008..011}.tar"),
              ElementsAre("s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar"));
  EXPECT_THAT(Braces("{1..010}").size(), 10u);
  EXPECT_EQ(Braces("{1..010}")[0], "001");
  EXPECT_THAT(Braces("{a{1..2},b}"), ElementsAre("a1", "a2", "b"));
}

TEST(ExpandBraces, RangesCountInEitherDirection) {
  EXPECT_THAT(Braces("{3..1}"), testing::UnorderedElementsAre("1", "2", "3"));
  EXPECT_THAT(Braces("{7..7}"), ElementsAre("7"));
  EXPECT_THAT(Braces("{18446744073709551614..18446744073709551615}"),
              ElementsAre("18446744073709551614", "18446744073709551615"));
}

TEST(ExpandBraces, OtherBracesStandForThemselves) {
  for (const char* text : {"{a}", "{}", "{a", "a}", "{1..}", "{a..c}", "{-1..2}", "}{", "\\{a,b\\}",
                           "{18446744073709551616..18446744073709551617}", ""}) {
    EXPECT_THAT(Braces(text), ElementsAre(text));
  }
  EXPECT_THAT(Braces("{a{b,c}"), ElementsAre("{ab", "{ac"));
  EXPECT_THAT(Braces("{x{a,b}}"), ElementsAre("{xa}", "{xb}"));
}

TEST(ExpandBraces, TooManyNamesAndTooDeepOnesAreErrors) {
  for (const char* text : {"{0..100000}", "{0..99999}{a,b}", "{0..18446744073709551615}",
                           "{{0..99999},a}", "{0..999}{0..999}{0..999}"}) {
    const auto names = internal::ExpandBraces(text);
    EXPECT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  const std::string wide = "{0..49999}" + std::string(4000, 'x');
  EXPECT_EQ(internal::ExpandBraces(wide).status().code(), absl::StatusCode::kInvalidArgument);
  std::string deep = "a";
  for (int i = 0; i < 18; ++i) deep = "{" + deep + ",b}";
  EXPECT_MESSAGE(internal::ExpandBraces(deep).status());
}

TEST(ExpandBraces, AnyTextEndsSoon) {
  std::mt19937_64 random(1);
  constexpr std::string_view kAlphabet = "{{{}},,..\\019a";
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (uint64_t n = random() % 40; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    const auto names = internal::ExpandBraces(text);
    if (names.ok()) {
      EXPECT_GE(names->size(), 1u) << text;
    }
  }
}

TEST_F(ExpandFilesTest, BracesAndGlobsGoTogether) {
  EXPECT_MESSAGE(Expand({"{train,eval}-{0..1}*"}).status());
  EXPECT_THAT(Expand({"{train-{1..2},eval-*}.tf*"}).value(),
              ElementsAre(folder_ / "eval-0.tfrecord", folder_ / "train-1.tfrecord",
                          folder_ / "train-2.tfrecord"));
}

TEST_F(ExpandFilesTest, AFileWithBracesOrAnAtInItsNameIsThatFile) {
  for (const char* name : {"{train-1,eval-0}.tfrecord", "train@3", "list:a"}) {
    WriteFile(folder_ / name, "x");
    EXPECT_THAT(Expand({name}).value(), ElementsAre(folder_ / name));
  }
}

class ShardSpecTest : public ExpandFilesTest {
 protected:
  void WriteShards(int count, int missing = -1) const {
    for (int i = 0; i < count; ++i) {
      if (i != missing) WriteFile(Shard(i, count), "x");
    }
  }
  std::string Shard(int i, int count) const {
    return folder_ / ("a-0000" + std::to_string(i) + "-of-0000" + std::to_string(count) + ".tfr");
  }
};

TEST_F(ShardSpecTest, NamesAllShards) {
  WriteShards(3);
  const auto all = ElementsAre(Shard(0, 3), Shard(1, 3), Shard(2, 3));
  EXPECT_THAT(Expand({"a@3.tfr"}).value(), all);
  EXPECT_THAT(Expand({"a@*.tfr"}).value(), all);
  EXPECT_MESSAGE(Expand({"{a@3,eval-0}.tfr*"}).status());
}

TEST_F(ShardSpecTest, AMissingShardIsNamed) {
  WriteShards(4, 2);
  for (const char* spec : {"a@4.tfr", "a@*.tfr"}) {
    const auto files = Expand({spec});
    EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
    EXPECT_MESSAGE(files.status());
  }
}

TEST_F(ShardSpecTest, SeveralSetsAreNotGuessedAmong) {
  WriteShards(3);
  WriteShards(2, 1);
  const auto files = Expand({"a@*.tfr"});
  EXPECT_EQ(files.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_MESSAGE(files.status());
  EXPECT_EQ(Expand({"a@3.tfr"})->size(), 3u);
}

TEST_F(ShardSpecTest, WhatIsNoShardIsNotCounted) {
  WriteShards(2);
  for (const char* other : {"a-00000-of-00009.tfr.gz", "a-x-of-00009.tfr", "a-00000-of-9.tfr",
                            "ab-00000-of-00009.tfr", "a-00000-of-00009", "a-.tfr", "a.tfr"}) {
    WriteFile(folder_ / other, "x");
  }
  EXPECT_EQ(Expand({"a@*.tfr"})->size(), 2u);
  EXPECT_MESSAGE(Error("b@*.tfr"));
}

TEST_F(ShardSpecTest, AbsurdCountsAreErrors) {
  for (const char* spec : {"a@0", "a@100001", "a@99999999999999999999999"}) {
    EXPECT_EQ(Expand({spec}).status().code(), absl::StatusCode::kInvalidArgument) << spec;
  }
  for (const char* name : {"a@", "a@b", "a@1x", "a@-1"}) {  // names as any other
    EXPECT_MESSAGE(Error(name));
  }
}

TEST(ExpandUrls, AreTakenAsTheyAre) {
  EXPECT_THAT(Urls("https://host/a*?x=[1]"), ElementsAre("https://host/a*?x=[1]"));
  EXPECT_THAT(Urls("https://host/{b,a}-{0..1}.tar"),
              ElementsAre("https://host/a-0.tar", "https://host/a-1.tar", "https://host/b-0.tar",
                          "https://host/b-1.tar"));
  EXPECT_THAT(Urls("http://user@host/a@2.tfr"),
              ElementsAre("http://user@host/a-00000-of-00002.tfr",
                          "http://user@host/a-00001-of-00002.tfr"));
  EXPECT_EQ(ExpandFiles(std::vector<std::string>{"http://host/a@*"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

class NameListTest : public ExpandFilesTest {
 protected:
  absl::StatusOr<std::vector<std::string>> ExpandList(std::string_view text) const {
    WriteFile(folder_ / "names.txt", text);
    return ExpandFiles(std::vector<std::string>{"list:" + folder_ / "names.txt"});
  }
};

TEST_F(NameListTest, HasANamePerLineRelativeToItself) {
  const auto files =
      ExpandList("# shards\n\n  train-{1,2}.tfrecord \r\n\teval-*\nhttps://host/x\n" +
                 folder_ / "train-0.tfrecord");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(folder_ / "eval-0.tfrecord", folder_ / "train-0.tfrecord",
                                  folder_ / "train-1.tfrecord", folder_ / "train-2.tfrecord",
                                  "https://host/x"));
}

TEST_F(NameListTest, ErrorsNameTheLine) {
  const auto error = [&](std::string_view text) {
    const auto files = ExpandList(text);
    EXPECT_FALSE(files.ok());
    return files.status();
  };
  EXPECT_MESSAGE(error("train-1.tfrecord\n# x\ntrian-*\n"));
  EXPECT_MESSAGE(error("list:names.txt"));
  EXPECT_MESSAGE(error("\n # nothing\n"));
  EXPECT_EQ(ExpandFiles(std::vector<std::string>{"list:" + folder_ / "none"}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::readers
