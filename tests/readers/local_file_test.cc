#include "readers/local_file.h"

#include <sys/stat.h>

#include <array>
#include <string>
#include <thread>

#include "tests/readers/temp_files.h"

namespace millrace::readers {
namespace {

TEST(OpenAndFetchTest, IsAnOpenFileOrItsError) {
  const TempFolder folder;
  WriteFile(folder / "f", "0123456789");
  const auto opened = OpenAndFetch(folder / "f");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->size(), 10u);
  EXPECT_EQ((*opened)->path(), folder / "f");
  std::array<std::byte, 4> bytes = {};
  ASSERT_TRUE(ReadFully(**opened, 3, bytes).ok());
  EXPECT_EQ(bytes[0], std::byte{'3'});
  EXPECT_EQ(OpenAndFetch(folder / "absent").status().code(), absl::StatusCode::kNotFound);
  const absl::Status of_folder = OpenAndFetch(folder.path()).status();
  EXPECT_EQ(of_folder.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(of_folder.message().find(folder.path()), absl::string_view::npos);
}

TEST(ReadWholeFileTest, BytesUpToTheLimitAreReadAndOneMoreIsRefused) {
  const TempFolder folder;
  for (const size_t size : {0, 1, 4095, 4096, 4097, 100'000}) {
    std::string bytes(size, 'x');
    if (size > 0) bytes.back() = '\0';
    WriteFile(folder / "f", bytes);
    for (const uint64_t limit : {uint64_t{size}, uint64_t{size} + 1, uint64_t{1} << 40}) {
      const auto read = ReadWholeFile(folder / "f", limit);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(*read == bytes) << size;
    }
    if (size == 0) continue;
    const auto refused = ReadWholeFile(folder / "f", size - 1);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(folder / "f"), absl::string_view::npos);
  }
}

TEST(ReadWholeFileTest, AHugeSparseFileIsRefusedWithoutMemory) {
  const TempFolder folder;
  WriteFile(folder / "f", "");
  std::filesystem::resize_file(folder / "f", uintmax_t{1} << 42);
  EXPECT_EQ(ReadWholeFile(folder / "f", 1000).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReadWholeFileTest, WhatCannotBeReadIsNamed) {
  const TempFolder folder;
  EXPECT_EQ(ReadWholeFile(folder / "absent", 10).status().code(), absl::StatusCode::kNotFound);
  const absl::Status status = ReadWholeFile(folder.path(), 10).status();
  EXPECT_NE(status.message().find(folder.path()), absl::string_view::npos) << status;
}

// As a shell's <(...) gives it.
TEST(ReadWholeFileTest, APipeIsReadToItsEndAndCountsAgainstTheLimit) {
  const std::string bytes(300'000, 'p');
  for (const uint64_t limit : {bytes.size(), bytes.size() - 1}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    UniqueFd in(ends[0]);
    std::thread writer([&bytes, out = UniqueFd(ends[1])] {
      size_t done = 0;
      while (done < bytes.size()) {
        const ssize_t n = ::write(out.get(), bytes.data() + done, bytes.size() - done);
        ASSERT_GT(n, 0);
        done += static_cast<size_t>(n);
      }
    });
    const auto read = ReadWholeFile("/dev/fd/" + std::to_string(in.get()), limit);
    std::string rest(1000, '\0');  // lets the writer end
    while (::read(in.get(), rest.data(), rest.size()) > 0) {
    }
    writer.join();
    ASSERT_EQ(read.ok(), limit == bytes.size()) << read.status();
    EXPECT_TRUE(!read.ok() || *read == bytes);
  }
}

TEST(ReadWholeFileTest, ANamedPipeThatNobodyWritesToIsEmpty) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto read = ReadWholeFile(folder / "pipe", 10);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, "");
}

}  // namespace
}  // namespace millrace::readers
