#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "base/atomic_file.h"
#include "tests/damaged_bytes.h"
#include "tests/messages.h"
#include "tests/readers/source/record_source_fixture.h"

// The indexes of a record source: kept, checked, made anew, and shared by threads and processes.

namespace millrace::readers {
namespace {

using RecordSourceIndexTest = RecordSourceFixture;

TEST_F(RecordSourceIndexTest, SecondOpenUsesTheKeptIndex) {
  const std::string shard = Shard("a", Frames(Payloads(100, 1)));
  ASSERT_TRUE(Open({shard}).ok());
  EXPECT_TRUE(walked_);
  const auto written = std::filesystem::last_write_time(IndexFile());
  const auto again = Open({shard});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(walked_);
  EXPECT_EQ(std::filesystem::last_write_time(IndexFile()), written);
  ExpectRecords(**again, Payloads(100, 1));
}

TEST_F(RecordSourceIndexTest, AllNamesOfAFileShareAnIndex) {
  const std::string shard = Shard("a", Frames({"x"}));
  ASSERT_TRUE(Open({shard}).ok());
  const std::string roundabout =
      data_ / "../" + std::filesystem::path(data_.path()).filename().string();
  for (const std::string& same : {std::filesystem::relative(shard).string(), data_ / "/a",
                                  data_ / "./a", roundabout + "/a"}) {
    ASSERT_TRUE(Open({same}).ok()) << same;
    EXPECT_FALSE(walked_) << same;
  }
}

TEST_F(RecordSourceIndexTest, ChangedShardIsIndexedAgain) {
  const std::string shard = Shard("a", Frames({"one", "two"}));
  ASSERT_TRUE(Open({shard}).ok());
  WriteFile(shard, Frames({"three", "3"}));  // the same size, another time
  SetTime(shard, 1'700'000'001);
  auto source = Open({shard});
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE(walked_);
  ExpectRecords(**source, {"three", "3"});
  WriteFile(shard, Frames({"three", "3", "and more"}));  // another size, the same time
  SetTime(shard, 1'700'000'001);
  source = Open({shard});
  ASSERT_TRUE(source.ok());
  ExpectRecords(**source, {"three", "3", "and more"});
}

// S-DAMAGE-1.
TEST_F(RecordSourceIndexTest, IndexThatLiesIsNoDamageOfTheShard) {
  const std::string shard = Shard("a", Frames({"one", "seven", "xyz"}));
  options_.resync = true;
  ASSERT_TRUE(Open({shard}).ok());
  Shard("a", Frames({"seven", "one", "xyz"}));
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(ReasonOf(ReadRecord(**source, 0).status()), RecordErrorReason::kUnknown);
}

TEST_F(RecordSourceIndexTest, IndexThatLiesIsCaughtAtTheRecord) {
  const std::string shard = Shard("a", Frames({"one", "seven", "xyz"}));
  ASSERT_TRUE(Open({shard}).ok());
  Shard("a", Frames({"seven", "one", "xyz"}));  // the same size and time: the index looks good
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok());
  EXPECT_FALSE(walked_);
  const auto first = ReadRecord(**source, 0);
  EXPECT_EQ(first.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_MESSAGE(first.status());
  EXPECT_EQ(ReasonOf(ReadRecord(**source, 1).status()), RecordErrorReason::kLengthCrc);
  EXPECT_EQ(ReadRecord(**source, 2).value(), "xyz");
}

TEST_F(RecordSourceIndexTest, EveryDamageOfAnIndexLeadsToANewOne) {
  const auto payloads = std::vector<std::string>{"one", "two", "four"};
  const std::string shard = Shard("a", Frames(payloads));
  ASSERT_TRUE(Open({shard}).ok());
  const std::string file = IndexFile();
  const std::string good = ReadFile(file);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string flipped = good;
    flipped[at] ^= 0x10;
    for (const std::string& bad : {flipped, good.substr(0, at)}) {
      WriteFile(file, bad);
      const auto source = Open({shard});
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_TRUE(walked_) << at;
      EXPECT_EQ((*source)->num_records(), 3u);
      EXPECT_EQ(ReadFile(file), good) << "written again";
    }
  }
}

TEST_F(RecordSourceIndexTest, DrawnDamageOfAnIndexCostsAWalkOnly) {
  std::vector<std::string> payloads;
  for (size_t i = 0; i < 60; ++i) payloads.emplace_back(i % 7, static_cast<char>('a' + i % 26));
  const std::string shard = Shard("a", Frames(payloads));
  ASSERT_TRUE(Open({shard}).ok());
  const std::string file = IndexFile();
  const std::string good = ReadFile(file);
  std::mt19937_64 random(20);
  for (int round = 0; round < 520; ++round) {
    WriteFile(file, DamagedBytes(good, random));
    const auto source = Open({shard});
    ASSERT_TRUE(source.ok()) << round << source.status();
    ASSERT_TRUE(walked_) << round;
    ASSERT_EQ((*source)->num_records(), payloads.size());
    for (const size_t i : {size_t{0}, size_t{31}, size_t{59}}) {
      ASSERT_EQ(ReadRecord(**source, i).value(), payloads[i]) << round;
    }
    ASSERT_EQ(ReadFile(file), good) << round;
  }
}

TEST_F(RecordSourceIndexTest, IndexOfAnotherShardIsNotUsed) {
  const std::vector<std::string> files = {Shard("a", Frames({"12", "3"})),
                                          Shard("b", Frames({"4", "56"}))};  // of one size and time
  std::vector<std::string> indexes;
  for (const std::string& file : files) {
    std::filesystem::remove(IndexFile());
    ASSERT_TRUE(Open({file}).ok());
    indexes.push_back(IndexFile());
  }
  ASSERT_TRUE(Open({files[0]}).ok());
  std::filesystem::rename(indexes[0], indexes[0] + ".kept");
  std::filesystem::rename(indexes[1], indexes[0]);
  std::filesystem::rename(indexes[0] + ".kept", indexes[1]);
  const auto source = Open(files);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(walked_);
  ExpectRecords(**source, {"12", "3", "4", "56"});
}

TEST_F(RecordSourceIndexTest, GoodBadAndMissingIndexesAndCompressedShardsMayBeMixed) {
  std::vector<std::string> files;
  std::vector<std::string> want;
  for (int i = 0; i < 37; ++i) {
    want.push_back("one of " + std::to_string(i));
    want.push_back("two of " + std::to_string(i));
    const std::string bytes = Frames({want.end() - 2, want.end()});
    files.push_back(Shard("shard-" + std::to_string(100 + i),
                          i % 5 == 4 ? Deflated(bytes, Wrapper::kGzip) : bytes));
  }
  ASSERT_TRUE(Open(files).ok());
  int seen = 0;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(index_.path())) {
    if (entry.path().extension() == ".index") names.push_back(entry.path());
  }
  ASSERT_EQ(names.size(), files.size());
  for (const int threads : {1, 3}) {
    options_.threads = threads;
    for (const std::string& name : names) {
      if (++seen % 4 == 1) WriteFile(name, "damaged");
      if (seen % 4 == 2) std::filesystem::remove(name);
    }
    const auto source = Open(files);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE(walked_);
    ExpectRecords(**source, want);
  }
}

TEST_F(RecordSourceIndexTest, FirstMissingShardOfManyIsTheError) {
  std::vector<std::string> files;
  for (int i = 0; i < 37; ++i) files.push_back(Shard("s" + std::to_string(i), Frames({"x"})));
  ASSERT_TRUE(Open(files).ok());
  for (const int missing : {9, 8, 30, 36})
    std::filesystem::remove(files[static_cast<size_t>(missing)]);
  for (const int threads : {1, 3}) {
    options_.threads = threads;
    const absl::Status status = Open(files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_MESSAGE(status, "first_missing");
  }
}

TEST_F(RecordSourceIndexTest, PlainShardWithAnIndexIsNotTouchedBeforeItIsRead) {
  const std::string shard = Shard("a", Frames({"one", "two"}));
  ASSERT_TRUE(Open({shard}).ok());
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok()) << source.status();
  const std::string away = data_ / "away";
  std::filesystem::rename(shard, away);
  EXPECT_EQ((*source)->num_records(), 2u);
  const absl::Status missing = ReadRecord(**source, 0).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(missing);
  std::filesystem::rename(away, shard);
  EXPECT_EQ(ReadRecord(**source, 0).value(), "one");
}

TEST_F(RecordSourceIndexTest, IndexOfAPlainShardDoesNotHideAWrongCompression) {
  const std::string plain = Shard("plain", Frames({"x"}));
  const std::string zipped = Shard("zipped", Deflated(Frames({"x"}), Wrapper::kGzip));
  ASSERT_TRUE(Open({plain, zipped}).ok());
  options_.compression = Compression::kGzip;
  EXPECT_EQ(ReasonOf(Open({plain}).status()), RecordErrorReason::kWrongCompression);
  options_.compression = Compression::kNone;
  EXPECT_EQ(ReasonOf(Open({zipped}).status()), RecordErrorReason::kWrongCompression);
}

TEST_F(RecordSourceIndexTest, UnusableIndexFolderCostsOnlySpeed) {
  const std::string shard = Shard("a", Frames({"one"}));
  WriteFile(data_ / "file", "");
  for (const std::string& folder :
       {data_ / "file", data_ / "file/below", std::string("/proc/no")}) {
    options_.index_folder = folder;
    for (int i = 0; i < 2; ++i) {
      const auto source = Open({shard});
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_TRUE(walked_);
      ExpectRecords(**source, {"one"});
    }
  }
}

TEST_F(RecordSourceIndexTest, IndexFolderIsMade) {
  options_.index_folder = index_ / "deep/er";
  ASSERT_TRUE(Open({Shard("a", Frames({"one"}))}).ok());
  EXPECT_FALSE(std::filesystem::is_empty(options_.index_folder));
}

TEST_F(RecordSourceIndexTest, ThreadsAtOnceBuildAnIndexOnce) {
  const std::string shard = Shard("a", Frames(Payloads(300, 5)));
  std::atomic<int> walks = 0;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      RecordSourceOptions options = options_;
      bool walked = false;
      options.progress = [&walked](int64_t, int64_t) { walked = true; };
      const auto source = RecordSource::Open({shard}, options);
      if (source.ok() && (*source)->num_records() == 300) ++good;
      if (walked) ++walks;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
  EXPECT_EQ(walks, 1);
}

TEST_F(RecordSourceIndexTest, ProcessesAtOnceBuildAnIndexOnce) {
  constexpr int kWalked = 10;
  const std::string shard = Shard("a", Frames(Payloads(300, 5)));
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto source = Open({shard});
      if (!source.ok() || (*source)->num_records() != 300) ::_exit(1);
      ::_exit(walked_ ? kWalked : 0);
    }
    children.push_back(child);
  }
  int walks = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 1);
    if (WEXITSTATUS(status) == kWalked) ++walks;
  }
  EXPECT_EQ(walks, 1);
}

TEST_F(RecordSourceIndexTest, LimitHoldsForKeptIndexesToo) {
  const std::string shard = Shard("a", Frames({"short", std::string(1000, 'x')}));
  ASSERT_TRUE(Open({shard}).ok());
  options_.max_record_bytes = 999;
  const auto source = Open({shard});
  EXPECT_FALSE(walked_);
  const auto error = GetRecordError(source.status());
  ASSERT_TRUE(error.has_value()) << source.status();
  EXPECT_EQ(error->reason, RecordErrorReason::kAbsurdLength);
  EXPECT_EQ(error->ordinal, 1);
}

// What a killed process leaves goes; what is being written, or is not ours, stays.
TEST_F(RecordSourceIndexTest, BuildingAnIndexRemovesWhatKilledProcessesLeft) {
  const std::string hash = "0123456789abcdef0123456789abcdef";
  const std::string abandoned = index_ / ("." + hash + ".index.tmp-1-0");
  const std::string other = index_ / ("." + hash + ".select.tmp-1-7");
  const std::string foreign = index_ / ".notes.tmp-1-0";
  const auto in_use = AtomicFile::Create(index_ / (hash + ".index"));
  ASSERT_TRUE(in_use.ok());
  for (const std::string& path : {abandoned, other, foreign}) WriteFile(path, "half");
  const std::string shard = Shard("a", Frames({"one"}));
  ASSERT_TRUE(Open({shard}).ok());
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE((*in_use)->Commit(/*sync=*/false).ok()) << "its temporary is there";

  WriteFile(abandoned, "half");
  ASSERT_TRUE(Open({shard}).ok());
  EXPECT_TRUE(std::filesystem::exists(abandoned)) << "with its index there, nobody looks";
}

}  // namespace
}  // namespace millrace::readers
