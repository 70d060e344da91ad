#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "readers/image/listing.h"
#include "readers/image_records.h"
#include "readers/image_source.h"
#include "readers/verify.h"
#include "tests/messages.h"
#include "tests/readers/image_fixtures.h"

// Which files of a folder or tar are images, which folders are classes, and what is told of others.

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ImageListingTest : public testing::Test {
 protected:
  void Add(const std::string& name, std::string_view bytes = "x") {
    WriteFile(folder_ / ("photos/" + name), bytes);
  }
  void AddFolder(const std::string& name) { fs::create_directories(folder_ / ("photos/" + name)); }
  void Link(const std::string& target, const std::string& name) {
    AddFolder(fs::path(name).parent_path());
    ASSERT_EQ(::symlink(target.c_str(), (folder_ / ("photos/" + name)).c_str()), 0);
  }
  std::string Root() const { return folder_ / "photos"; }

  ImageLabelOptions Options() {
    return {.warn = [this](std::string_view text) { warnings_.emplace_back(text); }};
  }
  // "path=label" of every image in order; what is told goes to warnings_.
  std::vector<std::string> Labels(const ImageLabelOptions& options) {
    warnings_.clear();
    const auto source = OpenImageFolder(Root(), options);
    EXPECT_TRUE(source.ok()) << source.status();
    const auto records = OpenImageRecords(Root(), {.labels = options});
    EXPECT_TRUE(records.ok()) << records.status();
    std::vector<std::string> labels;
    if (!source.ok() || !records.ok()) return labels;
    classes_ = (*source)->class_names();
    EXPECT_EQ((*records)->num_records(), (*source)->num_images());
    for (uint64_t i = 0; i < (*source)->num_images(); ++i) {
      EXPECT_EQ((*records)->Label(i), (*source)->LabelOf(i));
      const std::string path = (*records)->files()[i].substr(Root().size() + 1);
      labels.push_back(path + "=" + std::to_string((*source)->LabelOf(i)));
    }
    return labels;
  }
  absl::Status Error(const ImageLabelOptions& options = {}) const {
    const absl::Status status = OpenImageFolder(Root(), options).status();
    EXPECT_EQ(OpenImageRecords(Root(), {.labels = options}).status(), status);
    return status;
  }

  TempFolder folder_;
  std::vector<std::string> warnings_;
  std::vector<std::string> classes_;
};

// S-SOURCE-7: TensorFlow's image_dataset_from_directory and torchvision's find_classes number all
// subfolders.
TEST_F(ImageListingTest, ListingEndsWhereTheCallerWantsThat) {
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) Add(name);
  WriteTar(folder_ / "a.tar", {{"cat/1.jpg", "x"}, {"dog/1.jpg", "x"}});
  for (const int last : {1, 3}) {
    int asked = 0;
    ImageLabelOptions options;
    options.cancels = [&] { return ++asked >= last; };
    EXPECT_TRUE(absl::IsCancelled(OpenImageFolder(Root(), options).status()));
    asked = 0;
    EXPECT_TRUE(absl::IsCancelled(OpenImageRecords(Root(), {.labels = options}).status()));
    asked = 0;
    const ImageTarOptions tar = {.labels = options, .random_access = true};
    EXPECT_TRUE(absl::IsCancelled(OpenImageTar(folder_ / "a.tar", tar).status()));
  }
}

TEST_F(ImageListingTest, FoldersWithoutImagesCountAndAreTold) {
  Add("ant/1.jpg");
  AddFolder("bee");
  Add("cat/1.jpg");
  Add("dog/readme.txt");
  Add("eel/deep/1.jpg");
  EXPECT_THAT(Labels(Options()), ElementsAre("ant/1.jpg=0", "cat/1.jpg=2", "eel/deep/1.jpg=4"));
  EXPECT_THAT(classes_, ElementsAre("ant", "bee", "cat", "dog", "eel"));
  ASSERT_EQ(warnings_.size(), 2u) << "once for each of the two that were opened";
  EXPECT_EQ(warnings_[0], warnings_[1]);
  EXPECT_MESSAGE(warnings_[0]);
}

// S-SOURCE-7.
TEST_F(ImageListingTest, HiddenFoldersAreNoClasses) {
  Add("b/1.jpg");
  for (const char* const name : {".git", "@eaDir", "__MACOSX", "#recycle", "$RECYCLE.BIN",
                                 "lost+found", "System Volume Information"}) {
    Add(std::string(name) + "/b/1.jpg");
    Add("b/" + std::string(name) + "/2.jpg");
  }
  EXPECT_THAT(Labels(Options()), ElementsAre("b/1.jpg=0"));
  EXPECT_THAT(warnings_, IsEmpty());
}

// S-SOURCE-7.
TEST_F(ImageListingTest, AListOfClassesFixesTheLabels) {
  Add("cat/1.jpg");
  Add("eel/1.jpg");
  AddFolder("bee");
  AddFolder("docs");
  ImageLabelOptions options = Options();
  options.classes = {"eel", "ant", "bee", "cat"};
  EXPECT_THAT(Labels(options), ElementsAre("cat/1.jpg=3", "eel/1.jpg=0"));
  EXPECT_EQ(classes_, options.classes);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_MESSAGE(warnings_[0]);
  options.classes = {"eel", "ant", "catt"};
  EXPECT_MESSAGE(Error(options), absl::StatusCode::kInvalidArgument, "other");
  options.classes = {"eel", "cat", "eel"};
  EXPECT_MESSAGE(Error(options), absl::StatusCode::kInvalidArgument, "twice");
  options.classes = {"eel", "cat"};
  options.label = 1;
  EXPECT_MESSAGE(Error(options), absl::StatusCode::kInvalidArgument, "label");
}

TEST_F(ImageListingTest, AListOfClassesGoesForNamesWithAWnidToo) {
  Add("n00000002_1.JPEG");
  Add("n00000001_1.JPEG");
  ImageLabelOptions options = Options();
  options.classes = {"n00000000", "n00000001", "n00000002"};
  EXPECT_THAT(Labels(options), ElementsAre("n00000001_1.JPEG=1", "n00000002_1.JPEG=2"));
  EXPECT_THAT(warnings_, testing::Contains(testing::HasSubstr("'n00000000' (label 0)")).Times(2));
}

TEST_F(ImageListingTest, ClassesAreReadFromLines) {
  const auto read = [this](std::string_view text) {
    WriteFile(folder_ / "classes.txt", text);
    return ReadClassNames(folder_ / "classes.txt");
  };
  EXPECT_THAT(*read("cat\nsea lion\n"), ElementsAre("cat", "sea lion"));
  EXPECT_THAT(*read("\xef\xbb\xbf"
                    "cat\r\nsea lion\r\n\r\n"),
              ElementsAre("cat", "sea lion"));
  EXPECT_THAT(*read("cat\rdog"), ElementsAre("cat", "dog"));
  EXPECT_MESSAGE(read("cat\n\ndog"), absl::StatusCode::kInvalidArgument, "empty");
  EXPECT_MESSAGE(read("cat\ndog\ncat"), absl::StatusCode::kInvalidArgument, "twice");
  EXPECT_MESSAGE(read("\n"), absl::StatusCode::kInvalidArgument, "none");
  constexpr std::string_view kUtf16(
      "\xff\xfe"
      "c\0a\0t\0",
      8);
  EXPECT_MESSAGE(read(kUtf16), absl::StatusCode::kInvalidArgument, "utf16");
  EXPECT_EQ(ReadClassNames(folder_ / "no.txt").status().code(), absl::StatusCode::kNotFound);
}

// S-SOURCE-7.
TEST_F(ImageListingTest, EveryNameOfAJpegIsRead) {
  for (const char* const name : {"a.jpg", "b.JPEG", "c.jpe", "d.JFIF", "e.png"}) {
    Add(std::string("c/") + name);
  }
  EXPECT_THAT(Labels(Options()),
              ElementsAre("c/a.jpg=0", "c/b.JPEG=0", "c/c.jpe=0", "c/d.JFIF=0", "c/e.png=0"));
  EXPECT_THAT(warnings_, IsEmpty());
}

// S-SOURCE-7.
TEST_F(ImageListingTest, ImagesOfOtherKindsAreToldAndAreAnErrorWhereAskedFor) {
  Add("c/a.jpg");
  Add("c/b.webp");
  Add("d/c.TIF");
  Add("d/photo", MakeJpeg(2, 2));
  Add("d/x.dat", MakePng(2, 2));
  Add("d/labels.dat", "no image");
  Add("d/notes.txt", MakePng(2, 2));
  Add("d/.hidden.webp");
  AddFolder("d/folder.webp");
  Add("d/1.jpg");
  EXPECT_THAT(Labels(Options()), ElementsAre("c/a.jpg=0", "d/1.jpg=1"));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_MESSAGE(warnings_[0]);
  EXPECT_MESSAGE(Error({.strict = true}), absl::StatusCode::kInvalidArgument, "strict");
  const auto verified = Verify(std::vector<std::string>{Root()});
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->notes, std::vector<std::string>{warnings_[0]});
}

TEST_F(ImageListingTest, OfManyThatAreLeftOutTenAreNamed) {
  Add("c/a.jpg");
  for (int i = 10; i < 35; ++i) Add("c/" + std::to_string(i) + ".bmp");
  Labels(Options());
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_MESSAGE(warnings_[0]);
}

TEST_F(ImageListingTest, WhereNothingIsReadTheOthersAreNamed) {
  AddFolder("c");
  EXPECT_MESSAGE(Error(), absl::StatusCode::kNotFound, "nothing");
  Add("c/1.webp");
  Add("c/2.gif");
  EXPECT_MESSAGE(Error(), absl::StatusCode::kNotFound, "others");
}

// S-SOURCE-7.
TEST_F(ImageListingTest, ALoopOfLinksIsAnErrorThatNamesTheLink) {
  Add("cat/1.jpg");
  Add("dog/1.jpg");
  Link("..", "cat/up");
  EXPECT_MESSAGE(Error(), absl::StatusCode::kFailedPrecondition, "up");
  fs::remove(folder_ / "photos/cat/up");
  Link("../dog", "cat/a");
  Link("../cat", "dog/b");
  EXPECT_MESSAGE(Error(), absl::StatusCode::kFailedPrecondition, "two");
  const auto verified = Verify(std::vector<std::string>{Root()});
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->unreadable.size(), 1u);
  fs::remove(folder_ / "photos/cat/a");
  fs::remove(folder_ / "photos/dog/b");
  Link("self", "cat/self");
  EXPECT_FALSE(Error().ok());
  fs::remove(folder_ / "photos/cat/self");
  Link("..", "cat/.hidden");
  EXPECT_THAT(Labels({}), ElementsAre("cat/1.jpg=0", "dog/1.jpg=1"));
}

// What `find -L` lists.
std::set<std::string> FoundByFind(const std::string& root) {
  std::set<std::string> found;
  FILE* const pipe = ::popen(("cd '" + root + "' && find -L . -type f").c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string path(line);
    found.insert(path.substr(2, path.size() - 3));
  }
  EXPECT_EQ(::pclose(pipe), 0);
  return found;
}

// S-SOURCE-7.
TEST_F(ImageListingTest, LinksAreReadUnderEachOfTheirPathsAsFindDoes) {
  Add("cat/1.jpg");
  Add("dog/deep/2.jpg");
  Link("cat", "copy");
  Link("../dog/deep", "cat/deep");
  Link("../../cat/1.jpg", "dog/deep/link.jpg");
  WriteFile(folder_ / "elsewhere/3.png", "x");
  Link("../elsewhere", "far");
  const auto listing = internal::ListImages(Root());
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(std::set<std::string>(listing->paths.begin(), listing->paths.end()),
            FoundByFind(Root()));
  EXPECT_EQ(listing->paths.size(), 9u);
  EXPECT_THAT(listing->folders, ElementsAre("cat", "copy", "dog", "far"));
}

TEST_F(ImageListingTest, ALinkToNothingIsNoSilence) {
  Add("cat/1.jpg");
  Link("nowhere", "cat/more");  // a folder, perhaps
  EXPECT_THAT(Labels(Options()), ElementsAre("cat/1.jpg=0"));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_MESSAGE(warnings_[0]);
  Link("nowhere", "dog");  // a class, perhaps
  EXPECT_MESSAGE(Error(), absl::StatusCode::kNotFound, "class");
}

class TarListingTest : public testing::Test {
 protected:
  // "label" of every image, and the classes.
  std::string Labels(const NamedBytes& files, ImageLabelOptions options = {}) {
    WriteTar(path_, files);
    warnings_.clear();
    options.warn = [this](std::string_view text) { warnings_.emplace_back(text); };
    const auto source = OpenImageTar(path_, {.labels = options});
    if (!source.ok()) return std::string(source.status().message());
    std::string labels;
    for (uint64_t i = 0; i < (*source)->num_images(); ++i) {
      labels += std::to_string((*source)->LabelOf(i)) + " ";
    }
    for (const std::string& name : (*source)->class_names()) labels += name + " ";
    return labels;
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "images.tar";
  std::vector<std::string> warnings_;
};

// S-SOURCE-7.
TEST_F(TarListingTest, FoldersWithoutImagesCountAndAreTold) {
  EXPECT_EQ(Labels({{"./", ""}, {"cat/1.jpg", "x"}, {"./dog/1.jpg", "x"}}), "0 1 cat dog ");
  EXPECT_EQ(Labels({{"./train/", ""},
                    {"./train/cat/", ""},
                    {"./train/bee/", ""},
                    {"./train/cat/1.jpg", "x"},
                    {"./train/@eaDir/1.jpg", "x"},
                    {"./train/ant/readme.txt", "x"},
                    {"./train/dog/1.jpg", "x"}}),
            "2 3 ant bee cat dog ");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_MESSAGE(warnings_[0]);
}

TEST_F(TarListingTest, TheOnlyClassWithImagesIsAClass) {
  EXPECT_EQ(Labels({{"train/cat/1.jpg", "x"}, {"train/ant/", ""}}), "1 ant cat ");
  EXPECT_EQ(Labels({{"n00000002/n00000002_1.JPEG", "x"}, {"n00000001/", ""}}),
            "1 n00000001 n00000002 ");
  // What lies beside the images of the classes is none of them.
  EXPECT_EQ(Labels({{"val/n00000002_1.JPEG", "x"}, {"notes/", ""}}), "0 n00000002 ");
  EXPECT_EQ(Labels({{"in/images/cat/1.jpg", "x"}, {"in/images/dog/1.jpg", "x"}, {"in/boxes/", ""}}),
            "0 1 cat dog ");
  EXPECT_EQ(Labels({{"in/images/1.jpg", "x"}, {"in/boxes/", ""}}, {.label = 7}), "7 ");
}

TEST_F(TarListingTest, AListOfClassesFixesTheLabels) {
  EXPECT_EQ(Labels({{"cat/1.jpg", "x"}, {"dog/1.jpg", "x"}}, {.classes = {"dog", "bee", "cat"}}),
            "2 0 dog bee cat ");
}

TEST_F(TarListingTest, ImagesOfOtherKindsAreTold) {
  const NamedBytes files = {{"c/1.jfif", "x"},
                            {"c/2.webp", "x"},
                            {"c/3", MakePng(2, 2)},
                            {"c/4.txt", MakePng(2, 2)},
                            {"d/5.jpg", "x"}};
  EXPECT_EQ(Labels(files), "0 1 c d ");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_MESSAGE(warnings_[0]);
  EXPECT_MESSAGE(Labels(files, {.strict = true}), "strict");
}

}  // namespace
}  // namespace millrace::readers
