#include "base/made_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/temp_files.h"

namespace millrace {
namespace {

TEST(MadeFolderTest, FoldersThatStayEmptyGoAway) {
  const TempFolder folder;
  for (const std::string path : {"a/b/c", "a", "a/b/"}) {
    {
      const auto made = MadeFolder::Make(folder / path);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_TRUE(std::filesystem::is_directory(folder / path));
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "a")) << path;
  }
}

TEST(MadeFolderTest, WhatIsInUseOrWasThereStays) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "old");
  {
    auto made = MadeFolder::Make(folder / "old/new/empty");
    ASSERT_TRUE(made.ok()) << made.status();
    const MadeFolder moved = *std::move(made);
    WriteFile(folder / "old/new/file", "x");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "old/new/empty"));
  EXPECT_EQ(ReadFile(folder / "old/new/file"), "x");
  { ASSERT_TRUE(MadeFolder::Make(folder / "old/new").ok()); }
  EXPECT_TRUE(std::filesystem::exists(folder / "old/new"));
}

TEST(MadeFolderTest, AFileInTheWayIsAnErrorThatLeavesNothing) {
  const TempFolder folder;
  WriteFile(folder / "file", "x");
  EXPECT_FALSE(MadeFolder::Make(folder / "file/below").ok());
  EXPECT_EQ(ReadFile(folder / "file"), "x");
}

}  // namespace
}  // namespace millrace
