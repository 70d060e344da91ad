#include "readers/convert.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "readers/record_reader.h"
#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/image_fixtures.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

// The Examples of one shard, read by libprotobuf.
std::vector<ExampleValues> ReadShard(const std::string& path) {
  std::vector<ExampleValues> examples;
  const auto reader = OpenTfRecordReader(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  for (;;) {
    const auto record = (*reader)->Next();
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok() || !record->has_value()) return examples;
    const auto values = ParseWithProtobuf((*record)->payload);
    EXPECT_TRUE(values.has_value());
    examples.push_back(values.value_or(ExampleValues()));
  }
}

class ConvertTest : public testing::Test {
 protected:
  ConvertTest() { std::filesystem::create_directory(folder_ / "out"); }

  ConvertOptions Idx(uint32_t count) {
    WriteFile(folder_ / "t-images-idx3-ubyte", IdxImages(count, 4, 5));
    WriteFile(folder_ / "t-labels-idx1-ubyte", IdxLabels(count));
    ConvertOptions options;
    options.from = ConvertFormat::kIdx;
    options.images = folder_ / "t-images-idx3-ubyte";
    options.output_prefix = folder_ / "out/t";
    return options;
  }
  ConvertOptions Folder() {
    WriteFile(folder_ / "in/cat/1.jpg", MakeJpeg(3, 4));
    WriteFile(folder_ / "in/cat/2.png", MakePng(5, 6));
    WriteFile(folder_ / "in/dog/1.jpg", MakeJpeg(7, 8));
    ConvertOptions options;
    options.images = folder_ / "in";
    options.output_prefix = folder_ / "out/t";
    return options;
  }
  // The image/filename of every record, shard by shard.
  static std::vector<std::string> Order(const ConvertReport& report) {
    std::vector<std::string> names;
    for (const std::string& file : report.files) {
      for (const ExampleValues& example : ReadShard(file)) {
        names.push_back(example.at("image/filename").bytes.at(0));
      }
    }
    return names;
  }
  std::vector<std::string> Left() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempFolder folder_;
};

TEST_F(ConvertTest, ExamplesCarryTheNamesOfTfSlim) {
  const auto report = Convert(Folder());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->files, ElementsAre(folder_ / "out/t-00000-of-00001.tfrecord"));
  const auto examples = ReadShard(report->files[0]);
  ASSERT_EQ(examples.size(), 3u);
  const ExampleValues& png = examples[1];
  EXPECT_EQ(png.size(), 7u);
  EXPECT_THAT(png.at("image/encoded").bytes, ElementsAre(MakePng(5, 6)));
  EXPECT_THAT(png.at("image/format").bytes, ElementsAre("png"));
  EXPECT_THAT(png.at("image/class/label").ints, ElementsAre(0));
  EXPECT_THAT(png.at("image/class/text").bytes, ElementsAre("cat"));
  EXPECT_THAT(png.at("image/filename").bytes, ElementsAre("cat/2.png"));
  EXPECT_THAT(png.at("image/height").ints, ElementsAre(5));
  EXPECT_THAT(png.at("image/width").ints, ElementsAre(6));
  EXPECT_THAT(examples[2].at("image/format").bytes, ElementsAre("jpeg"));
  EXPECT_THAT(examples[2].at("image/encoded").bytes, ElementsAre(MakeJpeg(7, 8)));
  EXPECT_THAT(report->class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(report->records_per_label, UnorderedElementsAre(Pair(0, 2u), Pair(1, 1u)));
  EXPECT_EQ(report->file_bytes, std::filesystem::file_size(report->files[0]));
}

TEST_F(ConvertTest, ShardsAreContiguousBlocksOfEqualSize) {
  ConvertOptions options = Idx(11);
  options.num_shards = 4;
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, 11u);
  std::vector<size_t> sizes;
  for (const std::string& file : report->files) sizes.push_back(ReadShard(file).size());
  EXPECT_THAT(sizes, ElementsAre(2, 3, 3, 3));
  const auto order = Order(*report);
  for (size_t i = 0; i < 11; ++i) {
    EXPECT_EQ(order[i], "t-images-idx3-ubyte/" + std::to_string(i) + ".png");
  }
}

TEST_F(ConvertTest, SeedShufflesAllAndTheSameSeedAgain) {
  ConvertOptions options = Idx(50);
  options.num_shards = 3;
  options.overwrite = true;
  const auto plain = Order(*Convert(options));
  options.shuffle_seed = 7;
  const auto first = Order(*Convert(options));
  const std::string bytes = ReadFile(folder_ / "out/t-00001-of-00003.tfrecord");
  const auto second = Order(*Convert(options));
  EXPECT_EQ(first, second);
  EXPECT_EQ(ReadFile(folder_ / "out/t-00001-of-00003.tfrecord"), bytes);
  EXPECT_NE(first, plain);
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(plain));
  options.shuffle_seed = 8;
  EXPECT_NE(Order(*Convert(options)), first);
}

TEST_F(ConvertTest, CompressedShardsHoldTheSameRecords) {
  ConvertOptions options = Idx(5);
  const auto plain = Order(*Convert(options));
  options.overwrite = true;
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    options.compression = compression;
    EXPECT_EQ(Order(*Convert(options)), plain);
  }
  EXPECT_TRUE(ReadFile(folder_ / "out/t-00000-of-00001.tfrecord").starts_with('\x78'));  // zlib
}

TEST_F(ConvertTest, TarsConvertLikeTheirFolder) {
  ConvertOptions options = Folder();
  const auto from_folder = Convert(options);
  const auto expected = ReadShard(from_folder->files[0]);
  NamedBytes files;
  for (const char* name : {"cat/1.jpg", "cat/2.png", "dog/1.jpg"}) {
    files.emplace_back(name, ReadFile(folder_ / "in/" + name));
  }
  WriteTar(folder_ / "in.tar.gz", files, archive_write_add_filter_gzip);
  options.images = folder_ / "in.tar.gz";
  options.output_prefix = folder_ / "out/tar";
  const auto from_tar = Convert(options);
  ASSERT_TRUE(from_tar.ok()) << from_tar.status();
  EXPECT_EQ(ReadShard(from_tar->files[0]), expected);
  options.overwrite = true;
  options.shuffle_seed = 1;
  EXPECT_THAT(Order(*Convert(options)),
              UnorderedElementsAre("cat/1.jpg", "cat/2.png", "dog/1.jpg"));
  options.max_memory_bytes = 10;
  EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ConvertTest, ExistingShardsAreNotReplacedUnlessAsked) {
  ConvertOptions options = Idx(4);
  options.num_shards = 2;
  WriteFile(folder_ / "out/t-00001-of-00002.tfrecord", "precious");
  const auto refused = Convert(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_MESSAGE(refused.status());
  EXPECT_EQ(ReadFile(folder_ / "out/t-00001-of-00002.tfrecord"), "precious");
  EXPECT_THAT(Left(), ElementsAre("t-00001-of-00002.tfrecord"));
  options.overwrite = true;
  EXPECT_TRUE(Convert(options).ok());
  EXPECT_EQ(ReadShard(folder_ / "out/t-00001-of-00002.tfrecord").size(), 2u);
}

TEST_F(ConvertTest, SetOfAnotherNumberOfShardsIsNotJoined) {
  ConvertOptions options = Idx(4);
  WriteFile(folder_ / "out/t-00002-of-00004.tfrecord", "precious");
  WriteFile(folder_ / "out/t-small-00000-of-00001.tfrecord", "of another prefix");
  options.num_shards = 2;
  const auto refused = Convert(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_MESSAGE(refused.status());
  EXPECT_EQ(ReadFile(folder_ / "out/t-00002-of-00004.tfrecord"), "precious");
  options.overwrite = true;
  ASSERT_TRUE(Convert(options).ok());
  EXPECT_THAT(Left(), UnorderedElementsAre("t-00000-of-00002.tfrecord", "t-00001-of-00002.tfrecord",
                                           "t-small-00000-of-00001.tfrecord", "t.manifest.json"));
}

// A folder that appears while images are read stops the moves after the first one.
TEST_F(ConvertTest, FailedMoveBringsTheReplacedShardsBack) {
  ConvertOptions options = Idx(4);
  options.num_shards = 2;
  options.overwrite = true;
  WriteFile(folder_ / "out/t-00000-of-00002.tfrecord", "old 0");
  WriteFile(folder_ / "out/t-00000-of-00001.tfrecord", "old of another set");
  const auto report = Convert(options, [&](int64_t done, int64_t) {
    if (done == 4) WriteFile(folder_ / "out/t-00001-of-00002.tfrecord/x", "in the way");
  });
  EXPECT_EQ(report.status().code(), absl::StatusCode::kAlreadyExists) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("t-00001-of-00002"));
  EXPECT_EQ(ReadFile(folder_ / "out/t-00000-of-00002.tfrecord"), "old 0");
  EXPECT_EQ(ReadFile(folder_ / "out/t-00000-of-00001.tfrecord"), "old of another set");
  EXPECT_THAT(Left(), UnorderedElementsAre("t-00000-of-00001.tfrecord", "t-00000-of-00002.tfrecord",
                                           "t-00001-of-00002.tfrecord"));
  EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ConvertTest, ShardsMadeMeanwhileAreNotReplaced) {
  const auto report = Convert(Idx(3), [&](int64_t done, int64_t) {
    if (done == 3) WriteFile(folder_ / "out/t-00000-of-00001.tfrecord", "of another run");
  });
  EXPECT_EQ(report.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(folder_ / "out/t-00000-of-00001.tfrecord"), "of another run");
}

TEST_F(ConvertTest, FoldersOfKilledConversionsAreRemovedAndThoseInUseStay) {
  WriteFile(folder_ / "out/.t.convert-killed/t-00000-of-00001.tfrecord", "half");
  WriteFile(folder_ / "out/.t.convert-in_use/t-00000-of-00001.tfrecord", "half");
  WriteFile(folder_ / "out/.t.convert-backup/replaced/t-00000-of-00001.tfrecord", "old");
  WriteFile(folder_ / "out/.u.convert-killed/x", "of another prefix");
  const UniqueFd in_use(::open((folder_ / "out/.t.convert-in_use").c_str(), O_RDONLY));
  ASSERT_TRUE(in_use.valid());
  ASSERT_EQ(::flock(in_use.get(), LOCK_EX), 0);
  ConvertOptions options = Idx(3);
  ASSERT_TRUE(Convert(options).ok());
  EXPECT_THAT(Left(),
              UnorderedElementsAre("t-00000-of-00001.tfrecord", "t.manifest.json",
                                   ".t.convert-in_use", ".t.convert-backup", ".u.convert-killed"));
  options.overwrite = true;
  ASSERT_TRUE(Convert(options).ok());
  EXPECT_THAT(Left(), UnorderedElementsAre("t-00000-of-00001.tfrecord", "t.manifest.json",
                                           ".t.convert-in_use", ".u.convert-killed"));
}

TEST_F(ConvertTest, KilledConversionGoesOnWhereItWas) {
  ConvertOptions options = Idx(11);
  options.num_shards = 4;
  options.shuffle_seed = 5;
  KillConversion(options, 6);  // in the third shard
  ASSERT_THAT(Left(), ElementsAre(testing::StartsWith(".t.convert-")));
  std::vector<int64_t> written;
  const auto report = Convert(options, [&](int64_t done, int64_t) { written.push_back(done); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(written, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(report->num_records, 11u);
  EXPECT_EQ(report->records_per_label.size(), 10u);
  EXPECT_EQ(Left().size(), 5u);

  ConvertOptions whole = options;
  whole.output_prefix = folder_ / "out/whole";
  const auto at_once = Convert(whole);
  ASSERT_TRUE(at_once.ok()) << at_once.status();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ReadFile(report->files[i]), ReadFile(at_once->files[i]));
  }
}

TEST_F(ConvertTest, CancelledConversionContinuesWithTheUnfinishedShard) {
  ConvertOptions options = Idx(11);
  options.num_shards = 4;
  for (const int threads : {1, 3}) {
    options.threads = threads;
    options.overwrite = true;
    int64_t seen = 0;
    const auto see = [&](int64_t done, int64_t) { seen = done; };
    options.cancels = [&] { return seen == 6; };  // in the third shard
    EXPECT_EQ(Convert(options, see).status().code(), absl::StatusCode::kCancelled);
    options.cancels = {};
    std::vector<int64_t> written;
    ASSERT_TRUE(Convert(options, [&](int64_t done, int64_t) { written.push_back(done); }).ok());
    EXPECT_THAT(written, ElementsAre(6, 7, 8, 9, 10, 11));
    EXPECT_EQ(Left().size(), 5u);
  }
}

TEST_F(ConvertTest, CancelledConversionWithoutAWholeShardLeavesNothing) {
  ConvertOptions options = Idx(11);
  options.num_shards = 2;
  int64_t seen = 0;
  options.cancels = [&] { return seen == 5; };  // the first shard is not closed
  const auto report = Convert(options, [&](int64_t done, int64_t) { seen = done; });
  EXPECT_EQ(report.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Left(), testing::IsEmpty());
}

TEST_F(ConvertTest, KilledConversionOfSomethingElseIsRemoved) {
  ConvertOptions options = Idx(11);
  options.num_shards = 4;
  KillConversion(options, 6);
  options.shuffle_seed = 1;
  int64_t num_written = 0;
  ASSERT_TRUE(Convert(options, [&](int64_t, int64_t) { ++num_written; }).ok());
  EXPECT_EQ(num_written, 11);
  EXPECT_EQ(Left().size(), 5u);
}

// The same names, sizes and times, in another folder.
TEST_F(ConvertTest, KilledConversionOfAnotherFolderIsRemoved) {
  ConvertOptions options = Folder();
  options.num_shards = 3;
  KillConversion(options, 2);
  const std::filesystem::path other = folder_ / "other";
  std::filesystem::copy(folder_ / "in", other, std::filesystem::copy_options::recursive);
  for (const std::string name : {"cat/1.jpg", "cat/2.png", "dog/1.jpg"}) {
    std::filesystem::last_write_time(other / name,
                                     std::filesystem::last_write_time(folder_ / ("in/" + name)));
  }
  options.images = other;
  int64_t num_written = 0;
  ASSERT_TRUE(Convert(options, [&](int64_t, int64_t) { ++num_written; }).ok());
  EXPECT_EQ(num_written, 3);
}

TEST_F(ConvertTest, ShardsThatAKilledConversionMovedAreItsOwn) {
  ConvertOptions options = Idx(11);
  options.num_shards = 4;
  KillConversion(options, 11);
  const auto moved = folder_ / "out/t-00001-of-00004.tfrecord";
  std::filesystem::rename(folder_ / "out" + ("/" + Left()[0] + "/t-00001-of-00004.tfrecord"),
                          moved);
  int64_t num_written = 0;
  const auto report = Convert(options, [&](int64_t, int64_t) { ++num_written; });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(num_written, 3) << "the last shard";
  EXPECT_EQ(Order(*report).size(), 11u);
  EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ConvertTest, ManifestTellsOfEveryShard) {
  ConvertOptions options = Folder();
  options.num_shards = 2;
  options.compression = Compression::kGzip;
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto manifest = nlohmann::json::parse(ReadFile(folder_ / "out/t.manifest.json"));
  EXPECT_EQ(manifest["format"], "tfrecord");
  EXPECT_EQ(manifest["compression"], "gzip");
  EXPECT_EQ(manifest["source"], folder_ / "in");
  EXPECT_EQ(manifest["records"], 3);
  EXPECT_EQ(manifest["classes"], (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(manifest["shards"].size(), 2u);
  const auto& last = manifest["shards"][1];
  EXPECT_EQ(last["file"], "t-00001-of-00002.tfrecord");
  EXPECT_EQ(last["records"], 2);
  EXPECT_EQ(last["bytes"], std::filesystem::file_size(report->files[1]));
  EXPECT_EQ(last["labels"], (std::map<std::string, int>{{"0", 1}, {"1", 1}}));
}

TEST_F(ConvertTest, FailureMidwayLeavesNothingBehind) {
  ConvertOptions options = Folder();
  options.num_shards = 3;
  WriteFile(folder_ / "in/dog/1.jpg", "not an image");
  const auto report = Convert(options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(report.status());
  EXPECT_THAT(Left(), testing::IsEmpty());
}

TEST_F(ConvertTest, FailureMidwayKeepsTheShardsThatWereThere) {
  ConvertOptions options = Folder();
  options.overwrite = true;
  WriteFile(folder_ / "out/t-00000-of-00001.tfrecord", "precious");
  WriteFile(folder_ / "in/dog/1.jpg", "not an image");
  EXPECT_FALSE(Convert(options).ok());
  EXPECT_EQ(ReadFile(folder_ / "out/t-00000-of-00001.tfrecord"), "precious");
}

TEST_F(ConvertTest, ProgressCountsEveryImage) {
  std::vector<int64_t> done;
  const auto report = Convert(Idx(3), [&](int64_t images, int64_t total) {
    done.push_back(images);
    EXPECT_EQ(total, 3);
  });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST_F(ConvertTest, BadOptionsAreNamed) {
  const auto expect = [&](auto&& change) {
    ConvertOptions options = Idx(3);
    change(options);
    const auto report = Convert(options);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument) << report.status();
    EXPECT_MESSAGE(report.status());
  };
  expect([](auto& o) { o.images.clear(); });
  expect([](auto& o) { o.output_prefix.clear(); });
  expect([](auto& o) { o.num_shards = 0; });
  expect([](auto& o) { o.num_shards = 4; });
  expect([](auto& o) { o.compression = Compression::kAuto; });
  expect([](auto& o) { o.compression_level = 10; });
  expect([](auto& o) { o.label = 1; });
}

TEST_F(ConvertTest, MissingOutputFolderIsNotFound) {
  ConvertOptions options = Idx(3);
  options.output_prefix = folder_ / "nowhere/t";
  EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kNotFound);
}

// The Debian package dataset-fashion-mnist, where it is installed.
TEST_F(ConvertTest, FashionMnistTestSetConverts) {
  ConvertOptions options;
  options.from = ConvertFormat::kIdx;
  options.images = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz";
  if (!std::filesystem::exists(options.images)) GTEST_SKIP() << "dataset-fashion-mnist is missing";
  options.output_prefix = folder_ / "out/test";
  options.num_shards = 4;
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, 10000u);
  EXPECT_EQ(report->records_per_label.size(), 10u);
  for (const auto& [label, count] : report->records_per_label) EXPECT_EQ(count, 1000u) << label;
}

// The names of shards may tell their compression; the manifest does in any case.
TEST_F(ConvertTest, ASuffixTellsTheCompressionOfShards) {
  ConvertOptions options = Folder();
  options.compression = Compression::kGzip;
  options.suffix = ".tfrecord.gz";
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->files, ElementsAre(folder_ / "out/t-00000-of-00001.tfrecord.gz"));
  EXPECT_TRUE(ReadFile(report->files[0]).starts_with("\x1f\x8b"));
  const auto manifest = nlohmann::json::parse(ReadFile(folder_ / "out/t.manifest.json"));
  EXPECT_EQ(manifest["format"], "tfrecord");
  EXPECT_EQ(manifest["compression"], "gzip");
  EXPECT_EQ(manifest["shards"][0]["file"], "t-00000-of-00001.tfrecord.gz");
  // It is one set with those of other names.
  options.suffix = "";
  EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kAlreadyExists);
  options.overwrite = true;
  ASSERT_TRUE(Convert(options).ok());
  EXPECT_FALSE(std::filesystem::exists(report->files[0]));
}

TEST_F(ConvertTest, ASuffixThatTellsSomethingElseIsRefused) {
  ConvertOptions options = Folder();
  for (const char* const suffix : {".gz", ".tfrecord.gz", ".csv", "tfrecord", ".tfrecord/x"}) {
    options.suffix = suffix;
    EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument, suffix);
  }
  options.suffix = ".png";
  options.to = ConvertFormat::kImages;
  EXPECT_MESSAGE(Convert(options), absl::StatusCode::kInvalidArgument, "images");
}

}  // namespace
}  // namespace millrace::readers
