#include <filesystem>

#include "readers/expand_files.h"
#include "readers/http/file.h"
#include "tests/readers/http/nginx.h"
#include "tests/readers/source/record_source_fixture.h"

// Shards behind a real web server.

namespace millrace::readers {
namespace {

using testing::HasSubstr;
using Code = absl::StatusCode;

class HttpNginxTest : public RecordSourceFixture {
 protected:
  void SetUp() override {
    if (!Nginx::IsThere()) GTEST_SKIP() << "no " << Nginx::kProgram;
    nginx_.emplace(data_.path());
    options_.http.block_bytes = 64 << 10;
    options_.http.backoff = std::chrono::milliseconds(0);
  }

  std::optional<Nginx> nginx_;
};

// S-ERROR-6.
TEST_F(HttpNginxTest, ShardsBehindUrlsAreRecordsAndTheirIndexesAreKept) {
  const std::vector<std::string> a = Payloads(300, 1), b = Payloads(200, 2);
  Shard("a.tfrecord", Frames(a));
  Shard("b.tfrecord.gz", Deflated(Frames(b), Wrapper::kGzip));
  std::vector<std::string> all = a;
  all.insert(all.end(), b.begin(), b.end());
  const std::vector<std::string> urls = {nginx_->Url("a.tfrecord"), nginx_->Url("b.tfrecord.gz")};
  ASSERT_EQ(*ExpandFiles(urls), urls);
  uint64_t fingerprint = 0;
  for (const bool first : {true, false}) {
    const auto source = Open(urls);
    ASSERT_TRUE(source.ok()) << source.status();
    ExpectRecords(**source, all);
    EXPECT_EQ(walked_, first) << "and where the compressed one can be entered";
    if (first) fingerprint = (*source)->Fingerprint();
    EXPECT_EQ((*source)->Fingerprint(), fingerprint);
    EXPECT_GE((*source)->memory_bytes(), options_.http.cache_bytes);
  }
  const auto local = Open({data_ / "a.tfrecord", data_ / "b.tfrecord.gz"});
  EXPECT_EQ((*local)->Fingerprint(), fingerprint) << "the same data wherever it lies";
  ASSERT_TRUE(Open({urls[0]}).ok());
  EXPECT_FALSE(walked_);
}

// S-ERROR-5.
TEST_F(HttpNginxTest, AFileThatIsReplacedIsAnErrorAndThenAnotherFile) {
  const std::vector<std::string> before = Payloads(300, 1), after = Payloads(300, 5);
  Shard("a.tfrecord", Frames(before));
  const std::string url = nginx_->Url("a.tfrecord");
  options_.http.cache_bytes = 0;
  const auto source = Open({url});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(ReadRecord(**source, 7).value(), before[7]);
  WriteFile(data_ / "next", Frames(after));
  SetTime(data_ / "next", 1'800'000'000);
  std::filesystem::rename(data_ / "next", data_ / "a.tfrecord");
  absl::Status status;
  for (uint64_t i = 300; i-- > 0 && status.ok();) {
    const auto record = ReadRecord(**source, i);
    status = record.status();
    EXPECT_EQ(record.value_or(before[i]), before[i]) << "of a block in memory";
  }
  EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::ContainsRegex("ETag \"[^\"]*\".*ETag \"[^\"]*\""));
  EXPECT_THAT(status.message(), HasSubstr(url));
  const auto again = Open({url});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(walked_) << "the index was of the other version";
  ExpectRecords(**again, after);
}

TEST_F(HttpNginxTest, WhatIsNotThereOrNotAllowedIsItsCode) {
  const absl::Status absent = Open({nginx_->Url("absent.tfrecord")}).status();
  EXPECT_EQ(absent.code(), Code::kNotFound) << absent;
  EXPECT_THAT(absent.message(), HasSubstr("absent.tfrecord"));
  EXPECT_EQ(Open({nginx_->Url("forbidden/a")}).status().code(), Code::kPermissionDenied);
}

TEST_F(HttpNginxTest, AServerWithoutRangesGivesSmallFilesOnly) {
  Shard("small", Frames({"a", "b"}));
  Shard("large", Frames({std::string(100'000, 'x')}));
  const auto small = Open({nginx_->Url("rangeless/small")});
  ASSERT_TRUE(small.ok()) << small.status();
  ExpectRecords(**small, {"a", "b"});
  EXPECT_EQ(Open({nginx_->Url("rangeless/large")}).status().code(), Code::kFailedPrecondition);
}

TEST_F(HttpNginxTest, ASlowServerIsWaitedFor) {
  const std::vector<std::string> payloads = {std::string(60'000, 'x'), "y"};
  Shard("a", Frames(payloads));
  const auto source = Open({nginx_->Url("slow/a")});
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectRecords(**source, payloads);
}

TEST_F(HttpNginxTest, AFileReadInOrderIsFetchedOnceInWholeBlocks) {
  Shard("a", std::string(300'000, 'x'));
  const auto files = HttpFiles::Make(options_.http).value();
  const std::string url = nginx_->Url("a");
  const auto file = files->Open({&url, 1}).value().front().file;
  std::vector<std::byte> out(10'000);
  for (uint64_t offset = 0; offset < 300'000; offset += out.size()) {
    ASSERT_EQ(file->ReadAt(offset, out).value(), out.size());
  }
  const std::string log = nginx_->FinishAndLog();
  EXPECT_EQ(std::ranges::count(log, '\n'), 6) << log;  // to open it, and 5 blocks of 64 KiB
  EXPECT_THAT(log, HasSubstr("206 65536 bytes=65536-131071\n"));
}

}  // namespace
}  // namespace millrace::readers
