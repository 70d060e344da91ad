#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/image_fixtures.h"
#include "tests/readers/record_test_util.h"

// Classes of folders of images that are converted, and what is told of their files; and members of
// tars that are WebDataset's own.

namespace millrace::readers {
namespace {

using testing::ElementsAre;

class ConvertFolderTest : public ConvertFixture {
 protected:
  ConvertOptions From(const std::string& name, ConvertFormat to = ConvertFormat::kTfRecord) {
    ConvertOptions options = Options(ConvertFormat::kImages, {}, to);
    options.images = Path(name);
    options.overwrite = true;
    options.warn = [this](std::string_view text) { warnings_.emplace_back(text); };
    return options;
  }
  // "text=label" of each record.
  std::vector<std::string> Labels(const ConvertOptions& options) {
    warnings_.clear();
    std::vector<std::string> labels;
    for (const auto& example : ReadExamples(Run(options))) {
      labels.push_back(example.at("image/class/text").bytes.at(0) + "=" +
                       std::to_string(example.at("image/class/label").ints.at(0)));
    }
    return labels;
  }
  void WriteClasses() {
    Write("in/cat/1.jpg", MakeJpeg(3, 4));
    Write("in/eel/1.jpg", MakeJpeg(5, 6));
    std::filesystem::create_directory(Path("in/bee"));
    std::filesystem::create_directory(Path("in/dog"));
    WriteTar(Path("in.tar"), {{"in/bee/", ""},
                              {"in/cat/1.jpg", MakeJpeg(3, 4)},
                              {"in/dog/", ""},
                              {"in/eel/1.jpg", MakeJpeg(5, 6)}});
  }

  std::vector<std::string> warnings_;
};

// S-SOURCE-7.
TEST_F(ConvertFolderTest, EmptyClassesKeepTheirLabelsAndAreToldOnce) {
  WriteClasses();
  for (const char* const name : {"in", "in.tar"}) {
    EXPECT_THAT(Labels(From(name)), ElementsAre("cat=1", "eel=3")) << name;
    ASSERT_EQ(warnings_.size(), 1u) << name;
    EXPECT_MESSAGE(warnings_[0], name);
    const auto manifest = nlohmann::json::parse(ReadFile(Path("out/t.manifest.json")));
    EXPECT_EQ(manifest["classes"], (std::vector<std::string>{"bee", "cat", "dog", "eel"}));
  }
  // A format that looks at the first record opens a tar twice.
  ConvertOptions options = From("in.tar", ConvertFormat::kFixedLength);
  options.feature = "image/format";
  warnings_.clear();
  Run(options);
  EXPECT_EQ(warnings_.size(), 1u);
}

// S-SOURCE-7.
TEST_F(ConvertFolderTest, AListOfClassesFixesTheLabels) {
  WriteClasses();
  for (const char* const name : {"in", "in.tar"}) {
    ConvertOptions options = From(name);
    options.classes = {"eel", "cat", "ant"};
    EXPECT_THAT(Labels(options), ElementsAre("cat=1", "eel=0")) << name;
    options.classes = {"eel", "ant"};
    EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument, name);
  }
  ConvertOptions options = From("in");
  options.from = ConvertFormat::kTfRecord;
  options.images.clear();
  options.files = {"x"};
  options.classes = {"eel"};
  EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument, "classes");
  options.classes.clear();
  options.strict = true;
  EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument, "strict");
}

// A shard is a folder of its own, which a reader numbers by all the folders in it.
TEST_F(ConvertFolderTest, EveryShardOfImagesHasAFolderForEachClass) {
  WriteClasses();
  ConvertOptions options = From("in", ConvertFormat::kImages);
  options.num_shards = 2;
  const auto folders = Run(options);
  ASSERT_EQ(folders.size(), 2u);
  for (const std::string& folder : folders) {
    for (const char* const name : {"/bee", "/cat", "/dog", "/eel"}) {
      EXPECT_TRUE(std::filesystem::is_directory(folder + name)) << folder << name;
    }
  }
  for (const auto& [shard, label] : {std::pair(0, "cat=1"), std::pair(1, "eel=3")}) {
    ConvertOptions back = From("");
    back.images = folders[shard];
    back.output_prefix = Path("out/back");
    EXPECT_THAT(Labels(back), ElementsAre(label));
  }
  options.classes = {"eel", "cat"};
  EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument);
}

TEST_F(ConvertFolderTest, WhatIsLeftOutIsToldAndAnErrorWhereAskedFor) {
  Write("in/cat/1.jfif", MakeJpeg(3, 4));
  Write("in/cat/2.webp", "x");
  ConvertOptions options = From("in");
  EXPECT_THAT(Labels(options), ElementsAre("cat=0"));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_MESSAGE(warnings_[0]);
  options.strict = true;
  EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument);
}

// A conversion that was killed goes on only where its labels are the same.
TEST_F(ConvertFolderTest, ANewClassIsAnotherInput) {
  for (int i = 0; i < 6; ++i) Write("in/cat/" + std::to_string(i) + ".jpg", MakeJpeg(3, 4));
  ConvertOptions options = From("in");
  options.num_shards = 2;
  options.warn = nullptr;
  KillConversion(options, 5);
  std::filesystem::create_directory(Path("in/ant"));
  for (const std::string& label : Labels(options)) EXPECT_EQ(label, "cat=1");
}

// S-SOURCE-5, S-PARSE-5: the samples that webdataset finds (scripts/make_webdataset_meta.py).
TEST_F(ConvertFolderTest, WebDatasetsOwnMembersAreOfNoSample) {
  std::vector<std::string> expected;
  std::istringstream table(ReadFile(TestData("webdataset_meta.txt")));
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with('#')) expected.push_back(line);
  }
  ConvertOptions options =
      Options(ConvertFormat::kTar, {TestData("webdataset_meta.tar")}, ConvertFormat::kTfRecord);
  std::vector<std::string> found;
  for (const auto& example : ReadExamples(Run(options))) {
    std::string text = example.at("__key__").bytes.at(0);
    for (const auto& [name, values] : example) {
      if (name == "__key__") continue;
      text += " " + name + "=";
      text += values.bytes.empty() ? std::to_string(values.ints.at(0)) : values.bytes[0];
    }
    found.push_back(text);
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace millrace::readers
