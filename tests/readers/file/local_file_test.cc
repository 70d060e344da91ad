
#include "readers/file/local_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "readers/open_file.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

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
  EXPECT_MESSAGE(of_folder);
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
    EXPECT_MESSAGE(refused.status());
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
  EXPECT_MESSAGE(status) << status;
}

const FileAccess kAccesses[] = {{FileIo::kPread, false},  {FileIo::kPread, true},
                                {FileIo::kMmap, false},   {FileIo::kMmap, true},
                                {FileIo::kDirect, false}, {FileIo::kDirect, true}};

TEST(FileAccessTest, EveryWayToReadHasTheBytesOfTheFile) {
  const TempFolder folder;
  for (const size_t size : {0, 1, 4096, 8193, 1'200'000}) {
    std::string bytes;
    for (size_t i = 0; i < size; i += 8) bytes += absl::StrCat(absl::Hex(i, absl::kZeroPad8));
    bytes.resize(size);
    WriteFile(folder / "f", bytes);
    for (const FileAccess& access : kAccesses) {
      const auto file = OpenFile(folder / "f", access);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((*file)->size(), size);
      EXPECT_EQ((*file)->path(), folder / "f");
      for (const size_t offset : {0, 1, 4095, 4096, 8192, 1'199'999}) {
        for (const size_t count : {0, 1, 4096, 4097, 1'100'000}) {
          std::string out(count, '?');
          const auto got = (*file)->ReadAt(offset, std::as_writable_bytes(std::span(out)));
          ASSERT_TRUE(got.ok()) << got.status();
          const std::string want = offset < size ? bytes.substr(offset, count) : "";
          EXPECT_TRUE(out.substr(0, *got) == want) << size << " " << offset << " " << count;
          if ((*file)->TryReadAt(offset, std::as_writable_bytes(std::span(out)))) {
            EXPECT_TRUE(out == want) << size << " " << offset << " " << count;
          }
        }
      }
    }
  }
}

TEST(FileAccessTest, ALongFileIsReadInOrderTwiceWhileItIsDropped) {
  const TempFolder folder;
  constexpr uint64_t kSize = uint64_t{48} << 20;
  WriteFile(folder / "f", "");
  std::filesystem::resize_file(folder / "f", kSize);
  for (const FileAccess& access : {FileAccess{FileIo::kPread, true}, {FileIo::kMmap, true}}) {
    const auto file = OpenFile(folder / "f", access).value();
    const std::vector<std::byte> zeros(uint64_t{4} << 20);
    std::vector<std::byte> out(zeros.size());
    for (uint64_t offset = 0; offset < 2 * kSize; offset += out.size()) {
      std::memset(out.data(), 1, out.size());
      if (!file->TryReadAt(offset % kSize, out)) {
        ASSERT_TRUE(ReadFully(*file, offset % kSize, out).ok());
      }
      EXPECT_EQ(std::memcmp(out.data(), zeros.data(), out.size()), 0);
    }
  }
}

TEST(FileAccessTest, AFileThatBecameShorterIsAnErrorNotASignal) {
  const TempFolder folder;
  for (const FileAccess& access : kAccesses) {
    WriteFile(folder / "f", std::string(100'000, 'x'));
    const auto file = OpenFile(folder / "f", access).value();
    std::filesystem::resize_file(folder / "f", 10'000);
    std::vector<std::byte> out(20'000);
    EXPECT_FALSE(ReadFully(*file, 50'000, out).ok());
    EXPECT_FALSE(ReadFully(*file, 5'000, out).ok());
    EXPECT_TRUE(ReadFully(*file, 0, std::span(out).first(5'000)).ok());
  }
}

// As a shell's <(...) gives it.
// Files of no size: one that cannot be read there, and one that has bytes.
TEST(OpenFileTest, WhatIsSaidToBeEmptyAndIsNotIsAnError) {
  const absl::Status unreadable = OpenFile("/proc/self/mem").status();
  EXPECT_FALSE(unreadable.ok());
  EXPECT_THAT(std::string(unreadable.message()), testing::HasSubstr("Input/output error"));
  EXPECT_EQ(OpenFile("/proc/self/status").status().code(), absl::StatusCode::kInvalidArgument);
  const TempFolder folder;
  WriteFile(folder / "empty", "");
  EXPECT_EQ(OpenFile(folder / "empty").value()->size(), 0u);
}

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
