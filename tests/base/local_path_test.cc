// Paths and URLs of files. Expected values are those of RFC 3986 and RFC 8089.
#include "base/local_path.h"

#include <gtest/gtest.h>

#include <string>

#include "base/atomic_file.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace {
namespace {

TEST(SchemeOf, IsWhatStandsBeforeTheFirstColonAndTwoSlashes) {
  EXPECT_EQ(SchemeOf("https://host/file"), "https");
  EXPECT_EQ(SchemeOf("S3://bucket/a"), "S3");
  EXPECT_EQ(SchemeOf("git+ssh.x-1://h"), "git+ssh.x-1");
  for (const char* path : {"", "/a/b", "a", "://", "a://b", "1s://b", "a/b://c", "data/s3://x",
                           "http:/x", "a b://c"}) {
    EXPECT_EQ(SchemeOf(path), "") << path;
  }
}

TEST(LocalPath, IsAPathOrThatOfAFileUrl) {
  EXPECT_EQ(LocalPath("a/b").value(), "a/b");
  EXPECT_EQ(LocalPath("").value(), "");
  EXPECT_EQ(LocalPath("file:///a/b.tar").value(), "/a/b.tar");
  EXPECT_EQ(LocalPath("FILE://LocalHost/a").value(), "/a");
  EXPECT_EQ(LocalPath("file:///a%20b/%C3%a9%25").value(), "/a b/\xc3\xa9%");
}

TEST(LocalPath, WrongFileUrlsAreErrors) {
  for (const char* url : {"file://a/b", "file://", "file://host", "file:///a%2", "file:///a%zz"}) {
    EXPECT_EQ(LocalPath(url).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  EXPECT_MESSAGE(LocalPath("file://other/b").status());
  EXPECT_MESSAGE(LocalPath("file:///100%").status());
  EXPECT_MESSAGE(LocalPath("file://data").status());
}

TEST(LocalPath, OtherSchemesAreSaidNotToBeRead) {
  for (const char* url :
       {"s3://b/x", "gs://b/x", "hdfs://n:8020/x", "abfss://c@a/x", "ftp://h/x"}) {
    EXPECT_EQ(LocalPath(url).status().code(), absl::StatusCode::kUnimplemented) << url;
    EXPECT_EQ(LocalPathOrUrl(url).status().code(), absl::StatusCode::kUnimplemented) << url;
  }
  EXPECT_MESSAGE(LocalPath("s3://b/x").status());
  EXPECT_MESSAGE(LocalPathOrUrl("gs://b/x").status());
  EXPECT_MESSAGE(LocalPath("https://h/words.txt").status());
}

TEST(LocalPath, UrlsOfHttpStayWhereTheyAreRead) {
  EXPECT_EQ(LocalPathOrUrl("https://h/x?y").value(), "https://h/x?y");
  EXPECT_EQ(LocalPathOrUrl("HTTP://h/x").value(), "HTTP://h/x");
  EXPECT_EQ(LocalPathOrUrl("file:///x").value(), "/x");
}

TEST(LocalPath, FilesAreWrittenWhereItSays) {
  const TempFolder folder;
  auto file = AtomicFile::Create("file://" + folder.path() + "/a%20b");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Commit(/*sync=*/false).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "a b"));
  EXPECT_EQ(AtomicFile::Create("hdfs://x/y").status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace millrace
