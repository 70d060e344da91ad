#include "pipeline/plan/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/plan.h"
#include "pipeline/plan/text_literals.h"
#include "tests/temp_files.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

constexpr char kBatchStage[] = "\nstage { batch { size: 4 } }\n";

class PathsTest : public ::testing::Test {
 protected:
  // The plan of this text in the file `name` of the test's folder.
  Plan Load(const std::string& text, const Variables& variables = {},
            const std::string& name = "plans/p.pbtxt") {
    WriteFile(folder_ / name, text + kBatchStage);
    auto plan = Plan::FromFile(folder_ / name, variables);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

  // The files of its source, a tfrecord stage, without the test's folder.
  std::vector<std::string> FilesOf(const std::string& files, const Variables& variables = {},
                                   const std::string& name = "plans/p.pbtxt") {
    const Plan plan = Load("stage { tfrecord { " + files + " } }", variables, name);
    std::vector<std::string> names;
    for (std::string file : plan.message().pipeline.stage(0).tfrecord().files()) {
      const size_t at = file.find(folder_.path());
      if (at != std::string::npos) file.replace(at, folder_.path().size(), "~");
      names.push_back(file);
    }
    return names;
  }

  const TempFolder folder_;
};

// S-PLAN-17.
TEST_F(PathsTest, NamesInAPlanAreRelativeToItsFile) {
  EXPECT_THAT(FilesOf(R"(files: "data/x-*")"), ElementsAre("~/plans/data/x-*"));
  EXPECT_THAT(FilesOf(R"(files: "../a" files: ['b', "/c"] files: "d")"),
              ElementsAre("~/plans/../a", "~/plans/b", "/c", "~/plans/d"));
  EXPECT_THAT(FilesOf(R"(files: "https://host/x" files: "list:names" files: "list:/names")"),
              ElementsAre("https://host/x", "list:~/plans/names", "list:/names"));
  EXPECT_THAT(FilesOf(R"(files: "{/a,/b}/x" files: "{a,b}/x")"),
              ElementsAre("{/a,/b}/x", "~/plans/{a,b}/x"));
}

// S-PLAN-17.
TEST_F(PathsTest, ValuesOfVariablesAreRelativeToTheCurrentFolder) {
  const Variables data = {{"DATA", "data"}, {"SPLIT", "train"}};
  EXPECT_THAT(FilesOf(R"(files: "${DATA}/${SPLIT}-*" files: "in/${SPLIT}-*")", data),
              ElementsAre("data/train-*", "~/plans/in/train-*"));
  EXPECT_THAT(FilesOf(R"(files: [ "a", # "${SPLIT}
                                  "${DATA}" "/b" , 'c' "${SPLIT}"])",
                      data),
              ElementsAre("~/plans/a", "data/b", "~/plans/ctrain"));
  EXPECT_THAT(FilesOf(R"(files: "list:${DATA}/${SPLIT}" files: "{${DATA},b}/x")", data),
              ElementsAre("list:data/train", "{data,b}/x"));
  EXPECT_THAT(FilesOf(R"(files: "${ALL}")", {{"ALL", "list:names"}}), ElementsAre("list:names"));
}

// S-PLAN-17.
TEST_F(PathsTest, DefaultsOfVariablesStandInThePlan) {
  EXPECT_THAT(FilesOf(R"(files: "${DATA:-../data}/x")"), ElementsAre("~/plans/../data/x"));
  EXPECT_THAT(FilesOf(R"(files: "${DATA:-../data}/x")", {{"DATA", "d"}}), ElementsAre("d/x"));
  EXPECT_THAT(FilesOf(R"(files: "${NONE}x")", {{"NONE", ""}}), ElementsAre("~/plans/x"));
}

// S-PLAN-17.
TEST_F(PathsTest, AFolderStandsForItself) {
  EXPECT_THAT(FilesOf(R"(files: "x-*" files: "list:y")", {}, "a[1]{b}*/p.pbtxt"),
              ElementsAre(R"(~/a\[1\]\{b\}\*/x-*)", "list:~/a[1]{b}*/y"));
}

// S-PLAN-17.
TEST_F(PathsTest, EveryFieldThatNamesFilesIsResolved) {
  const Plan images =
      Load(R"(stage { image_folder { path: "train" classes_file: "classes.txt" } })");
  const auto& folder = images.message().pipeline.stage(0).image_folder();
  EXPECT_EQ(folder.path(), folder_ / "plans/train");
  EXPECT_EQ(folder.classes_file(), folder_ / "plans/classes.txt");
  WriteFile(folder_ / "plans/vocab.txt", "a\nb\n");
  const Plan words = Load(R"(stage { text { files: "x" } }
                             stage { vocabulary { field: "record" file: "vocab.txt" } })");
  EXPECT_EQ(words.message().pipeline.stage(1).vocabulary().file(), folder_ / "plans/vocab.txt");
  const Plan joined = Load(R"(stage { concatenate {
      input { stage { tfrecord { files: "a" } } }
      input { stage { tfrecord { files: "b" dali_index: "b.idx" } } } } })");
  const auto& inputs = joined.message().pipeline.stage(0).concatenate().input();
  EXPECT_EQ(inputs[0].stage(0).tfrecord().files(0), folder_ / "plans/a");
  EXPECT_EQ(inputs[1].stage(0).tfrecord().files(0), folder_ / "plans/b");
  EXPECT_EQ(inputs[1].stage(0).tfrecord().dali_index(0), folder_ / "plans/b.idx");
}

// S-PLAN-17, S-FINGERPRINT-2.
TEST_F(PathsTest, TheFolderDoesNotCountInTheFingerprint) {
  const Plan relative = Load(R"(stage { tfrecord { files: "x" } })");
  const Plan absolute = Load(R"(stage { tfrecord { files: "/d/x" } })");
  EXPECT_EQ(relative.Fingerprint(), absolute.Fingerprint());
  const auto again = Plan::FromText(relative.ToText(), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToText(), relative.ToText());
}

// S-PLAN-17.
TEST_F(PathsTest, NamesInATextAreRelativeToTheCurrentFolder) {
  const auto plan =
      Plan::FromText(std::string(R"(stage { tfrecord { files: "a/x" } })") + kBatchStage, "a/b");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->message().pipeline.stage(0).tfrecord().files(0), "a/x");
}

TEST_F(PathsTest, MissingNamesAreLookedForFromTheCurrentFolderIfTheyAreRelative) {
  const std::string here = "; the current folder is " + std::filesystem::current_path().string();
  EXPECT_EQ(LookedFrom("a/b"), here);
  EXPECT_EQ(LookedFrom("list:a"), here);
  EXPECT_EQ(LookedFrom("/a/b"), "");
  EXPECT_EQ(LookedFrom("list:/a"), "");
  EXPECT_EQ(LookedFrom("https://host/a"), "");
  EXPECT_EQ(LookedFrom(""), "");
}

TEST(StringsOfFieldTest, AStringAfterAnotherBelongsToIt) {
  const std::string text = R"(f: "a\"]" # "no"
                              'b' g: "c" h: ["d", 'e' "f" ,"g"] i: [])";
  EXPECT_THAT(StringsOfField(text, text.find("f:")), ElementsAre(4));
  EXPECT_THAT(StringsOfField(text, text.find("g:")), ElementsAre(text.find("c\"")));
  EXPECT_THAT(StringsOfField(text, text.find("h:")),
              ElementsAre(text.find("d\""), text.find("e'"), text.find("g\"]")));
  EXPECT_THAT(StringsOfField(text, text.find("i:")), ElementsAre());
}

}  // namespace
}  // namespace millrace::pipeline
