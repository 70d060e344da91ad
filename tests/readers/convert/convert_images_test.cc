#include <new>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "readers/convert.h"
#include "readers/convert/input.h"
#include "readers/image_header.h"
#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/image_fixtures.h"

// Images with labels as what is written. (What is read: convert_test.)

namespace millrace::readers {
namespace {

using testing::ElementsAre;

// Takes the last bytes of an image for its pixels, and encodes all but PNG anew.
class FakeCodec final : public ImageCodec {
 public:
  explicit FakeCodec(std::string recoding = "") : recoding_(std::move(recoding)) {}

  std::string recoding() const override { return recoding_; }
  absl::StatusOr<std::optional<RecodedImage>> Recode(std::string_view encoded) const override {
    if (encoded.ends_with("hungry")) return Hungry();
    if (encoded.ends_with("greedy")) throw std::bad_alloc();
    if (encoded == "damaged") return absl::InvalidArgumentError("no image");
    if (encoded.starts_with("\x89PNG")) return std::nullopt;
    return RecodedImage{"small " + std::string(encoded), "jpeg", 10, 20};
  }
  absl::Status Check(std::string_view encoded) const override {
    if (encoded.ends_with("hungry")) return Hungry();
    return encoded.ends_with("torn") ? absl::DataLossError("torn") : absl::OkStatus();
  }
  absl::StatusOr<GreyImage> DecodeGrey(std::string_view encoded) const override {
    if (encoded.ends_with("hungry")) return Hungry();
    if (encoded.ends_with("torn")) return absl::DataLossError("torn");
    MILLRACE_ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(encoded));
    const auto size = static_cast<size_t>(header.height * header.width);
    return GreyImage{std::string(encoded.substr(encoded.size() - size)), header.height,
                     header.width};
  }

 private:
  static absl::Status Hungry() { return absl::ResourceExhaustedError("no memory"); }

  const std::string recoding_;
};

class ConvertImagesTest : public ConvertFixture {
 protected:
  ConvertOptions FromFolder(const std::string& folder, ConvertFormat to,
                            const std::string& prefix) {
    ConvertOptions options = Options(ConvertFormat::kImages, {}, to, prefix);
    options.images = folder;
    return options;
  }
  std::string Folder() {
    Write("in/cat/1.jpg", MakeJpeg(3, 4));
    Write("in/cat/deep/2.png", MakePng(5, 6));
    Write("in/dog/1.JPEG", MakeJpeg(7, 8));
    return Path("in");
  }
  static ExampleBuilder Image(int64_t label, const std::string& encoded) {
    ExampleBuilder example;
    example.AddBytes("image/encoded", encoded);
    example.AddInt("image/class/label", label);
    return example;
  }
  // The options to write these to a folder or to IDX.
  ConvertOptions FromExamples(const std::vector<ExampleBuilder>& examples, ConvertFormat to) {
    std::vector<std::string> payloads;
    for (const ExampleBuilder& example : examples) payloads.push_back(example.Serialize());
    WriteTfRecord(Path("in.tfrecord"), payloads);
    ConvertOptions options = Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, to, "e");
    options.codec = std::make_shared<FakeCodec>();
    options.overwrite = true;
    return options;
  }
};

TEST_F(ConvertImagesTest, AFolderOfImagesComesBackFileByFile) {
  const auto records = Run(FromFolder(Folder(), ConvertFormat::kTfRecord, "records"));
  const auto folders = Run(Options(ConvertFormat::kTfRecord, records, ConvertFormat::kImages));
  ASSERT_THAT(folders, ElementsAre(Path("out/t-00000-of-00001")));
  for (const char* const name : {"/cat/1.jpg", "/cat/deep/2.png", "/dog/1.JPEG"}) {
    EXPECT_EQ(ReadFile(folders[0] + name), ReadFile(Path("in") + name)) << name;
  }
  const auto back = Run(FromFolder(folders[0], ConvertFormat::kTfRecord, "back"));
  EXPECT_EQ(ReadPayloads(back), ReadPayloads(records));
  const auto manifest = nlohmann::json::parse(ReadFile(Path("out/t.manifest.json")));
  EXPECT_EQ(manifest["shards"][0]["bytes"],
            MakeJpeg(3, 4).size() + MakePng(5, 6).size() + MakeJpeg(7, 8).size());
}

TEST_F(ConvertImagesTest, AKilledConversionToFoldersGoesOnWithTheFolderThatItWasAt) {
  for (int i = 0; i < 9; ++i) Write("in/cat/" + std::to_string(i) + ".png", MakePng(1 + i, 2));
  ConvertOptions options = FromFolder(Path("in"), ConvertFormat::kImages, "t");
  options.num_shards = 3;
  options.shuffle_seed = 1;
  KillConversion(options, 5);  // in the second folder
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out")) {
    // A file of the half folder that no image will be written to again.
    if (std::filesystem::exists(entry.path() / "t-00001-of-00003")) {
      WriteFile(entry.path() / "t-00001-of-00003/cat/stale.png", "x");
    }
  }
  std::vector<int64_t> written;
  const auto report = Convert(options, [&](int64_t done, int64_t) { written.push_back(done); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(written, ElementsAre(4, 5, 6, 7, 8, 9));
  options.output_prefix = folder_ / "out/whole";
  const auto whole = Run(options);
  size_t num_files = 0;
  for (size_t shard = 0; shard < 3; ++shard) {
    for (const auto& entry : std::filesystem::directory_iterator(report->files[shard] + "/cat")) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(ReadFile(entry.path()), ReadFile(whole.at(shard) + "/cat/" + name));
      ++num_files;
    }
  }
  EXPECT_EQ(num_files, 9u);
}

TEST_F(ConvertImagesTest, FoldersThatExistAreReplacedOnlyWhenAsked) {
  const std::string in = Folder();
  Write("out/t-00000-of-00001/cat/precious.png", "x");
  ConvertOptions options = FromFolder(in, ConvertFormat::kImages, "t");
  EXPECT_MESSAGE(Error(options, absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(ReadFile(Path("out/t-00000-of-00001/cat/precious.png")), "x");
  options.overwrite = true;
  EXPECT_EQ(Run(options).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(Path("out/t-00000-of-00001/cat/precious.png")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/t-00000-of-00001/dog/1.JPEG")));
}

TEST_F(ConvertImagesTest, ATarOfSamplesBecomesAFolderUnderTheNamesOfImages) {
  WriteTar(Path("in.tar"),
           {{"a.jpg", MakeJpeg(2, 3)}, {"a.cls", "0"}, {"b.jpg", MakeJpeg(4, 5)}, {"b.cls", "1"}});
  ConvertOptions options = Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kImages);
  EXPECT_MESSAGE(Error(options));
  options.features = {{"jpg", "image/encoded"}, {"cls", "image/class/label"}};
  const auto folders = Run(options);
  EXPECT_EQ(ReadFile(folders.at(0) + "/00000/000000000.jpg"), MakeJpeg(2, 3));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00001/000000001.jpg"), MakeJpeg(4, 5));
}

TEST_F(ConvertImagesTest, LinesAreNoImages) {
  ConvertOptions options =
      Options(ConvertFormat::kText, {Write("in.txt", "a\n")}, ConvertFormat::kImages);
  options.feature = "image/encoded";
  EXPECT_MESSAGE(Error(options));
}

TEST_F(ConvertImagesTest, ImagesWithoutNamesAreCalledByNumberAndLabel) {
  ExampleBuilder odd = Image(1, MakeJpeg(1, 1));
  odd.AddBytes("image/filename", "../../etc/passwd");
  ExampleBuilder named = Image(1, MakePng(1, 1));
  named.AddBytes("image/filename", "somewhere/else.png");
  const auto folders =
      Run(FromExamples({Image(0, MakePng(2, 2)), odd, named}, ConvertFormat::kImages));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00000/000000000.png"), MakePng(2, 2));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00001/000000001.jpg"), MakeJpeg(1, 1));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00001/else.png"), MakePng(1, 1));
}

TEST_F(ConvertImagesTest, WhatFoldersCannotHoldIsAnError) {
  const auto expect = [&](const std::vector<ExampleBuilder>& examples) {
    EXPECT_MESSAGE(Error(FromExamples(examples, ConvertFormat::kImages)));
  };
  const std::string png = MakePng(2, 3);
  expect({Image(0, png), Image(3, png)});
  ExampleBuilder boxes = Image(0, png);
  boxes.AddFloat("bbox", 1);
  expect({boxes});
  ExampleBuilder high = Image(0, png);
  high.AddInt("image/height", 3);
  expect({high});
  ExampleBuilder format = Image(0, png);
  format.AddBytes("image/format", "jpeg");
  expect({format});
  ExampleBuilder text = Image(0, png);
  text.AddBytes("image/class/text", "../up");
  expect({text});
  ExampleBuilder cat = Image(0, png);
  cat.AddBytes("image/class/text", "cat");
  ExampleBuilder other = Image(1, png);
  other.AddBytes("image/class/text", "cat");
  expect({cat, other});
  ExampleBuilder same = Image(0, png);
  same.AddBytes("image/filename", "a.png");
  expect({same, same});
  expect({Image(0, "no image")});
  ExampleBuilder none;
  none.AddInt("image/class/label", 0);
  expect({none});
  ExampleBuilder kind;
  kind.AddInt("image/encoded", 1);
  kind.AddInt("image/class/label", 0);
  expect({kind});
}

TEST_F(ConvertImagesTest, ASchemaWithoutPlaceInIdxIsToldOnce) {
  const std::string in = Write("in.jsonl", "{\"n\":1}\n{\"n\":2}\n");
  ConvertOptions options = Options(ConvertFormat::kJsonLines, {in}, ConvertFormat::kIdx);
  options.schema = Schema("n:int64");
  options.codec = std::make_shared<FakeCodec>();
  int num_told = 0;
  options.tell_bad = [&](const absl::Status&) { ++num_told; };
  EXPECT_MESSAGE(Error(options));
  EXPECT_EQ(num_told, 0);
}

TEST_F(ConvertImagesTest, IdxHoldsPixelsOfOneSizeAndLabels) {
  const std::string png = MakePng(1, 2);
  ConvertOptions options = FromExamples({Image(0, png), Image(255, png)}, ConvertFormat::kIdx);
  const auto folders = Run(options);
  const std::string pixels = png.substr(png.size() - 2);
  EXPECT_EQ(
      ReadFile(folders.at(0) + "/images-idx3-ubyte"),
      BigEndian32(0x803) + BigEndian32(2) + BigEndian32(1) + BigEndian32(2) + pixels + pixels);
  EXPECT_EQ(ReadFile(folders.at(0) + "/labels-idx1-ubyte"),
            BigEndian32(0x801) + BigEndian32(2) + std::string("\0\xff", 2));
  EXPECT_MESSAGE(Error(FromExamples({Image(0, png), Image(256, png)}, ConvertFormat::kIdx)));
  EXPECT_MESSAGE(
      Error(FromExamples({Image(0, MakePng(3, 4)), Image(0, png)}, ConvertFormat::kIdx)));
  EXPECT_MESSAGE(Error(FromExamples({}, ConvertFormat::kIdx)));
}

// The header of a torn image is whole: its size is none that others must have.
TEST_F(ConvertImagesTest, AFirstImageThatIsTornDoesNotSayHowLargeTheOthersAre) {
  const ExampleBuilder good = Image(1, MakePng(1, 2));
  ConvertOptions options =
      FromExamples({Image(0, MakePng(3, 4) + "torn"), good, good}, ConvertFormat::kIdx);
  options.codec = std::make_shared<FakeCodec>("");
  options.on_damage = ConvertDamage::kSkip;
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, 2u);
  EXPECT_EQ(report->num_left_out, 1u);
}

TEST_F(ConvertImagesTest, ImagesThatAreEncodedAnewBringTheirFacts) {
  ConvertOptions options = FromFolder(Folder(), ConvertFormat::kTfRecord, "t");
  options.codec = std::make_shared<FakeCodec>("fake");
  for (const int threads : {1, 3}) {
    options.threads = threads;
    options.overwrite = true;
    const auto examples = ReadExamples(Run(options));
    ASSERT_EQ(examples.size(), 3u);
    EXPECT_THAT(examples[0].at("image/encoded").bytes, ElementsAre("small " + MakeJpeg(3, 4)));
    EXPECT_THAT(examples[0].at("image/height").ints, ElementsAre(10));
    EXPECT_THAT(examples[0].at("image/width").ints, ElementsAre(20));
    EXPECT_THAT(examples[1].at("image/encoded").bytes, ElementsAre(MakePng(5, 6)));
    EXPECT_THAT(examples[1].at("image/height").ints, ElementsAre(5));
  }
}

// It may be a good image: to leave it out would lose it.
TEST_F(ConvertImagesTest, AnImageThatThereIsNoMemoryForIsNotSkipped) {
  const std::string png = MakePng(1, 2);
  const auto expect = [&](const std::vector<ExampleBuilder>& examples, ConvertFormat to,
                          const std::string& recoding, std::optional<ConvertCheck> check) {
    ConvertOptions options = FromExamples(examples, to);
    options.codec = std::make_shared<FakeCodec>(recoding);
    options.check_images = check;
    options.on_damage = ConvertDamage::kSkip;
    int num_told = 0;
    options.tell_bad = [&](const absl::Status&) { ++num_told; };
    options.quarantine_file = Path("bad.jsonl");
    EXPECT_MESSAGE(Error(options, absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(num_told, 0);
    EXPECT_EQ(ReadFile(Path("bad.jsonl")), "");
  };
  const ExampleBuilder good = Image(0, png);
  const ExampleBuilder hungry = Image(0, png + "hungry");
  expect({good, hungry}, ConvertFormat::kTfRecord, "fake", std::nullopt);
  expect({good, hungry}, ConvertFormat::kCsv, "", ConvertCheck::kDecode);
  expect({good, hungry}, ConvertFormat::kIdx, "", std::nullopt);
  expect({hungry, good}, ConvertFormat::kCsv, "fake", std::nullopt);
}

// Also in the record that is shown to the output before any chunk.
TEST_F(ConvertImagesTest, WithoutMemoryAConversionEndsWithAnError) {
  const ExampleBuilder greedy = Image(0, "greedy");
  for (const ConvertFormat to : {ConvertFormat::kCsv, ConvertFormat::kTfRecord}) {
    ConvertOptions options = FromExamples({greedy, greedy}, to);
    options.codec = std::make_shared<FakeCodec>("fake");
    options.on_damage = ConvertDamage::kSkip;
    EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST_F(ConvertImagesTest, MembersOfTarsAreEncodedAnewToo) {
  WriteTar(Path("in.tar"), {{"a.jpg", "JPEG"}, {"a.cls", "1"}, {"b.png", "not PNG"}});
  ConvertOptions options =
      Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord, "t");
  options.codec = std::make_shared<FakeCodec>("fake");
  const auto examples = ReadExamples(Run(options));
  EXPECT_THAT(examples.at(0).at("jpg").bytes, ElementsAre("small JPEG"));
  EXPECT_THAT(examples.at(1).at("jpg").bytes, ElementsAre("small not PNG")) << "called what it is";
  WriteTar(Path("bad.tar"), {{"a.jpg", "JPEG"}, {"b.jpg", "damaged"}});
  options.files = {Path("bad.tar")};
  options.overwrite = true;
  EXPECT_MESSAGE(Error(options));
  WriteTar(Path("none.tar"), {{"a.txt", "x"}});
  options.files = {Path("none.tar")};
  EXPECT_MESSAGE(Error(options));
  options.image_feature = "txt";
  EXPECT_THAT(ReadExamples(Run(options)).at(0).at("txt").bytes, ElementsAre("small x"));
}

// What an image is called when it was encoded anew does not take it from --features.
TEST_F(ConvertImagesTest, AnImageThatIsEncodedAnewIsTakenUnderItsOldName) {
  WriteTar(Path("in.tar"), {{"a.png", "P"}, {"a.cls", "1"}});
  ConvertOptions options =
      Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord, "t");
  options.codec = std::make_shared<FakeCodec>("fake");
  options.overwrite = true;
  for (const auto& schema : {std::vector<ConvertFeature>(), Schema("png:bytes,cls:int64")}) {
    options.schema = schema;
    options.features = {{"png", "image/encoded"}, {"cls", "image/class/label"}};
    const auto renamed = ReadExamples(Run(options));
    EXPECT_THAT(renamed.at(0).at("image/encoded").bytes, ElementsAre("small P"));
    EXPECT_THAT(renamed.at(0).at("image/class/label").ints, ElementsAre(1));
    options.features = {{"png", "png"}};
    EXPECT_THAT(ReadExamples(Run(options)).at(0).at("jpg").bytes, ElementsAre("small P"));
    options.features = {{"cls", "cls"}};
    EXPECT_MESSAGE(Error(options), "no_image");
  }
}

TEST_F(ConvertImagesTest, ImagesThatAreEncodedAnewDoNotBecomeTwoOfOneName) {
  WriteTar(Path("in.tar"), {{"x.cls", "1"}, {"x.jpg", "J"}, {"x.png", "P"}});
  ConvertOptions options =
      Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord, "t");
  options.codec = std::make_shared<FakeCodec>("fake");
  options.image_feature = "png";
  EXPECT_MESSAGE(Error(options));
  options.to = ConvertFormat::kTar;
  EXPECT_MESSAGE(Error(options));
  options.features = {{"jpg", "jpg"}, {"png", "second.jpg"}};
  EXPECT_EQ(Run(options).size(), 1u);
}

TEST_F(ConvertImagesTest, FilesEndAsTheirFormatDoes) {
  ExampleBuilder jpeg = Image(0, MakeJpeg(1, 1));
  jpeg.AddBytes("image/filename", "b/i1.PNG");
  ExampleBuilder png = Image(0, MakePng(1, 1));
  png.AddBytes("image/filename", "b/i2.x.jpeg");
  ExampleBuilder fits = Image(0, MakeJpeg(2, 1));
  fits.AddBytes("image/filename", "b/i3.JPEG");
  const auto folders = Run(FromExamples({jpeg, png, fits}, ConvertFormat::kImages));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00000/i1.jpg"), MakeJpeg(1, 1));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00000/i2.x.png"), MakePng(1, 1));
  EXPECT_EQ(ReadFile(folders.at(0) + "/00000/i3.JPEG"), MakeJpeg(2, 1));
}

// Each shard is read as a folder of its own, so each has to have the first classes.
TEST_F(ConvertImagesTest, ShardsOfOneClassEachAreRefusedWithAWayOut) {
  // Of Examples, which do not name all classes, it is known at the end.
  ConvertOptions options =
      FromExamples({Image(0, MakePng(1, 1)), Image(1, MakePng(1, 1))}, ConvertFormat::kImages);
  options.num_shards = 2;
  EXPECT_MESSAGE(Error(options));
  options.shuffle_seed = 1;
  EXPECT_MESSAGE(Error(options));
  options.num_shards = 1;
  EXPECT_EQ(Run(options).size(), 1u);
}

// Chunks of about 1 MiB need to know how large images are.
TEST_F(ConvertImagesTest, RecordsOfImagesSayHowLargeTheyAre) {
  const std::string large(5 << 20, 'x');
  Write("in/c/1.jpg", large);
  Write("in/c/2.jpg", "small");
  Write("in/d/3.jpg", "x");
  WriteTar(Path("in.tar"), {{"c/1.jpg", large}, {"c/2.jpg", "small"}, {"d/3.jpg", "x"}});
  for (const char* const name : {"in", "in.tar"}) {
    const auto input =
        internal::OpenImageInput(FromFolder(Path(name), ConvertFormat::kTfRecord, "t"));
    ASSERT_TRUE(input.ok()) << input.status();
    EXPECT_GE((*input)->RecordBytes(0), large.size()) << name;
    EXPECT_LT((*input)->RecordBytes(1), 2000u) << name;
  }
}

// A tar of images is read in order by one thread at a time; which one does not matter.
TEST_F(ConvertImagesTest, TarsOfImagesAreConvertedByManyThreads) {
  NamedBytes files;
  for (int i = 0; i < 200; ++i) {
    files.emplace_back("c" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg",
                       MakeJpeg(1 + i % 7, 2));
  }
  WriteTar(Path("in.tar"), files);
  ConvertOptions options = FromFolder(Path("in.tar"), ConvertFormat::kTfRecord, "t");
  options.num_shards = 2;
  options.overwrite = true;
  const auto alone = ReadPayloads(Run(options));
  ASSERT_EQ(alone.size(), 200u);
  for (int i = 0; i < 5; ++i) {
    options.threads = 8;
    EXPECT_EQ(ReadPayloads(Run(options)), alone);
  }
  // A format that wants to see the first record reads it twice.
  options.to = ConvertFormat::kFixedLength;
  options.feature = "image/format";
  EXPECT_EQ(ReadFile(Run(options).at(0)).size(), 400u);
}

TEST_F(ConvertImagesTest, ImagesOfSamplesAreCheckedWhereThatIsAsked) {
  const std::string torn = MakePng(2, 3) + "torn";
  ConvertOptions options =
      FromExamples({Image(0, MakePng(2, 3)), Image(1, torn), Image(2, "RIFF....WEBP")},
                   ConvertFormat::kTfRecord);
  options.on_damage = ConvertDamage::kSkip;
  options.features = {{"image/encoded", "image/encoded"}};
  EXPECT_EQ(Convert(options)->num_left_out, 0u);
  options.check_images = ConvertCheck::kHeader;
  EXPECT_EQ(Convert(options)->num_left_out, 1u);
  options.check_images = ConvertCheck::kDecode;
  EXPECT_EQ(Convert(options)->num_left_out, 1u) << "this codec knows of the torn one alone";
  options.features = {{"image/class/label", "label"}};
  EXPECT_MESSAGE(Error(options), "no_image");
}

TEST_F(ConvertImagesTest, ChecksOfWhatHoldsNoImagesAreRefused) {
  ConvertOptions options = FromExamples({Image(0, MakePng(2, 3))}, ConvertFormat::kTfRecord);
  options.check_images = ConvertCheck::kHeader;
  EXPECT_MESSAGE(Error(options), "bytes");
  options.to = ConvertFormat::kImages;
  options.check_images = ConvertCheck::kDecode;
  options.codec = nullptr;
  EXPECT_MESSAGE(Error(options), "codec");
  options.from = ConvertFormat::kIdx;
  options.files.clear();
  options.images = "images-idx3";
  EXPECT_MESSAGE(Error(options), "idx");
}

}  // namespace
}  // namespace millrace::readers
